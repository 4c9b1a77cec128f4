"""Refuses kernels whose buffers do not fit into the memories of a core (spec/pallas_semantics.md
8.2).

The compiler gives a kernel only a part of VMEM: 16 MiB, or 32 MiB on v6e and v7x, unless the
compiler parameter `vmem_limit_bytes` says otherwise. Buffers count with their padding, and blocks
of a window as often as it has buffers. Found by asking libtpu 0.0.51: windows of exactly that size
are accepted, a quarter of a MiB more is "ran out of memory in memory space vmem". Buffers that
nothing reads (`unread.py`), and blocks of arrays that are in VMEM anyway (`arrays_in_vmem.py`),
count only against the size of VMEM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import cast

from xdsl.dialects.builtin import IntegerType, MemRefType, ModuleOp, Signedness
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from pallasite.diagnostics import Note, SourceLocation, Unsupported
from pallasite.dialects import memref, tpu
from pallasite.dialects.kernel import (
    DYNAMIC,
    Kernel,
    Window,
    describe_kernel,
    form_of,
    kernel_function,
)
from pallasite.dialects.kernel_call import Call, call_of
from pallasite.dialects.locations import source_location
from pallasite.dialects.types import AnyMemRef, memory_space
from pallasite.dialects.walking import of_kind, operations_of
from pallasite.passes.check_kernel.arrays_in_vmem import arrays_in_vmem
from pallasite.passes.check_kernel.unread import unread
from pallasite.passes.reference_tiles import block_bytes
from pallasite.targets import Target

_SCRATCH = "internal_scratch_in_bytes"
"""Compiler parameter: VMEM that the compiler may use for its own moves."""
_LEAST_SCRATCH = 36864
"""The least that it accepts, on every target (asked of libtpu 0.0.51)."""
_NAMED = 4
"""Buffers that a refusal names."""


_OF_WHOLE = {
    "vmem": "call it with a grid and blocks of its arrays",
    "smem": "keep its tables in HBM (memory_space=pl.ANY) and copy the part that is read: "
    "pltpu.sync_copy(table.at[pl.ds(start, size)], scratch)",
}
"""What to write for arrays that are whole in a memory, as they are without a grid and as prefetched
scalars."""


_OWN = "make smaller what the kernel allocates: scratch that holds a part, blocks of a pipeline"
"""What to write where a kernel allocates most itself."""


@dataclass(frozen=True)
class Buffer:
    """A buffer that a kernel needs."""

    bytes: int
    what: Callable[[], str]
    """What it is for, which only a refusal says."""
    value: SSAValue

    @property
    def line(self) -> SourceLocation | None:
        """The line of its first use: the signature of a kernel has no position."""
        return _first_line(self.value)

    @property
    def note(self) -> Note:
        """The note about it in a refusal."""
        kind, name = self.value.type, self.value.name_hint
        told = f"%{name}: {kind}" if name else str(kind)
        return Note(f"{self.bytes} bytes: {self.what()} {told}", self.line)


_Owners = list[Buffer]


def check_memory(
    module: ModuleOp, kernel: Kernel, target: Target, *, allow_beyond_reference: bool = False
) -> None:
    """Raises `Unsupported` unless the buffers and semaphores of `kernel` fit.

    Buffers are blocks (times their number of buffers), scratch, and what the deepest nested scopes
    allocate.
    """
    func = kernel.func
    sizes = {"vmem": target.vmem_bytes, "smem": target.smem_bytes}
    limits = dict(sizes)
    if not allow_beyond_reference:
        _check_scratch(module, kernel, target)
        sizes["vmem"] -= target.reserved_vmem_bytes
        sizes["smem"] -= target.reserved_smem_bytes
        limits["smem"] = sizes["smem"]
        limits["vmem"] = scoped_vmem(module, target)
    _check_semaphores(module, kernel, target, limits["vmem"])
    owners, outside = _held(module, kernel, target, limits["vmem"])
    given = {*kernel.operands, *kernel.prefetch}
    pairs = zip(kernel.operands, kernel.windows, strict=True)
    blocks = {operand for operand, window in pairs if window.windowed and kernel.grid}
    for space, limit in limits.items():
        available = sizes[space]
        held = owners[space] + _scoped(func.body.blocks, space, target)
        if space == "vmem" and _total(held + outside) > available:
            # Later forms have buffers of these blocks, too.
            held += outside
        total = _total(held)
        if limit < total <= available:
            held = [b for b in held if b.value in given or not unread(b.value, target)]
            total = _total(held)
        if total <= limit:
            continue
        largest = sorted(held, key=lambda buffer: -buffer.bytes)[:_NAMED]
        most = largest[0].value
        if most in kernel.scratch or isinstance(most, OpResult):
            smaller = _OWN
        else:
            smaller = "use smaller blocks" if most in blocks else _OF_WHOLE[space]
        raised = (
            f", or ask for more with vmem_limit_bytes (up to {available})"
            if limit < total <= available
            else ""
        )
        raise Unsupported(
            f"{space}-exhausted",
            f"the kernel's blocks and scratch take {total} bytes of {space.upper()}, "
            f"{target.name} has {limit}" + (" for a kernel" if limit < available else ""),
            source_location(func) or next((b.line for b in largest if b.line), None),
            [
                *(buffer.note for buffer in largest),
                Note(f"the TPU compiler says: Ran out of memory in memory space {space}"),
                Note(f"{smaller}{raised}"),
            ],
        )  # fmt: skip


def vmem_with_copies(module: ModuleOp, target: Target) -> int | None:
    """The bytes of VMEM that a kernel must ask for once its windows are buffers of its own, in form
    `dma`; None if what it has is enough.

    Blocks of arrays that are in VMEM outside of its part need buffers then, too.
    """
    func = kernel_function(module)
    if func is None or call_of(module) is None:
        return None
    limit, most = scoped_vmem(module, target), target.vmem_bytes - target.reserved_vmem_bytes
    owners, outside = _held(module, describe_kernel(func), target, limit)
    total = _total(owners["vmem"] + outside + _scoped(func.body.blocks, "vmem", target))
    return min(limit + _total(outside), most) if outside and total > limit else None


def _held(
    module: ModuleOp, kernel: Kernel, target: Target, limit: int
) -> tuple[dict[str, _Owners], _Owners]:
    """The blocks and scratch in each memory; and the blocks of arrays that are in VMEM outside of
    the `limit` bytes of the kernel's part."""
    owners: dict[str, _Owners] = {"vmem": [], "smem": []}
    outside: dict[str, _Owners] = {"vmem": []}
    call = call_of(module)
    found = arrays_in_vmem(kernel, call, target, limit)
    for number, (argument, window) in enumerate(zip(kernel.operands, kernel.windows, strict=True)):
        title = partial(_window_title, kernel, call, number, _copies(window))
        place = outside if number in found else owners
        _add(place, argument, target, _copies(window), title)
    for argument in kernel.prefetch:
        _add(owners, argument, target, 1, lambda: "scalar prefetch")
    for argument in kernel.scratch:
        _add(owners, argument, target, 1, lambda: "scratch")
    return owners, outside["vmem"]


