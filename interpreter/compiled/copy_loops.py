"""Loops that do nothing but copy parts of arrays, each copy awaited at once.

Where such copies begin is arithmetic on the index of the loop and on tables of numbers, so it can
be computed for all turns at once: an operation on a scalar means what the same operation means on
an array of what the scalar is in each turn.
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
from pallasite.interpreter.compiled.copy_groups import CopyGroup
from pallasite.interpreter.compiled.inline import bits_of, is_quiet
from pallasite.interpreter.machine.bulk_copies import Computed, Copies, CopyLoop, Loaded
from pallasite.interpreter.machine.part_copies import Copier
from pallasite.interpreter.meanings import Facts, Function, lookup
from pallasite.interpreter.values import Array


def copy_loop(
    op: ForOp, groups: Sequence[CopyGroup], calls: Sequence[Copier], facts: Facts, cost: int
) -> tuple[CopyLoop, list[SSAValue]] | None:
    """What does all turns of `op` at once, each of which costs so many steps, and what it is given
    beside the bounds; None if `op` does more than the copies of `groups`, which `calls` do."""
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
    copies: list[Copies] = []
    for group, call in zip(groups, calls, strict=True):
        semaphore, source, target = map(place, group.roots)
        if group.start is None or group.wait is None or any(r in inner for r in group.roots):
            return None
        at, awaited_at = source_location(group.start), source_location(group.wait)
        starts = tuple(map(place, group.starts))
        copies.append(Copies(call, (semaphore, source, target), starts, at, awaited_at))
    types = [_type_of(value) for value in given]
    return CopyLoop(type, steps, copies, types, cost), list(given)


def _is_read_only(op: Operation) -> bool:
    """Whether `op` loads a number of a table in SMEM, or looks at one that is promised."""
    if isinstance(op, tpu.AssumeMultipleOp):
        return True
    if not isinstance(op, memref.LoadOp) or bits_of(op.res.type) != 32:
        return False
    return memory_space(op.memref.type) == "smem"


def _type_of(value: SSAValue) -> Any:
    """The type of arrays that hold a scalar of each turn; None of what is no scalar."""
    bits = bits_of(value.type)
    return None if bits is None else np.dtype(np.bool_ if bits == 1 else f"i{max(bits // 8, 1)}")


def _constant(op: arith.ConstantOp) -> Function:
    number = arith.known_integer(op.result)
    array = np.array([number], _type_of(op.result))
    return lambda: array


def _promised(op: tpu.AssumeMultipleOp) -> Function:
    """Numbers that are multiples; None if one is not, and has to be."""
    multiple = 1 if is_rounded(op) else op.multiple.value.data

    def fn(numbers: Array) -> Array | None:
        return None if (numbers % multiple).any() else numbers

    return fn


def _on_arrays(op: Operation, facts: Facts) -> Function:
    """What `op` means on arrays."""
    block = Block(arg_types=[VectorType(operand.type, [1]) for operand in op.operands])
    results = [VectorType(result.type, [1]) for result in op.results]
    wide = type(op).create(
        operands=block.args, result_types=results, properties=op.properties,
        attributes=op.attributes,
    )  # fmt: skip
    entry = lookup(wide)
    assert entry is not None
    return entry.factory(wide, facts)
