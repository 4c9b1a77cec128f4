"""The first of several registers that holds an extremum, of each sublane and lane.

Two neighbours are told apart by one comparison. Of many, pairs are folded to their extrema in a
tree. Its root is the extremum; going down from there, one comparison for each level tells whether
the left child has it, and of all left children further down those below the other child are given
up. So n registers take n extrema and n choices, and log(n) comparisons, and form `tiles` grows
with the square of the number of levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import VectorType, i1, i32
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, grid, tpu
from pallasite.dialects.grid_base import grid_of
from pallasite.dialects.types import splat, vector_of
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.reduce import KINDS, combiner, cut
from pallasite.passes.two_values import Number, neutral_value

Vector = VectorType[Attribute]


@dataclass(frozen=True)
class Extremum:
    """What is sought, the greatest or the least; as in JAX, NaN is more extreme than any number."""

    c: Converter
    greatest: bool
    numbers: bool
    """Whether no element is NaN."""

    @property
    def kind(self) -> str:
        """The kind of a reduction that folds two registers."""
        return "maximumf" if self.greatest else "minimumf"

    @property
    def reduction(self) -> tpu.ReductionKind:
        """The kind of a reduction within registers."""
        return tpu.ReductionKind(KINDS[self.kind][1])

    @property
    def neutral(self) -> Number:
        """What is not better than any element."""
        return neutral_value(self.kind)

    def fold(self, *pair: SSAValue) -> SSAValue:
        """The extrema of two grids."""
        return self.c.emit(combiner(self.kind, False)(*pair))

    def worse(self, value: SSAValue, other: SSAValue) -> SSAValue:
        """Where `other` is better than `value`; nothing is better than NaN.

        A number is worse if it is not at least as good, and not being at least as good is all that
        a NaN has in common with that: one comparison without the other.
        """
        if self.numbers:
            return self.c.emit(arith.CmpfOp(value, other, "olt" if self.greatest else "ogt"))
        good = self.c.emit(arith.CmpfOp(value, other, "oge" if self.greatest else "ole"))
        number = self.c.emit(arith.CmpfOp(value, value, "oeq"))
        return self.c.emit(arith.XOrIOp(good, number))

    def first(self, value: SSAValue, dim: int, step: int) -> tuple[SSAValue, SSAValue]:
        """The extrema along grid dimension `dim`, and the first places that hold them, as i32.

        Both grids have extent 1 along `dim`, where places are `step` apart.
        """
        n = grid_of(value)[dim]
        comparison = 1 if self.numbers else 3
        levels = (n - 1).bit_length()
        if (n - 1) * (comparison + 2) <= 2 * n + (comparison + 1) * levels:
            return self._by_pairs(value, dim, step)
        return self._by_descent(value, dim, step)

    def _by_pairs(self, value: SSAValue, dim: int, step: int) -> tuple[SSAValue, SSAValue]:
        """Of each two neighbours the better one is kept, and its place."""
        place = self.c.emit(grid.PositionOp(dim, step, _places(value)))
        while grid_of(value)[dim] > 1:
            left, right, last = _pairs(self.c, value, dim)
            first, second, single = _pairs(self.c, place, dim)
            kept = self.c.emit(arith.SelectOp(self.worse(left, right), second, first))
            value = _joined(self.c, [self.fold(left, right), *last], dim)
            place = _joined(self.c, [kept, *single], dim)
        return value, place

    def _by_descent(self, value: SSAValue, dim: int, step: int) -> tuple[SSAValue, SSAValue]:
        """All pairs are folded first; then one comparison halves what may hold the extremum."""
        children: list[SSAValue] = []
        """The left child of every pair, and what has no neighbour; from the leaves upwards."""
        while grid_of(value)[dim] > 1:
            left, right, last = _pairs(self.c, value, dim)
            children.append(_joined(self.c, [left, *last], dim))
            value = _joined(self.c, [self.fold(left, right), *last], dim)
        place: SSAValue | None = None
        for level in reversed(range(len(children))):
            other = self.worse(children.pop(), value)
            children = [
                _side(self.c, child, other, 1 << (level - below - 1), dim)
                for below, child in enumerate(children)
            ]
            none, size = (_constant(self.c, value, n) for n in (0, step << level))
            more = none if place is None else place
            further = size if place is None else self.c.emit(arith.AddiOp(place, size))
            place = self.c.emit(arith.SelectOp(other, further, more))
        assert place is not None
        return value, place


def _pairs(c: Converter, value: SSAValue, dim: int) -> tuple[SSAValue, SSAValue, list[SSAValue]]:
    """The even and the odd registers along `dim`, and the last one if it has no neighbour."""
    sizes = list(grid_of(value))
    pairs, rest = divmod(sizes[dim], 2)

    def part(first: int, count: int) -> SSAValue:
        offsets, strides = [0] * len(sizes), [1] * len(sizes)
        offsets[dim], strides[dim] = first, 2
        chosen = [*sizes[:dim], count, *sizes[dim + 1 :]]
        return c.emit(grid.SliceOp(value, offsets, chosen, strides))

    return part(0, pairs), part(1, pairs), [part(2 * pairs, 1)] * rest


def _side(c: Converter, value: SSAValue, other: SSAValue, half: int, dim: int) -> SSAValue:
    """The first `half` registers along `dim`, or where `other` is set those behind them.

    Of those there may be fewer; what is behind them is not sought where `other` is set.
    """
    there = grid_of(value)[dim] - half
    left, right = cut(c, value, dim, 0, there), cut(c, value, dim, half, there)
    mask = c.emit(grid.BroadcastOp(other, vector_of(i1, cast(Vector, left.type).get_shape())))
    kept = [] if there == half else [cut(c, value, dim, there, half - there)]
    return _joined(c, [c.emit(arith.SelectOp(mask, right, left)), *kept], dim)


def _joined(c: Converter, parts: list[SSAValue], dim: int) -> SSAValue:
    return parts[0] if len(parts) == 1 else c.emit(grid.ConcatOp(parts, dim))


def _places(value: SSAValue) -> Vector:
    """The type of an i32 for each element of `value`."""
    return vector_of(i32, cast(Vector, value.type).get_shape())


def _constant(c: Converter, value: SSAValue, number: int) -> SSAValue:
    return c.emit(arith.ConstantOp(splat(_places(value), number)))