def _check_semaphores(module: ModuleOp, kernel: Kernel, target: Target, limit: int) -> None:
    """Raises `Unsupported` if the semaphores do not fit: those of windows and of copies of inputs,
    those of scratch, and those that the deepest nested scopes allocate."""
    func = kernel.func
    windows = _window_semaphores(module, kernel, target, limit)
    arguments = sum(_semaphores(argument) for argument in kernel.scratch)
    total = windows + arguments + scoped_semaphores(func.body.blocks)
    left = target.semaphores - target.reserved_semaphores
    if total <= left:
        return
    made = of_kind(func, tpu.SemAllocOp)
    largest = max((op.result for op in made), key=_semaphores, default=None)
    raise Unsupported(
        "semaphore-mem-exhausted",
        f"the kernel allocates {total} semaphores, {target.name} has {left} for a kernel",
        (source_location(largest.op) if largest else None) or source_location(func),
        [
            *([Note(f"{_semaphores(largest)} of them{_named(largest)}")] if largest else []),
            Note("the TPU compiler says: Ran out of memory in memory space sflag"),
            Note("let transfers share a semaphore: it counts bytes, whoever moves them"),
        ],
    )


def _window_semaphores(module: ModuleOp, kernel: Kernel, target: Target, limit: int) -> int:
    """The number of semaphores of the pipeline around `kernel`: one for each buffer in VMEM or SMEM
    that it fills or empties.

    Single steps have single buffers. Arrays that are in VMEM beside the `limit` bytes of the
    kernel's part need none, but one is for all copies that the program makes of inputs, where it
    makes them. Found by asking libtpu 0.0.51 for v4 to v7x, which says by how many they are too
    many.
    """
    if form_of(module) != "mosaic":
        return 0
    call, single = call_of(module), all(size == 1 for size in kernel.grid or ())
    found = arrays_in_vmem(kernel, call, target, limit)
    inputs = len(kernel.operands) - (len(call.results) if call is not None else 0)
    total = 0
    copied = bool(found or kernel.prefetch)
    for number, (operand, window) in enumerate(zip(kernel.operands, kernel.windows, strict=True)):
        space = memory_space(operand.type)
        if number in found or space not in ("vmem", "smem", None):
            continue
        total += 1 if single else _copies(window)
        copied |= space == "smem" and number < inputs
    return total + (copied and target.vmem_beside_inputs is not None)


