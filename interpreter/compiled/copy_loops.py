"""Finds loops that only copy parts of arrays, and whose copies have all landed at the end of each
iteration.

Each copy is awaited at once, or several fly together and are awaited then. Where such copies begin
is arithmetic on the loop index and on elements of tables. It can therefore be computed for all
iterations at once: an operation on a scalar becomes the same operation on an array that has the
scalar of each iteration. `machine/bulk_copies.py` runs what is built here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Block, Operation, SSAValue

from pallasite.dialects import arith, memref, tpu
from pallasite.dialects.locations import source_location
from pallasite.dialects.promises import is_rounded
from pallasite.dialects.scf import ForOp
from pallasite.dialects.types import memory_space
from pallasite.interpreter.compiled.copy_groups import CopyGroup, serves
from pallasite.interpreter.compiled.inline import bits_of, is_quiet
from pallasite.interpreter.machine.bulk_copies import Computed, Copies, CopyLoop, Flight, Loaded
from pallasite.interpreter.machine.part_copies import Copier
from pallasite.interpreter.meanings import Facts, Function, lookup
from pallasite.interpreter.values import Array


def copy_loop(
    op: ForOp, groups: Sequence[CopyGroup], calls: Sequence[Copier], facts: Facts, cost: int
) -> tuple[CopyLoop, list[SSAValue]] | None:
    """A `CopyLoop` that runs all iterations of `op` at once, and the values that it is given
    besides the bounds.

    `groups` are the copies in the loop, `calls` the copiers that carry them out, and `cost` is the
    budget's steps per iteration. None if `op` does more than these copies, loading of offsets and
    scalar arithmetic, or if it carries values.
    """
    (index, *carried), type = op.body.block.args, _type_of(op.lb)
    if carried or op.unsigned_cmp is not None or type is None or not groups:
        return None
    done = {member for group in groups for member in (*group.views, group.start, group.wait)}
    work: list[Operation] = [op for op in op.body.block.ops if op not in done][:-1]
    if not all(is_quiet(member) or _is_read_only(member) for member in work):
        return None
    made: list[SSAValue] = [index, *[member.results[0] for member in work]]
    inner = {value: place for place, value in enumerate(made)}
    given: dict[SSAValue, int] = {}

    def place(value: SSAValue) -> int:
        if value in inner:
            return inner[value]
        return given.setdefault(value, len(inner) + len(given))

    steps: list[Loaded | Computed] = []
    for member in work:
        first, *rest = places = tuple(map(place, member.operands)) or (0,)
        if isinstance(member, memref.LoadOp):
            steps.append(Loaded(first, tuple(rest)))
        elif isinstance(member, arith.ConstantOp):
            steps.append(Computed(_constant(member), ()))
        elif isinstance(member, tpu.AssumeMultipleOp):
            steps.append(Computed(_promised(member), places))
        else:
            steps.append(Computed(_on_arrays(member, facts), places))
    together = _flights(groups)
    if together is None or any(root in inner for group in groups for root in group.roots):
        return None
    call_of = dict(zip(groups, calls, strict=True))
    flights: list[Flight] = []
    for started, waits in together:
        copies: list[Copies] = []
        for group in started:
            semaphore, source, target = map(place, group.roots)
            assert group.start is not None
            starts, at = tuple(map(place, group.starts)), source_location(group.start)
            copies.append(Copies(call_of[group], (semaphore, source, target), starts, at))
        awaits = tuple([(started.index(group), source_location(wait)) for group, wait in waits])
        flights.append(Flight(tuple(copies), awaits))
    types = [_type_of(value) for value in given]
    return CopyLoop(type, steps, flights, types, cost), list(given)


def _flights(
    groups: Sequence[CopyGroup],
) -> list[tuple[list[CopyGroup], list[tuple[CopyGroup, tpu.WaitDma2Op]]]] | None:
    """The copies that fly together, each flight with its waits in order.

    None if a copy is still in flight when those of another flight are started, or at the end of the
    iteration.
    """
    found: list[tuple[list[CopyGroup], list[tuple[CopyGroup, tpu.WaitDma2Op]]]] = []
    left: list[CopyGroup] = []
    """Copies of the last flight that nobody has waited for."""
    for group in groups:
        if group.start is not None:
            if not left:
                found.append(([], []))
            started, waits = found[-1]
            if waits:
                return None
            started.append(group)
            left.append(group)
        if group.wait is not None:
            one = next((one for one in left if _serves(group, one)), None)
            if one is None:
                return None
            left.remove(one)
            found[-1][1].append((one, group.wait))
    return None if left else found


def _serves(one: CopyGroup, other: CopyGroup) -> bool:
    """Whether the wait of `one` is for the DMA that `other` starts."""
    if one.wait is None or other.start is None:
        return False
    return one is other or serves(one.wait, other.start)


def _is_read_only(op: Operation) -> bool:
    """Whether `op` loads a 32-bit number from SMEM, or is a promise about a number."""
    if isinstance(op, tpu.AssumeMultipleOp):
        return True
    if not isinstance(op, memref.LoadOp) or bits_of(op.res.type) != 32:
        return False
    return memory_space(op.memref.type) == "smem"


def _type_of(value: SSAValue) -> Any:
    """The NumPy type of an array with a scalar of each iteration; None for what is no integer."""
    bits = bits_of(value.type)
    return None if bits is None else np.dtype(np.bool_ if bits == 1 else f"i{max(bits // 8, 1)}")


def _constant(op: arith.ConstantOp) -> Function:
    """A function that gives the constant as an array of one element."""
    number = arith.known_integer(op.result)
    array = np.array([number], _type_of(op.result))
    return lambda: array


def _promised(op: tpu.AssumeMultipleOp) -> Function:
    """A function that gives its array, or None if an element breaks the promise to be a multiple.

    A promise that is met by rounding cannot be broken.
    """
    multiple = 1 if is_rounded(op) else op.multiple.value.data

    def fn(numbers: Array) -> Array | None:
        return None if (numbers % multiple).any() else numbers

    return fn


def _on_arrays(op: Operation, facts: Facts) -> Function:
    """The meaning of the scalar operation `op` for arrays with one element per iteration."""
    block = Block(arg_types=[VectorType(operand.type, [1]) for operand in op.operands])
    results = [VectorType(result.type, [1]) for result in op.results]
    wide = type(op).create(
        operands=block.args, result_types=results, properties=op.properties,
        attributes=op.attributes,
    )  # fmt: skip
    entry = lookup(wide)
    assert entry is not None
    return entry.factory(wide, facts)
