"""Changes of layout: free where only replication is given up, else planned movement."""

from __future__ import annotations

from xdsl.ir import SSAValue

from pallasite.dialects import grid
from pallasite.dialects.types import vector_of
from pallasite.layouts.move import Move
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.tiled import (
    Tiled,
    grid_type,
    is_one_value,
    only_gives_up_replication,
)


def relayout(held: Tiled, layout: VectorLayout, c: Converter) -> SSAValue:
    """The grid of `held` in `layout`."""
    if is_one_value(held):
        kind = vector_of(held.element, held.layout.register_shape())
        one = c.emit(grid.ReshapeOp(held.grid, kind))
        return c.emit(grid.BroadcastOp(one, grid_type(layout, held.shape, held.element)))
    if only_gives_up_replication(held.layout, layout):
        return c.emit(grid.BroadcastOp(held.grid, grid_type(layout, held.shape, held.element)))
    return c.move(Move.relayout(held.layout, held.shape, layout), [held.grid])