def _named(value: SSAValue) -> str:
    return f": %{value.name_hint}" if value.name_hint else " are allocated at once"


def _semaphores(value: SSAValue) -> int:
    """The number of semaphores in the ref `value`; 0 if it is something else."""
    kind = value.type
    if not isinstance(kind, MemRefType) or memory_space(kind) != "semaphore_mem":
        return 0
    return prod(cast(AnyMemRef, kind).get_shape())


def scoped_semaphores(blocks: Iterable[Block]) -> int:
    """The number of semaphores allocated in `blocks` and in that nested scope which allocates
    most."""
    here = deepest = 0
    for block in blocks:
        for op in operations_of(block):
            if type(op) is tpu.SemAllocOp:
                here += _semaphores(op.result)
            for region in op.regions:
                deepest = max(deepest, scoped_semaphores(region.blocks))
    return here + deepest


def _check_scratch(module: ModuleOp, kernel: Kernel, target: Target) -> None:
    """Raises `Unsupported` for an illegal size of the compiler's own scratch, which a call may set.

    It may be as large as VMEM, whatever the kernel needs in addition.
    """
    call = call_of(module)
    size = call.config.get(_SCRATCH) if call is not None else None
    if not isinstance(size, int) or _LEAST_SCRATCH <= size <= target.vmem_bytes:
        return
    rule = f"needs at least {_LEAST_SCRATCH} bytes of VMEM"
    said = f"Requested internal scratch size {size} needs to be at least {_LEAST_SCRATCH} bytes."
    if size > target.vmem_bytes:
        rule = f"has {target.vmem_bytes} bytes of VMEM on {target.name}"
        said = f"Allocation (size={size}) would exceed memory (size={target.vmem_bytes})"
    raise Unsupported(
        "internal-scratch",
        f"the compiler {rule} for its own moves, {_SCRATCH} gives {size}",
        next(filter(None, map(source_location, kernel.func.walk())), None),
        [
            Note(f"the TPU compiler says: {said}"),
            Note(f"leave {_SCRATCH} out, or give {_LEAST_SCRATCH} to {target.vmem_bytes}"),
        ],
    )


