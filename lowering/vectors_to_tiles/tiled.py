"""Vectors, and the grids of registers that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, grid, vector
from pallasite.dialects.types import is_vector, vector_of
from pallasite.layouts.registers import LANES, register_shape
from pallasite.layouts.vector_layout import VectorLayout


@dataclass(frozen=True)
class Tiled:
    """A vector that is held in registers: the grid, its layout, and the shape of the vector."""

    grid: SSAValue
    layout: VectorLayout
    shape: tuple[int, ...]

    @property
    def laid(self) -> tuple[VectorLayout, tuple[int, ...]]:
        """Layout and shape, as moves take them."""
        return self.layout, self.shape

    @property
    def element(self) -> Attribute:
        """The element type of the registers."""
        return cast(VectorType[Attribute], self.grid.type).element_type


def is_free(held: Tiled, layout: VectorLayout) -> bool:
    """Whether a change to `layout` only renames registers."""
    return is_one_value(held) or only_gives_up_replication(held.layout, layout)


def is_one_value(held: Tiled) -> bool:
    """Whether one register, the same in every sublane and lane, holds the whole vector."""
    layout = held.layout
    replicated = layout.row is None and layout.column is None
    return replicated and layout.register_count(held.shape) == 1


def is_splat(held: Tiled) -> bool:
    """Whether all registers are known to hold one number everywhere."""
    owner = held.grid.owner
    if isinstance(owner, grid.BroadcastOp):
        owner = owner.value.owner
    scalar = isinstance(owner, vector.BroadcastOp) and not is_vector(owner.source)
    return is_one_value(held) or scalar or isinstance(owner, arith.ConstantOp)


def only_gives_up_replication(old: VectorLayout, new: VectorLayout) -> bool:
    """Whether `new` differs from `old` only in stating offsets along replicated axes."""
    if (old.bits, old.sublane_dim, old.lane_dim, old.tile_rows) != (
        new.bits,
        new.sublane_dim,
        new.lane_dim,
        new.tile_rows,
    ):
        return False
    return old.row in (None, new.row) and old.column in (None, new.column)


def as_native(held: Tiled) -> Tiled:
    """`held` in native tiles, with the same registers, if only one small tile of each holds
    data."""
    layout = held.layout
    if layout.is_native or layout.row is None or layout.column is None:
        return held
    rows, columns = layout.extents(held.shape)
    if layout.row + rows > layout.tile_rows or layout.column + columns > LANES:
        return held
    return replace(held, layout=replace(layout, tile_rows=layout.native_rows))


def grid_type(
    layout: VectorLayout, shape: Sequence[int], element: Attribute
) -> VectorType[Attribute]:
    """The type of the grid that holds a vector of `shape` and `element` in `layout`."""
    return vector_of(element, (*layout.grid_shape(shape), *register_shape(layout.bits)))


def concrete_layout(held: Tiled, dim: int | None = None, place: int = 0) -> VectorLayout:
    """The layout of `held` with an offset of element 0 along every axis.

    Of a dimension `dim` that is replicated, the offset is that of element `place` of a native
    layout; otherwise it is 0.
    """
    layout = held.layout
    native = layout.is_native
    row = place % layout.native_rows if native and dim == layout.sublane_dim is not None else 0
    column = place % LANES if native and dim == layout.lane_dim is not None else 0
    return layout.with_offsets(
        row if layout.row is None else layout.row,
        column if layout.column is None else layout.column,
    )
