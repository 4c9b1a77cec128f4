"""Unrolls `grid.first_extremum`: the extremum of several registers, and the first one that holds
it.

For each sublane and lane, the operation finds the largest (or smallest) element along a dimension
of the grid, and the position of the first register with it. There are two ways:

* By pairs: of two registers, one comparison tells which is better; that one and its position go on.
* By descent: neighbours are folded to their extrema in a tree whose root is the extremum. The
  search then goes down from the root. One comparison per level tells whether the left child has the
  extremum; on the levels below, only the nodes of the chosen side remain. So n registers take about
  n extrema and n selections, but only log2(n) comparisons.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, VectorType, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, grid
from pallasite.dialects.types import splat, vector_of
from pallasite.lowering.creation import Model
from pallasite.lowering.tiles_to_vregs.grids import as_grid
from pallasite.lowering.tiles_to_vregs.unroll import Unroller, rule

_COMPARISONS = {arith.MaximumfOp: ("olt", "oge"), arith.MinimumfOp: ("ogt", "ole")}
"""By folding operation: predicates that say that a number is worse than, or as good as, another."""


@rule(grid.FirstExtremumOp)
def unroll_first_extremum(op: grid.FirstExtremumOp, u: Unroller) -> None:
    """Searches each line of registers along the dimension; a line with a poison register is
    poison."""
    dim = op.dim.value.data
    source = np.moveaxis(u.registers(op.value), dim, -1)
    search = _Search(op, u)
    found = [search.first(list(line)) for line in source.reshape(-1, source.shape[-1])]
    for result, registers in zip(op.results, zip(*found, strict=True), strict=True):
        u.define(result, np.expand_dims(as_grid(registers, source.shape[:-1]), dim))
    u.counts = True


class _Search:
    """Searches lines of registers; has a model of each operation that it makes."""

    def __init__(self, op: grid.FirstExtremumOp, u: Unroller) -> None:
        self._u, self._step, self._numbers = u, op.step.value.data, op.numbers is not None
        best, place = (cast(VectorType[Attribute], u.register_type(r.type)) for r in op.results)
        mask = vector_of(i1, best.get_shape())
        fold = arith.MaximumfOp if op.kind.data == arith.MaximumfOp.name else arith.MinimumfOp
        worse, good = _COMPARISONS[fold]

        def model(kind: type[Operation], result: Attribute, predicate: str = "") -> Model:
            properties = arith.default_properties(kind)
            if predicate:
                number = arith.CmpfOp.PREDICATES.index(predicate)
                properties |= {"predicate": IntegerAttr(number, i64)}
            return Model(kind, (result,), properties, location=op.location)

        self._place = place
        self._fold = model(fold, best)
        self._worse, self._good = (model(arith.CmpfOp, mask, p) for p in (worse, good))
        self._number = model(arith.CmpfOp, mask, "oeq")
        self._differ = model(arith.XOrIOp, mask)
        self._choose_value, self._choose = (model(arith.SelectOp, t) for t in (best, place))
        self._add = model(arith.AddiOp, place)

    def first(self, line: list[SSAValue | None]) -> tuple[SSAValue | None, SSAValue | None]:
        """The extremum of `line`, and the number of the first register that holds it times
        `op.step`.

        Both are None (poison) if a register is.
        """
        present = [register for register in line if register is not None]
        if len(present) < len(line):
            return None, None
        n, comparison = len(present), 1 if self._numbers else 3
        levels = (n - 1).bit_length()
        if (n - 1) * (comparison + 2) <= 2 * n + (comparison + 1) * levels:
            return self._by_pairs(present)
        return self._by_descent(present)

    def _by_pairs(self, values: list[SSAValue]) -> tuple[SSAValue, SSAValue]:
        """Keeps the better of each two neighbours, and its position, until one is left."""
        places = [self._constant(n * self._step) for n in range(len(values))]
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], places[::2], places[1::2], strict=False)
            chosen = [
                self._emit(self._choose, self._is_worse(left, right), there, here)
                for left, right, here, there in pairs
            ]
            places = [*chosen, *places[2 * len(chosen) :]]
            values = self._folded(values)
        return values[0], places[0]

    def _by_descent(self, values: list[SSAValue]) -> tuple[SSAValue, SSAValue]:
        """Folds all pairs first; each comparison then halves the registers that may hold the
        extremum."""
        children: list[list[SSAValue]] = []
        """The left child of every pair, and what has no neighbour; from the leaves upwards."""
        while len(values) > 1:
            children.append(values[::2])
            values = self._folded(values)
        (best,) = values
        place: SSAValue | None = None
        for level in reversed(range(len(children))):
            (left,) = children.pop()
            other = self._is_worse(left, best)
            children = [
                self._side(child, other, 1 << (level - below - 1))
                for below, child in enumerate(children)
            ]
            size = self._constant(self._step << level)
            if place is None:
                place = self._emit(self._choose, other, size, self._constant(0))
            else:
                further = self._emit(self._add, place, size)
                place = self._emit(self._choose, other, further, place)
        assert place is not None
        return best, place

    def _folded(self, values: list[SSAValue]) -> list[SSAValue]:
        """The extrema of each two neighbours; a last one without a neighbour stays."""
        pairs = list(zip(values[::2], values[1::2], strict=False))
        return [*(self._emit(self._fold, *pair) for pair in pairs), *values[2 * len(pairs) :]]

    def _side(self, values: list[SSAValue], other: SSAValue, half: int) -> list[SSAValue]:
        """For each sublane and lane, the first `half` of `values`, or those after them where
        `other` is true.

        There may be fewer of the latter; those without a counterpart are never looked at where
        `other` is true.
        """
        pairs = list(zip(values[:half], values[half:], strict=False))
        chosen = [self._emit(self._choose_value, other, there, here) for here, there in pairs]
        return [*chosen, *values[len(pairs) : half]]

    def _is_worse(self, value: SSAValue, other: SSAValue) -> SSAValue:
        """A mask that is true where `other` is better than `value`; nothing is better than NaN.

        If all elements are numbers, one comparison tells. Otherwise `value` is worse where it is a
        number and not at least as good as `other`. A NaN is neither, so that is where the two
        comparisons differ (exclusive or).
        """
        if self._numbers:
            return self._emit(self._worse, value, other)
        good, number = self._emit(self._good, value, other), self._emit(self._number, value, value)
        return self._emit(self._differ, good, number)

    def _constant(self, number: int) -> SSAValue:
        value = {"value": splat(self._place, number)}
        constant = self._u.generated(arith.ConstantOp, (), self._place, value)
        assert constant is not None
        return constant

    def _emit(self, model: Model, *operands: SSAValue) -> SSAValue:
        return self._u.result(model, operands)
