"""Changes of layout: free where only replication is given up, else planned movement."""

from __future__ import annotations

from xdsl.ir import SSAValue

from pallasite.dialects import grid
from pallasite.layouts.move import Move
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.converter import Converter, Tiled, grid_type


def relayout(c: Converter, held: Tiled, layout: VectorLayout) -> SSAValue:
    """The grid of `held` in `layout`."""
    if only_gives_up_replication(held.layout, layout):
        return c.emit(grid.BroadcastOp(held.grid, grid_type(layout, held.shape, held.element)))
    return c.move(Move.relayout(held.layout, held.shape, layout), [held.grid])


def only_gives_up_replication(old: VectorLayout, new: VectorLayout) -> bool:
    """True if `new` differs from `old` only in naming a place along replicated axes."""
    if (old.bits, old.sublane_dim, old.lane_dim, old.tile_rows) != (
        new.bits, new.sublane_dim, new.lane_dim, new.tile_rows,
    ):  # fmt: skip
        return False
    return old.row in (None, new.row) and old.column in (None, new.column)
