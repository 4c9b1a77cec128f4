"""Extrema of several registers and their positions, for argmax and argmin; `reduce_index.py` looks
within registers."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from pallasite.dialects import arith, grid, tpu
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.reduce import KINDS
from pallasite.passes.two_values import Number, neutral_value


@dataclass(frozen=True)
class Extremum:
    """The kind of extremum: greatest or least. As in JAX, NaN is more extreme than any number."""

    c: Converter
    greatest: bool
    numbers: bool
    """Whether no element is NaN."""

    @property
    def _kind(self) -> str:
        """The kind of `vector.multi_reduction` that computes the extremum."""
        return "maximumf" if self.greatest else "minimumf"

    @property
    def reduction(self) -> tpu.ReductionKind:
        """The kind of a reduction within registers."""
        return tpu.ReductionKind(KINDS[self._kind][1])

    @property
    def neutral(self) -> Number:
        """A number that is not better than any element."""
        return neutral_value(self._kind)

    def worse(self, value: SSAValue, other: SSAValue) -> SSAValue:
        """A mask that is true where `other` is better than `value`; nothing is better than NaN.

        A number is worse if it is not at least as good as the other one. A NaN is neither at least
        as good nor a number, so the exclusive or of these two comparisons tells.
        """
        if self.numbers:
            return self.c.emit(arith.CmpfOp(value, other, "olt" if self.greatest else "ogt"))
        good = self.c.emit(arith.CmpfOp(value, other, "oge" if self.greatest else "ole"))
        number = self.c.emit(arith.CmpfOp(value, value, "oeq"))
        return self.c.emit(arith.XOrIOp(good, number))

    def first(self, value: SSAValue, dim: int, step: int) -> tuple[SSAValue, SSAValue]:
        """The extrema along grid dimension `dim`, and the positions (i32) of the first registers
        that hold them.

        Both grids have extent 1 along `dim`. A position is the number of the register times `step`.
        """
        kind = KINDS[self._kind][0].name
        found = grid.FirstExtremumOp(value, dim, step, kind, numbers=self.numbers)
        self.c.emit(found)
        return found.best, found.place