def scoped_vmem(module: ModuleOp, target: Target) -> int:
    """The bytes of VMEM that the kernel may use: what its call asks for, or the target's default.

    All of VMEM if the module does not record its call, or has no windows any more.
    """
    call, most = call_of(module), target.vmem_bytes - target.reserved_vmem_bytes
    if call is None or form_of(module) != "mosaic":
        return most
    limit = call.vmem_limit
    return target.scoped_vmem_bytes if limit is None else min(limit, most)


def _add(
    owners: dict[str, _Owners],
    value: SSAValue,
    target: Target,
    copies: int,
    what: Callable[[], str],
) -> None:
    space = memory_space(value.type) or "vmem"
    if space in owners and isinstance(value.type, MemRefType):
        size = block_bytes(value.type, target) * copies
        owners[space].append(Buffer(size, what, value))


def _window_title(kernel: Kernel, call: Call | None, number: int, copies: int) -> str:
    """What a block is for, in the words of the TPU compiler's message."""
    position = len(kernel.prefetch) + number
    type = kernel.operands[number].type
    levels = f"has {copies} buffering levels" if copies > 1 else "is single buffered"
    ending = f"This allocation {levels}."
    bounds = sum(size == DYNAMIC for size in kernel.grid or ())
    arrays = (*call.operands[bounds:], *call.results) if call is not None else ()
    if call is None or position >= len(arrays) or not isinstance(type, MemRefType):
        return f"window allocation for operand {position}. {ending}"
    inputs = len(call.operands) - bounds
    array, block = arrays[position], cast(AnyMemRef, type).get_shape()
    kind, place = ("input", position) if position < inputs else ("output", position - inputs)
    element = _hlo_name(array.element_type)
    return (
        f"{kind} window allocation for operator {kind} {place}. "
        f"The window shape is {element}[{_sizes(block)}], "
        f"while the full shape is {element}[{_sizes(array.get_shape())}]. {ending}"
    )


def _sizes(shape: Sequence[int]) -> str:
    return ",".join(map(str, shape))


def _hlo_name(element: Attribute) -> str:
    """The name of an element type in XLA: s32, f32, bf16."""
    if isinstance(element, IntegerType):
        if element.width.data == 1:
            return "pred"
        unsigned = element.signedness.data == Signedness.UNSIGNED
        return f"{'u' if unsigned else 's'}{element.width.data}"
    return str(element).lower()


def _first_line(value: SSAValue) -> SourceLocation | None:
    """The line that makes `value`, else that of the first operation in its block that uses it."""
    if isinstance(value, OpResult):
        return source_location(value.op)
    block = value.owner
    users = {use.operation for use in value.uses}
    for op in block.walk() if isinstance(block, Block) else ():
        if op in users and (line := source_location(op)):
            return line
    return None


def _scoped(blocks: Iterable[Block], space: str, target: Target) -> _Owners:
    """The buffers in the memory `space` allocated in `blocks` and in that nested scope which needs
    most."""
    here: _Owners = []
    deepest: _Owners = []
    for block in blocks:
        for op in operations_of(block):
            if type(op) is memref.AllocaOp and _static(op):
                owners: dict[str, _Owners] = {space: []}
                _add(owners, op.results[0], target, 1, lambda: "scoped allocation")
                here += owners[space]
            for region in op.regions:
                nested = _scoped(region.blocks, space, target)
                if _total(nested) > _total(deepest):
                    deepest = nested
    return here + deepest


def _total(buffers: _Owners) -> int:
    return sum(buffer.bytes for buffer in buffers)


def _static(op: Operation) -> bool:
    type = op.results[0].type
    return isinstance(type, MemRefType) and all(size >= 0 for size in type.get_shape())


def _copies(window: Window) -> int:
    return (window.buffers or 2) if window.windowed else 1
