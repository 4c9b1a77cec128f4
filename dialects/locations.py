"""Where in the user's source an operation comes from.

Mosaic's locations nest: a name around a call site around a file position ("add:" in "_kernel" at
kernel.py:12:4). The innermost file position is the line the user wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import cast

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, LocationAttr, NameLoc, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from pallasite.diagnostics import KernelLine, Note, SourceLocation, Unsupported


def _children(location: Attribute) -> Iterable[Attribute]:
    # Call sites hold (callee, caller): the callee is the kernel's own line. Fused and named
    # locations hold theirs in parameters too, whatever class spells them.
    if isinstance(location, NameLoc) and isinstance(location.location, CallSiteLoc):
        *scopes, name = location.desc.data.split("/")
        if name in scopes:
            # JAX lowers an operation that a kernel has several times only once and calls that:
            # the callee is where the first of them is, the caller where this one is.
            yield location.location.caller
    for value in vars(location).values():
        if isinstance(value, Attribute):
            yield value
        elif isinstance(value, tuple):
            yield from (v for v in cast(tuple[object, ...], value) if isinstance(v, Attribute))


def position_of(location: Attribute) -> SourceLocation | None:
    """The innermost file position of a location attribute, None if it has none."""
    if isinstance(location, FileLineColLoc):
        file, line, column = location.filename, location.line, location.column
        return SourceLocation(file.data, line.data, column.data)
    for child in _children(location):
        if isinstance(child, StringAttr):
            continue
        position = position_of(child)
        if position is not None:
            return position
    return None


def source_location(op: Operation) -> SourceLocation | None:
    """The file position of `op`, of the nearest operation around it that has one, or else of a
    neighbour: JAX leaves the position out where it reuses a function it has traced before. A
    function is where its first operation is that has a position, unless it has one itself."""
    if isinstance(op, FuncOp):
        position = position_of(first_location(op))
        if position is not None:
            return position
    current: Operation | None = op
    while current is not None:
        position = position_of(current.location)
        if position is not None:
            return position
        current = current.parent_op()
    for following in (False, True):
        neighbour = op.next_op if following else op.prev_op
        while neighbour is not None:
            position = position_of(neighbour.location)
            if position is not None:
                return position
            neighbour = neighbour.next_op if following else neighbour.prev_op
    return None


def nearest_location(op: Operation) -> SourceLocation | None:
    """The `source_location` of `op`, else of the first operation inside it that has one: of what a
    file says too little of to be valid."""
    locations = (source_location(inner) for inner in op.walk())
    return next((location for location in locations if location is not None), None)


def refusal(op: Operation, code: str, message: str, *notes: str) -> Unsupported:
    """The diagnostic, at the source line of `op`, of what cannot be done with it."""
    return Unsupported(code, message, source_location(op), [Note(note) for note in notes])


def first_location(function: FuncOp) -> LocationAttr:
    """The location of `function`, or of the first operation in it that has one: JAX gives none to
    kernels."""
    for op in function.walk():
        if position_of(op.location) is not None:
            return op.location
    return function.location


_BLOCK = StringAttr("block of the grid")


def block_location(location: LocationAttr) -> LocationAttr:
    """`location` for what the lowering of windows writes to reach a block of an array."""
    return NameLoc(_BLOCK, location)


_ARGUMENT = "argument of the kernel"


def argument_location(location: LocationAttr, title: str) -> LocationAttr:
    """`location`, where a kernel begins, for the memory that it is called with, which messages call
    `title`."""
    return NameLoc(StringAttr(f"{_ARGUMENT}: {title}"), location)


def allocated_name(op: Operation, otherwise: str) -> str:
    """What messages call the memory that `op` allocates: the part that it has in the kernel, its
    name in the text, or `otherwise`."""
    if (title := _title(op)) is not None:
        return title
    name = op.results[0].name_hint
    return f"%{name}" if name else otherwise


def _title(op: Operation) -> str | None:
    """What the location of `op` calls the memory of an argument of the kernel; None of others."""
    location = op.location
    if not isinstance(location, NameLoc) or not location.desc.data.startswith(f"{_ARGUMENT}: "):
        return None
    return location.desc.data.partition(": ")[2]


def allocation_place(op: Operation) -> SourceLocation | None:
    """Where `op` allocates, or where the kernel begins that is called with what it allocates."""
    location = source_location(op)
    return location if location is None or _title(op) is None else kernel_line(location)


def kernel_line(location: SourceLocation | None) -> KernelLine | None:
    """`location` as that where a kernel begins."""
    return None if location is None else KernelLine(location.file, location.line, location.column)


# JAX names the parts of the loop that `emit_pipeline` becomes (unless `trace_scopes` is false).
_PIPELINE_TRANSFER = re.compile(r"\bep_(initialize_\d+|copy_in|copy_out|wait_out)/")


def reaches_block(op: Operation) -> bool:
    """Whether `op` is at a `block_location`, or where a pipeline of JAX's transfers a block."""
    location = op.location
    while isinstance(location, NameLoc):
        if location.desc == _BLOCK or _PIPELINE_TRANSFER.search(location.desc.data):
            return True
        location = location.location
    return False
