"""Between which ends an integer certainly lies.

Arithmetic wraps at 32 bits; what may have wrapped is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from pallasite.dialects import arith, scf, tpu
from pallasite.passes.divisibility import constant_of
from pallasite.passes.scalar_folds import FOLDS

_FUEL = 16
_MONOTONIC = (arith.AddiOp, arith.SubiOp, arith.MuliOp)
_SAME = (arith.IndexCastOp, tpu.AssumeMultipleOp)


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
        return Range(_least(self.low, other.low), _greatest(self.high, other.high))

    def capped(self, other: Range) -> Range:
        """The range of the lesser of both."""
        highs = [high for high in (self.high, other.high) if high is not None]
        return Range(_least(self.low, other.low), min(highs, default=None))

    def raised(self, other: Range) -> Range:
        """The range of the greater of both."""
        lows = [low for low in (self.low, other.low) if low is not None]
        return Range(max(lows, default=None), _greatest(self.high, other.high))


def _least(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else min(one, other)


def _greatest(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


def range_of(value: SSAValue) -> Range:
    """Where `value` lies, by constants, the counters of loops, and arithmetic."""
    return _range(value, _FUEL)


def _range(value: SSAValue, fuel: int) -> Range:
    known = constant_of(value)
    if known is not None:
        return Range(known, known)
    if not fuel:
        return Range()
    owner = value.owner
    if isinstance(owner, Block):
        return _counter(cast(BlockArgument, value), owner, fuel - 1)
    if isinstance(owner, _SAME):
        return _range(owner.operands[0], fuel - 1)
    if not isinstance(owner, arith.SelectOp) and type(owner) not in FOLDS:
        return Range()
    return range_of_operation(owner, [_range(operand, fuel // 2) for operand in owner.operands])


def _counter(value: BlockArgument, block: Block, fuel: int) -> Range:
    loop = block.parent_op()
    if not isinstance(loop, scf.ForOp) or value.index != 0:
        return Range()
    step = constant_of(loop.step)
    if step is None or step < 1:
        return Range()
    first, end = _range(loop.lb, fuel), _range(loop.ub, fuel)
    if first.low is None or end.high is None:
        return Range(first.low)
    last = end.high - 1
    if first.low == first.high:
        last -= max(last - first.low, 0) % step
    return Range(first.low, last)


def range_of_operation(op: Operation, operands: Sequence[Range]) -> Range:
    """Where the result of `op` lies if its operands lie in `operands`."""
    if isinstance(op, _MONOTONIC):
        return operands[0].over(operands[1], FOLDS[type(op)])
    if isinstance(op, arith.MinSIOp):
        return operands[0].capped(operands[1])
    if isinstance(op, arith.MaxSIOp):
        return operands[0].raised(operands[1])
    if isinstance(op, arith.SelectOp):
        return operands[1].join(operands[2])
    if isinstance(op, arith.AndIOp):
        # The bits of a value that is not negative bound the result, whatever the other one is.
        ends = [r.high for r in operands if r.low is not None and r.low >= 0]
        highs = [high for high in ends if high is not None]
        return Range(0, min(highs, default=None)) if ends else Range()
    if isinstance(op, arith.DivSIOp | arith.RemSIOp):
        divisor = operands[1].high
        if divisor is None or divisor != operands[1].low or divisor < 1:
            return Range()
        if isinstance(op, arith.DivSIOp):
            return operands[0].over(operands[1], FOLDS[type(op)])
        low, high = operands[0].low, operands[0].high
        if low is not None and low >= 0:
            return Range(0, divisor - 1 if high is None else min(high, divisor - 1))
        if high is not None:
            return Range(1 - divisor, min(max(high, 0), divisor - 1))
        return Range(1 - divisor, divisor - 1)
    return Range()
