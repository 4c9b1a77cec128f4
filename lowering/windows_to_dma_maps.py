"""Index maps: evaluates a window's `transform_i` function where the schedule needs its block.

A map takes the grid indices and the scalar-prefetch memrefs and returns one i32 per dimension of
the block (spec/tpu_dialect.md section 4.2). It is evaluated for the previous, the current and the
next step by copying its operations, folded where operands are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import is_side_effect_free

from pallasite.dialects import arith, cf, memref
from pallasite.dialects.tpu import IterationBoundOp, LogBufferOp, LogOp
from pallasite.lowering.windows_to_dma_scalars import Scalar, ScalarBuilder, known
from pallasite.passes.scalar_folds import FOLDS, fold_numbers

_Known = dict[SSAValue, Scalar]
_ACTS = (LogOp, LogBufferOp, cf.AssertOp)


def acts(function: FuncOp) -> bool:
    """Whether an index map does more than compute, read and allocate: it prints or asserts."""
    inner = (op for block in function.body.blocks for op in block.walk())
    return any(isinstance(op, _ACTS) for op in inner)


def evaluate(
    build: ScalarBuilder, function: FuncOp, arguments: Sequence[Scalar], bounds: Sequence[Scalar]
) -> tuple[Scalar, ...]:
    """The block index that `function` gives for `arguments`; `bounds` are the grid's sizes."""
    block = function.body.block
    scalars: _Known = dict(zip(block.args, arguments, strict=True))
    for op in block.ops:
        if op.next_op is None:
            return tuple(scalars[operand] for operand in op.operands)
        if isinstance(op, IterationBoundOp):
            scalars[op.results[0]] = bounds[op.dim.value.data]
            continue
        folded = _fold(op, scalars)
        if folded is not None:
            scalars[op.results[0]] = folded
            continue
        clone = op.clone(_mapping(build, op, scalars))
        if len(op.results) == 1 and not op.regions and is_side_effect_free(op):
            scalars[op.results[0]] = build.once(clone)
        elif isinstance(op, memref.LoadOp):
            # Kernels may write SMEM between two steps, so a load is shared within a step only.
            scalars[op.results[0]] = build.once(clone, everywhere=False)
        else:
            build.keep(clone)
            scalars.update(zip(op.results, clone.results, strict=True))
    return ()


def _mapping(build: ScalarBuilder, op: Operation, scalars: _Known) -> dict[SSAValue, SSAValue]:
    # Operands of nested operations count too: a map may contain an scf.if.
    return {
        operand: build.value(scalars[operand], operand.type)
        for nested in op.walk()
        for operand in nested.operands
        if operand in scalars
    }


def _fold(op: Operation, scalars: _Known) -> Scalar | None:
    """The value of `op` if it is known now or is one of its operands, else None."""
    if isinstance(op, arith.ConstantOp):
        return known(op.result)
    if op.regions or len(op.results) != 1 or not op.operands:
        return None
    values = [known(scalars.get(operand)) for operand in op.operands]
    kind = type(op)
    if isinstance(op, arith.SelectOp) and values[0] is not None:
        return scalars[op.operands[1 if values[0] else 2]]
    if kind is arith.AddiOp and 0 in values:
        return scalars[op.operands[1 - values.index(0)]]
    if kind is arith.MuliOp and 0 in values:
        return 0
    if any(value is None for value in values):
        return None
    return fold_numbers(op, cast("list[int]", values))


@dataclass(frozen=True)
class Range:
    """The integers from `low` to `high`; None is an unknown end."""

    low: int | None = None
    high: int | None = None

    def over(self, other: Range, combine: Callable[[int, int], int]) -> Range:
        """The range of a `combine` that is monotonic in each operand."""
        ends = (self.low, self.high, other.low, other.high)
        if any(end is None for end in ends):
            return Range()
        a, b, c, d = cast("tuple[int, int, int, int]", ends)
        corners = [combine(x, y) for x in (a, b) for y in (c, d)]
        if min(corners) < -(1 << 31) or max(corners) >= 1 << 31:
            return Range()
        return Range(min(corners), max(corners))

    def join(self, other: Range) -> Range:
        """The smallest range that holds both."""
        ends = (self.low, self.high, other.low, other.high)
        if any(end is None for end in ends):
            return Range()
        a, b, c, d = cast("tuple[int, int, int, int]", ends)
        return Range(min(a, c), max(b, d))


def ranges(function: FuncOp, bounds: Sequence[int | None]) -> tuple[Range, ...]:
    """What each result of index map `function` may be over a grid; a bound may be unknown."""
    block = function.body.block
    found: dict[SSAValue, Range] = {}
    for argument, bound in zip(block.args, bounds, strict=False):
        found[argument] = Range(0, None if bound is None else bound - 1)
    for op in block.ops:
        if op.next_op is None:
            return tuple(found.get(operand, Range()) for operand in op.operands)
        if len(op.results) == 1:
            operands = [found.get(operand, Range()) for operand in op.operands]
            found[op.results[0]] = _range_of(op, operands)
    return ()


_MONOTONIC = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.MinSIOp, arith.MaxSIOp)


def _range_of(op: Operation, operands: Sequence[Range]) -> Range:
    value = known(op.results[0])
    if value is not None:
        return Range(value, value)
    if isinstance(op, _MONOTONIC):
        return operands[0].over(operands[1], FOLDS[type(op)])
    if isinstance(op, arith.SelectOp):
        return operands[1].join(operands[2])
    if isinstance(op, arith.DivSIOp | arith.RemSIOp):
        divisor = operands[1].high
        if divisor is None or divisor != operands[1].low or divisor < 1:
            return Range()
        if isinstance(op, arith.DivSIOp):
            return operands[0].over(operands[1], FOLDS[type(op)])
        low, high = operands[0].low, operands[0].high
        if low is not None and low >= 0:
            return Range(0, divisor - 1 if high is None else min(high, divisor - 1))
    return Range()
