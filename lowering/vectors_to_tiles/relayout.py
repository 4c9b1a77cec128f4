"""Changes of layout: free if only replication is given up, otherwise one or two planned moves."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from pallasite.diagnostics import Unsupported
from pallasite.dialects import grid
from pallasite.dialects.types import vector_of
from pallasite.layouts.move import Move
from pallasite.layouts.planner.planner import plan
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.tiled import (
    Tiled,
    grid_type,
    is_one_value,
    only_gives_up_replication,
)


def relayout_cost(
    old: VectorLayout, shape: tuple[int, ...], new: VectorLayout, c: Converter
) -> float:
    """The register operations, weighted as in the planner, of a change of layout."""
    return _between(old, shape, new, c)[0]


def _between(
    old: VectorLayout, shape: tuple[int, ...], new: VectorLayout, c: Converter
) -> tuple[float, VectorLayout | None]:
    """The least cost of a change of layout, and the layout in between if two moves cost less than
    one."""
    least, between = _cost(old, shape, new, c), None
    if None in (old.row, old.column, new.row, new.column) or old.tile_rows != new.tile_rows:
        return least, None
    if new.row == old.row or new.with_offsets(old.row, old.column) != old:
        return least, None
    for layout in (old.with_offsets(old.row, new.column), old.with_offsets(new.row, old.column)):
        if layout in (old, new):
            return least, None
        first = _cost(old, shape, layout, c)
        cost = first + _cost(layout, shape, new, c) if first < least else first
        if cost < least:
            least, between = cost, layout
    return least, between


def _cost(old: VectorLayout, shape: tuple[int, ...], new: VectorLayout, c: Converter) -> float:
    """The cost of the plan of a change of layout, infinite if there is none."""
    try:
        return plan(Move.relayout(old, shape, new), c.costs).cost
    except Unsupported:
        return math.inf


def relayout(held: Tiled, layout: VectorLayout, c: Converter) -> SSAValue:
    """The grid of `held` in `layout`, by renaming or by moves."""
    if is_one_value(held):
        kind = vector_of(held.element, held.layout.register_shape())
        one = c.emit(grid.ReshapeOp(held.grid, kind))
        return c.emit(grid.BroadcastOp(one, grid_type(layout, held.shape, held.element)))
    if only_gives_up_replication(held.layout, layout):
        return c.emit(grid.BroadcastOp(held.grid, grid_type(layout, held.shape, held.element)))
    between = _between(held.layout, held.shape, layout, c)[1]
    if between is not None:
        return relayout(c.relayout(held, between), layout, c)
    return c.move(Move.relayout(held.layout, held.shape, layout), [held.grid])
