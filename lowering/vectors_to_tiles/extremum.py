"""What argmax and argmin look for: extrema of several registers and their positions, without those
within a register.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from pallasite.dialects import arith, grid, tpu
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.reduce import KINDS
from pallasite.passes.two_values import Number, neutral_value


@dataclass(frozen=True)
class Extremum:
    """The kind of extremum, the greatest or the least; as in JAX, NaN counts as more extreme than
    any number."""

    c: Converter
    greatest: bool
    numbers: bool
    """Whether no element is NaN."""

    @property
    def _kind(self) -> str:
        return "maximumf" if self.greatest else "minimumf"

    @property
    def reduction(self) -> tpu.ReductionKind:
        """The kind of a reduction within registers."""
        return tpu.ReductionKind(KINDS[self._kind][1])

    @property
    def neutral(self) -> Number:
        """What is not better than any element."""
        return neutral_value(self._kind)

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
        kind = KINDS[self._kind][0].name
        found = grid.FirstExtremumOp(value, dim, step, kind, numbers=self.numbers)
        self.c.emit(found)
        return found.best, found.place
