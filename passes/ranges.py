"""Interval analysis: between which ends an integer, or every element of an integer vector,
certainly lies.

    %i = scf.for 0 to 8            [0, 7]
    %a = arith.muli %i, 16         [0, 112]
    %b = arith.addi %a, %iota      [0, 239], where %iota counts 128 lanes

i1, i32 and index values are judged; an i1 is 0 or 1. Arithmetic wraps at 32 bits, so a result whose
ends do not fit into 32 signed bits may have wrapped, and nothing is known of it. `divisibility` is
the companion analysis for remainders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple, cast

from xdsl.dialects.builtin import IndexType, VectorType, i1, i32
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from pallasite.dialects import arith, scf, tpu, vector
from pallasite.dialects.integers import greatest, least
from pallasite.dialects.types import bit_width, element_of
from pallasite.passes.divisibility import constant_of
from pallasite.passes.scalar_folds import FOLDS

_DEEPEST = 32
"""How many operations in a row are looked through."""
_MONOTONIC = {arith.AddiOp, arith.SubiOp, arith.MuliOp}
"""Operations whose extremes are at the ends of their operands' ranges."""
_SHIFTS = {arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp}
_MOVED = {
    vector.BroadcastOp, vector.ShapeCastOp, vector.ExtractStridedSliceOp, vector.TransposeOp,
    tpu.TransposeOp, tpu.RepeatOp, tpu.RotateOp, tpu.DynamicRotateOp,
}  # fmt: skip
"""Operations whose results are elements of their first operand, possibly at other positions."""
_COMPUTED = {*FOLDS, *_SHIFTS, arith.SelectOp, arith.CmpiOp}
"""Operations that `range_of_operation` judges from the ranges of their operands."""


class Range(NamedTuple):
    """The integers from `low` to `high`, both included; None is an unknown end."""

    low: int | None = None
    high: int | None = None

    def over(self, other: Range, combine: Callable[[int, int], int]) -> Range:
        """The range of `combine(x, y)`, which is monotonic in each operand, for x in this range and
        y in `other`.

        The extremes are at the four corners. The range is unknown if an end is, or if it may wrap.
        """
        ends = (self.low, self.high, other.low, other.high)
        if any(end is None for end in ends):
            return Range()
        a, b, c, d = cast("tuple[int, int, int, int]", ends)
        corners = [combine(x, y) for x in (a, b) for y in (c, d)]
        result = Range(min(corners), max(corners))
        return result if result.fits_words() else Range()

    def fits_words(self) -> bool:
        """Whether both ends are known and are signed numbers of 32 bits."""
        if self.low is None or self.high is None:
            return False
        return least(32) <= self.low and self.high <= greatest(32)

    def join(self, other: Range) -> Range:
        """The smallest range that holds both."""
        return Range(_least(self.low, other.low), _greatest(self.high, other.high))

    def capped(self, other: Range) -> Range:
        """The range of min(x, y) for x in this range and y in `other`."""
        highs = [high for high in (self.high, other.high) if high is not None]
        return Range(_least(self.low, other.low), min(highs, default=None))

    def raised(self, other: Range) -> Range:
        """The range of max(x, y) for x in this range and y in `other`."""
        lows = [low for low in (self.low, other.low) if low is not None]
        return Range(max(lows, default=None), _greatest(self.high, other.high))


def _least(one: int | None, other: int | None) -> int | None:
    """The lesser of two low ends; None if one is unknown."""
    return None if one is None or other is None else min(one, other)


def _greatest(one: int | None, other: int | None) -> int | None:
    """The greater of two high ends; None if one is unknown."""
    return None if one is None or other is None else max(one, other)


_BITS = Range(0, 1)


def range_of(value: SSAValue) -> Range:
    """The range of `value`, or of every element of it, found without any assumption.

    It follows from constants, `tpu.iota`, loop counters and arithmetic.
    """
    return Ranges().of(value)


