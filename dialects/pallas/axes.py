"""What `pallas.kernel` and `pallas.emit_pipeline` say of the axes of their grids."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute
from xdsl.irdl import opt_prop_def

from pallasite.dialects.pallas.base import PallasOp, integers_of
from pallasite.dialects.tpu import DimensionSemantics, DimensionSemanticsAttr
from pallasite.dialects.tpu.base import I64_ARRAY
from pallasite.dialects.types import dense_integers


class OverGrid(PallasOp, ABC):
    """An operation whose body runs once per point of a grid.

    `semantics` has one entry per axis, if it is there; `mapped` are the axes that a transformation
    such as `vmap` added, which the body does not count.
    """

    semantics = opt_prop_def(ArrayAttr[DimensionSemanticsAttr])
    mapped = opt_prop_def(I64_ARRAY)

    @property
    @abstractmethod
    def grid_shape(self) -> tuple[int, ...] | None:
        """Sizes of the grid's axes, DYNAMIC where unknown; None without a grid."""

    @property
    def axis_semantics(self) -> tuple[str, ...]:
        """The dimension semantics of every axis, empty if the operation says nothing."""
        return () if self.semantics is None else tuple(s.data.value for s in self.semantics)

    @property
    def user_axes(self) -> tuple[int, ...]:
        """The axes that `pallas.program_id` counts, by position in the grid."""
        mapped = integers_of(self.mapped)
        return tuple(a for a in range(len(self.grid_shape or ())) if a not in mapped)


def axis_properties(semantics: Sequence[str] | None, mapped: Sequence[int]) -> dict[str, Attribute]:
    """The properties of an `OverGrid`, those left out that say nothing."""
    properties: dict[str, Attribute] = {}
    if semantics is not None:
        properties["semantics"] = ArrayAttr(
            DimensionSemanticsAttr(DimensionSemantics(s)) for s in semantics
        )
    if mapped:
        properties["mapped"] = dense_integers(mapped)
    return properties
