"""Branches that give registers they only rename, or values that were computed before them.

MLIR makes a selection of what both ways of an `scf.if` know before it, and so does the TPU
compiler, once vectors are registers: `lax.cond(p, lambda: concatenate([x[8:], x[:8]]), lambda: x)`
computes nothing, but moves registers. Of whole vectors it takes such selections, of registers it
does not (asked of libtpu 0.0.51 for v5e, v6e and v7x). Nor does it where the selection only shows
once common subexpressions are gone, as in `w = x + 1; lax.cond(p, lambda: x + 1, lambda: x) + w`.
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, func, scf, tpu, vector
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import bit_width, shape_of
from pallasite.dialects.vector_shapes import values_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.equal_values import EarlierValues, equal_values
from pallasite.targets import Target

_COMPUTED = -1
_MOST_REGISTERS = 4096
_Registers = NDArray[Any]


def renamed_by_branches(op: scf.IfOp, target: Target) -> None:
    """Refuses results of which a register is another one on each way, and computed on none."""
    if len(op.regions) < 2 or not all(region.blocks for region in op.regions):
        return
    ends = [region.block.last_op for region in op.regions]
    for number, result in enumerate(op.results):
        if not isinstance(result.type, VectorType) or not _is_judged(result):
            continue
        ways = [end.operands[number] for end in ends if end is not None]
        if len(ways) < 2 or not any(_is_inside(way, op) for way in ways):
            continue
        known: dict[SSAValue, int] = {}
        first, second = (_registers(way, op, known) for way in ways)
        if np.any((first != _COMPUTED) & (second != _COMPUTED) & (first != second)):
            raise refusal(
                op, "renamed-registers",
                f"the branches of {op.name} give {result.type} whose registers they only rearrange",
                "what both branches know before them becomes a selection, and a condition selects "
                "no registers",
                "select the values, jnp.where(condition, a, b), or compute something in a branch",
                "the TPU compiler says: failed to legalize operation 'arith.select'",
            )  # fmt: skip


class RepeatedByBranches:
    """The rule of results that are computed before branches, for one function."""

    def __init__(self, function: func.FuncOp) -> None:
        self._function = function

    @cached_property
    def _earlier(self) -> EarlierValues:
        return EarlierValues(self._function)

    def check(self, op: scf.IfOp, target: Target) -> None:
        """Refuses results that are computed before the branches on both ways, and again inside."""
        if len(op.regions) < 2 or not all(region.blocks for region in op.regions):
            return
        ends = [region.block.last_op for region in op.regions]
        for number, result in enumerate(op.results):
            ways = [end.operands[number] for end in ends if end is not None]
            if not isinstance(result.type, VectorType) or len(ways) < 2:
                continue
            # What is not computed again is a selection of whole vectors at once.
            if not any(_is_inside(way, op) and not _is_constant(way) for way in ways):
                continue
            before = [self._before(way, op) for way in ways]
            if None not in before and not equal_values(*cast("list[SSAValue]", before)):
                raise refusal(
                    op, "repeated-values",
                    f"the branches of {op.name} give {result.type} that are computed before it, "
                    "too",
                    "what is computed again is taken from before, and the selection that is left "
                    "of the branches has no layout",
                    "use what was computed before in the branch, or select: "
                    "jnp.where(condition, a, b)",
                    "the TPU compiler says: Null layout / non-vector operand in elementwise "
                    "operation",
                )  # fmt: skip

    def _before(self, value: SSAValue, op: scf.IfOp) -> SSAValue | None:
        """`value`, or what equals it, in front of `op`; constants may lie anywhere."""
        if not _is_inside(value, op) or _is_constant(value):
            return value
        return self._earlier.find(value, op)


def _is_constant(value: SSAValue) -> bool:
    owner = value.owner
    if isinstance(owner, vector.BroadcastOp):
        return _is_constant(owner.source)
    return isinstance(owner, arith.ConstantOp)


def _is_judged(value: SSAValue) -> bool:
    """Vectors of rows of words or bytes; half words may lie in half registers."""
    shape, bits = shape_of(value.type), bit_width(value.type)
    return len(shape) > 1 and bits in (32, 8) and prod(_grid(value)) <= _MOST_REGISTERS


def _is_inside(value: SSAValue, op: scf.IfOp) -> bool:
    owner = value.owner
    return isinstance(owner, Operation) and op.is_ancestor(owner)


def _grid(value: SSAValue) -> tuple[int, ...]:
    *leading, rows, columns = shape_of(value.type)
    return (*leading, -(-rows // _tile(value)), -(-columns // LANES))


def _tile(value: SSAValue) -> int:
    return SUBLANES * packing(bit_width(value.type))


def _registers(value: SSAValue, op: scf.IfOp, known: dict[SSAValue, int]) -> _Registers:
    """A number for each register of `value`, the same for the same one; `_COMPUTED` for those that
    are made inside of `op`."""
    made, grid = value.owner, _grid(value)
    unit = (*[1] * (len(grid) - 2), _tile(value), LANES)
    if isinstance(made, tpu.ConcatenateOp):
        dim = made.dimension.value.data
        sizes = [shape_of(part.type)[dim] for part in made.operands]
        if all(size % unit[dim] == 0 for size in sizes[:-1]):
            parts = [_registers(part, op, known) for part in made.operands]
            return np.concatenate(parts, axis=dim)
    elif isinstance(made, vector.ExtractStridedSliceOp):
        offsets = values_of(made.offsets)
        source = made.operands[0]
        if len(offsets) == len(grid) and not any(o % u for o, u in zip(offsets, unit, strict=True)):
            box = tuple(
                slice(o // u, o // u + n) for o, u, n in zip(offsets, unit, grid, strict=True)
            )
            return _registers(source, op, known)[box]
    elif isinstance(made, vector.ShapeCastOp):
        source = made.operands[0]
        old, new = shape_of(source.type), shape_of(value.type)
        if len(old) > 1 and old[-1] == new[-1] and not (old[-2] % unit[-2] or new[-2] % unit[-2]):
            return _registers(source, op, known).reshape(grid)
    if _is_inside(value, op):
        return np.full(grid, _COMPUTED)
    first = known.setdefault(value, sum(prod(_grid(other)) for other in known))
    numbers = first + np.arange(prod(grid)).reshape(grid)
    once = tuple(slice(0, 1) if same else slice(None) for same in _repeated(value))
    return np.broadcast_to(numbers[once], grid)


def _repeated(value: SSAValue) -> list[bool]:
    """Of each dimension of `value`, whether its registers along it are copies of one."""
    shape, owner = shape_of(value.type), value.owner
    if isinstance(owner, arith.ConstantOp):
        return [True] * len(shape)
    if not isinstance(owner, vector.BroadcastOp):
        return [False] * len(shape)
    source = owner.operands[0].type
    sizes = shape_of(source) if isinstance(source, VectorType) else ()
    return [size == 1 for size in (*[1] * (len(shape) - len(sizes)), *sizes)]