class Ranges:
    """Ranges of values under some assumptions; each value is computed once."""

    def __init__(
        self, given: Mapping[SSAValue, Range] | None = None, elsewhere: Ranges | None = None
    ) -> None:
        """`given` assumes ranges of some values. If these hold for one position (element) of
        vectors only, `elsewhere` has the ranges for all positions: operations that move elements
        take their sources from there."""
        self._known: dict[SSAValue, Range] = dict(given or {})
        self._elsewhere = elsewhere

    def of(self, value: SSAValue) -> Range:
        """Where `value`, or every element of it, lies."""
        return self._of(value, _DEEPEST)

    def _of(self, value: SSAValue, depth: int) -> Range:
        """`of`, looking through at most `depth` operations in a row; what was cut short at depth 0
        is not kept."""
        known = self._known.get(value)
        if known is None:
            known = self._computed(value, depth)
            if depth:
                self._known[value] = known
        return known

    def _computed(self, value: SSAValue, depth: int) -> Range:
        """The range of `value` from the operation, or the loop, that defines it."""
        if not is_judged(value):
            return Range()
        whole = _BITS if element_of(value) == i1 else Range()
        number = _number(value)
        if number is not None:
            return Range(number, number)
        if not depth:
            return whole
        owner = value.owner
        if isinstance(owner, Block):
            return self._counter(cast(BlockArgument, value), owner, depth - 1)
        # Asked of very many values: looking types up is many times as fast as `isinstance`.
        kind = type(owner)
        if kind in _COMPUTED:
            return range_of_operation(owner, [self._of(v, depth - 1) for v in owner.operands])
        if kind in _MOVED:
            # What is assumed of one place says nothing of the place that an element came from.
            source = self if self._elsewhere is None else self._elsewhere
            return source._of(owner.operands[0], depth - 1)
        if kind is tpu.AssumeMultipleOp:
            return self._of(owner.operands[0], depth - 1)
        return self._converted(owner, whole, depth - 1)

    def _converted(self, op: Operation, whole: Range, depth: int) -> Range:
        """The range of the result of a cast or a count, `whole` of another operation."""
        if isinstance(op, arith.IndexCastOp):
            return self._cast(op, whole, depth)
        if isinstance(op, tpu.IotaOp):
            shape = op.result.type.get_shape()
            return Range(0, prod(shape[d] for d in op.dimensions.get_values()) - 1)
        if isinstance(op, arith.ExtUIOp | arith.ExtSIOp):
            return self._extended(op, depth)
        return whole

    def _extended(self, op: arith.ExtUIOp | arith.ExtSIOp, depth: int) -> Range:
        """The range of an integer extended to a wider type: a signed i1 that is set becomes -1, and
        of a narrower integer only the width is known."""
        source, width = op.input, bit_width(element_of(op.input))
        if width == 1:
            bit = self._of(source, depth)
            low, high = cast("tuple[int, int]", (bit.low, bit.high))
            return bit if isinstance(op, arith.ExtUIOp) else Range(-high, -low)
        if isinstance(op, arith.ExtUIOp):
            return Range(0, (1 << width) - 1)
        return Range(least(width), greatest(width))

    def _cast(self, op: arith.IndexCastOp, whole: Range, depth: int) -> Range:
        """The range of an `arith.index_cast`: unchanged if it widens or the value fits into 32
        bits.

        Nothing is known of a cast from i1, which extends the sign, or to less than 32 bits, which
        truncates.
        """
        if op.input.type == i1 or bit_width(op.result.type) < 32:
            return whole
        inner = self._of(op.input, depth)
        widened = isinstance(op.result.type, IndexType)
        return inner if widened or inner.fits_words() else Range()

    def _counter(self, value: BlockArgument, block: Block, depth: int) -> Range:
        """The range of a block argument: of the counter of an `scf.for`, whose step must be a known
        positive number.

        If the first value is known, the high end is a value that the counter takes: `0 to 10 step
        4` gives [0, 8].
        """
        loop = block.parent_op()
        if not isinstance(loop, scf.ForOp) or value.index != 0:
            return _BITS if element_of(value) == i1 else Range()
        step = constant_of(loop.step)
        if step is None or step < 1:
            return Range()
        first, end = self._of(loop.lb, depth), self._of(loop.ub, depth)
        if loop.unsigned_cmp is not None and not (_positive(first) and _positive(end)):
            # It counts beyond the greatest signed number.
            return Range()
        if first.low is None or end.high is None:
            return Range(first.low)
        last = end.high - 1
        if first.low == first.high:
            last -= max(last - first.low, 0) % step
        return Range(first.low, last)


def _number(value: SSAValue) -> int | None:
    """The integer that a constant is, or that all elements of a constant vector are; else None."""
    if type(value.type) is not VectorType:
        return constant_of(value)
    number = arith.splat_number(value)
    return None if number is None else int(number)


def is_judged(value: SSAValue) -> bool:
    """Whether `value` has a type of which ranges are computed: i1, i32, index, or vectors of these.

    Narrower integers wrap earlier than 32 bits, so nothing is said of them.
    """
    element = element_of(value)
    return element in (i1, i32) or isinstance(element, IndexType)


def range_of_operation(op: Operation, operands: Sequence[Range]) -> Range:
    """The range of the only result of `op` if its operands lie in `operands`.

    The result must be of a type that `is_judged`. An operation that is not listed gives an unknown
    range (of an i1: 0 to 1).
    """
    kind = type(op)
    if kind is arith.CmpiOp:
        return _compared(cast(arith.CmpiOp, op), *operands)
    if element_of(op.results[0]) == i1:
        return _logic(op, operands)
    if kind in _MONOTONIC:
        return operands[0].over(operands[1], FOLDS[kind])
    if kind is arith.MinSIOp:
        return operands[0].capped(operands[1])
    if kind is arith.MaxSIOp:
        return operands[0].raised(operands[1])
    if kind is arith.SelectOp:
        return _chosen(operands)
    if kind is arith.AndIOp:
        # The bits of a value that is not negative bound the result, whatever the other one is.
        ends = [r.high for r in operands if r.low is not None and r.low >= 0]
        highs = [high for high in ends if high is not None]
        return Range(0, min(highs, default=None)) if ends else Range()
    if kind in _SHIFTS:
        return _shifted(op, *operands)
    if kind in (arith.DivSIOp, arith.RemSIOp):
        return _divided(op, *operands)
    return Range()


def _chosen(operands: Sequence[Range]) -> Range:
    """The range of a select: one side if the condition is known, otherwise the join of both."""
    condition, left, right = operands
    if condition.low == 1:
        return left
    return right if condition.high == 0 else left.join(right)


def _logic(op: Operation, operands: Sequence[Range]) -> Range:
    """The range of an operation on i1, whose operands all have two known ends."""
    lows, highs = zip(*[cast("tuple[int, int]", (r.low, r.high)) for r in operands], strict=True)
    kind = type(op)
    if kind is arith.AndIOp:
        return Range(min(lows), min(highs))
    if kind is arith.OrIOp:
        return Range(max(lows), max(highs))
    if kind is arith.XOrIOp and lows == highs:
        return Range(lows[0] ^ lows[1], lows[0] ^ lows[1])
    return _chosen(operands) if kind is arith.SelectOp else _BITS


def _shifted(op: Operation, value: Range, by: Range) -> Range:
    """The range of a shift by a known number of bits, from 0 to 30, as a product or a quotient.

    A logical shift right is judged only of values that are not negative.
    """
    if by.low is None or by.low != by.high or not 0 <= by.low < 31:
        return Range()
    factor = Range(1 << by.low, 1 << by.low)
    if type(op) is arith.ShLIOp:
        return value.over(factor, lambda a, b: a * b)
    if type(op) is arith.ShRUIOp and (value.low is None or value.low < 0):
        return Range()
    # Towards minus infinity.
    return value.over(factor, lambda a, b: a // b)


def _divided(op: Operation, value: Range, by: Range) -> Range:
    """The range of a signed division or remainder by a known positive divisor.

    Both round toward zero, so a remainder has the sign of the dividend.
    """
    divisor = by.high
    if divisor is None or divisor != by.low or divisor < 1:
        return Range()
    if isinstance(op, arith.DivSIOp):
        return value.over(by, FOLDS[type(op)])
    low, high = value.low, value.high
    if low is not None and low >= 0:
        return Range(0, divisor - 1 if high is None else min(high, divisor - 1))
    if high is not None:
        return Range(1 - divisor, min(max(high, 0), divisor - 1))
    return Range(1 - divisor, divisor - 1)


def _compared(op: arith.CmpiOp, left: Range, right: Range) -> Range:
    """The range of a comparison: [1, 1] or [0, 0] if all elements compare alike, else [0, 1].

    Unsigned predicates are judged only if neither operand can be negative.
    """
    name = op.predicate_name
    if element_of(op.lhs) == i1 and name not in ("eq", "ne"):
        # As a signed number, a set bit is -1.
        return _BITS
    if name[0] == "u" and not (_positive(left) and _positive(right)):
        return _BITS
    match name[-2:]:
        case "lt":
            answer = _below(left, right)
        case "ge":
            answer = _not(_below(left, right))
        case "gt":
            answer = _below(right, left)
        case "le":
            answer = _not(_below(right, left))
        case "eq":
            answer = _equal(left, right)
        case _:
            answer = _not(_equal(left, right))
    return _BITS if answer is None else Range(int(answer), int(answer))


def _positive(value: Range) -> bool:
    """Whether a value in this range is certainly not negative."""
    return value.low is not None and value.low >= 0


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _below(left: Range, right: Range) -> bool | None:
    """Whether left < right: True or False if that is certain, None if it is unknown."""
    if left.high is not None and right.low is not None and left.high < right.low:
        return True
    if left.low is not None and right.high is not None and left.low >= right.high:
        return False
    return None


def _equal(left: Range, right: Range) -> bool | None:
    """Whether left == right: True or False if that is certain, None if it is unknown."""
    if _below(left, right) or _below(right, left):
        return False
    ends = {left.low, left.high, right.low, right.high}
    return True if len(ends) == 1 and None not in ends else None
