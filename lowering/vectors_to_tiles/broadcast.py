"""Broadcasts: free along leading dimensions and replicated axes, else the source is replicated
first.

    %m = vector.multi_reduction <maximumf>, %x, %c [1] : vector<128x128xf32> to vector<128xf32>
    %b = vector.broadcast %m : vector<128xf32> to vector<64x128xf32>

The maxima are replicated over the lanes, so %b can have the 16 registers of %m, with its rows along
the lanes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from pallasite.dialects import grid, tpu, vector
from pallasite.dialects.types import element_of, is_vector, shape_of, tiling_of
from pallasite.layouts.tiling import infer_tiling
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.chains import Copies, copied
from pallasite.lowering.vectors_to_tiles.constants import data_bits, splat_scalar
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.relayout import relayout_cost
from pallasite.lowering.vectors_to_tiles.shape import lifted, with_rank
from pallasite.lowering.vectors_to_tiles.tiled import grid_type, is_one_value

_STORES = (vector.StoreOp, tpu.VectorStoreOp)


@rule(vector.BroadcastOp)
def lower_broadcast(op: vector.BroadcastOp, c: Converter) -> None:
    """The registers of the source serve the new dimensions; a single row or column is replicated
    over the axis first."""
    source, result = op.operands[0], op.results[0]
    if not is_vector(source):
        shape = shape_of(result.type)
        layout = VectorLayout.replicated(len(shape), data_bits(element_of(result)))
        c.define(result, splat_scalar(source, layout, shape, c), layout)
        c.retire(op)
        return
    shape = shape_of(result.type)
    rank = len(shape)
    layout, old = lifted(c.tiled(source), rank)
    layout = _filled(layout, old, shape)
    spread = _spread(layout, old, shape)
    if layout.lane_dim != rank - 1 and old[-1] != shape[-1]:
        # Replicate over the lanes now: a new dimension that only numbers registers would have to
        # be moved to the lanes later, with all its copies.
        kept = rank < 2 or old[-2] == shape[-2]
        spread = VectorLayout.native(rank, layout.bits, 0 if kept else None, None)
    spread = _by_rows(op, spread, c)
    held = c.spread(source, lambda: with_rank(c.tiled(source), rank, c), rank, spread)
    c.define(result, broadcast_grid(held, spread, shape, c), spread)
    c.offer_smaller(result, _Before(source, spread, shape, c))
    if not is_one_value(c.tiled(source)):
        copied(op, (spread, shape), _copies(source, spread, shape, c), c)
    c.retire(op)


def _filled(layout: VectorLayout, old: tuple[int, ...], new: tuple[int, ...]) -> VectorLayout:
    """The layout with new dimensions on axes along which the source is replicated.

    There they take no registers, whereas a leading dimension takes one for each element. The
    longest goes to the lanes; an operation that wants it elsewhere moves the source (`_Before`).
    """

    def growing() -> list[int]:
        """The leading dimensions along which the value is broadcast."""
        return [d for d in layout.leading_dims(len(new)) if old[d] != new[d]]

    def free(place: int | None, dim: int | None) -> bool:
        """Whether the source is replicated on an axis with this place of element 0 and
        dimension."""
        return place is None and (dim is None or old[dim] == new[dim] == 1)

    if growing() and free(layout.column, layout.lane_dim):
        layout = replace(layout, lane_dim=max(growing(), key=lambda d: new[d]))
    if growing() and free(layout.row, layout.sublane_dim):
        layout = replace(layout, sublane_dim=max(growing(), key=lambda d: new[d]))
    return layout


def _spread(layout: VectorLayout, old: tuple[int, ...], new: tuple[int, ...]) -> VectorLayout:
    """The layout in which a value of shape `old` has the same registers as one of shape `new`."""
    grows = [a != b for a, b in zip(layout.extents(old), layout.extents(new), strict=True)]
    row = None if grows[0] or layout.sublane_dim is None else layout.row
    column = None if grows[1] or layout.lane_dim is None else layout.column
    return layout.with_offsets(row, column)


def _copies(source: SSAValue, spread: VectorLayout, shape: tuple[int, ...], c: Converter) -> Copies:
    """What it costs to replicate the source of a broadcast, and which registers of the result are
    the same."""
    layout, old = lifted(c.tiled(source), len(shape))
    grid, held = spread.grid_shape(shape), spread.grid_shape(old)
    numbers = np.broadcast_to(np.arange(math.prod(held)).reshape(held), grid)
    return Copies(relayout_cost(layout, old, spread, c), numbers.reshape(-1))


@dataclass(frozen=True)
class _Before:
    """Offers a broadcast in other layouts: its source is moved before it, so that no copies need
    be."""

    source: SSAValue
    layout: VectorLayout
    shape: tuple[int, ...]
    converter: Converter

    def cost(self, layout: VectorLayout) -> float | None:
        if layout.bits != self.layout.bits:
            return None
        held, old = lifted(self.converter.tiled(self.source), len(self.shape))
        cost = relayout_cost(held, old, _spread(layout, old, self.shape), self.converter)
        if layout.register_count(self.shape) < self.layout.register_count(self.shape):
            return cost
        apart = relayout_cost(self.layout, self.shape, layout, self.converter)
        return cost if cost < apart else None

    def make(self, layout: VectorLayout) -> SSAValue:
        c, rank = self.converter, len(self.shape)
        held = c.tiled(self.source)
        spread = _spread(layout, lifted(held, rank)[1], self.shape)
        moved = c.spread(self.source, lambda: with_rank(held, rank, c), rank, spread)
        return broadcast_grid(moved, layout, self.shape, c)


def _by_rows(op: vector.BroadcastOp, spread: VectorLayout, c: Converter) -> VectorLayout:
    """The layout in which each row is replicated in registers of its own, if memory serves that and
    it costs less.

    Rows on the sublanes of one register would be stored one by one, at a stride.
    """
    source, shape = op.operands[0], shape_of(op.results[0].type)
    old, rank = shape_of(source.type), len(shape)
    if len(old) != rank or rank < 3 or spread.bits != 32 or old[-1] != shape[-1]:
        return spread
    if old[-2] != 1 or spread.sublane_dim in (None, rank - 2) or spread.lane_dim != rank - 1:
        return spread
    rows = VectorLayout.native(rank, 32, None, spread.column)
    stored = VectorLayout.native(rank, 32, 0, spread.column)
    cost = rows.register_count(old) + stored.register_count(shape)
    times = c.target.row_accesses(_distance(op.results[0], spread.sublane_dim))
    apart = times * spread.register_count(shape)
    if cost >= spread.register_count(old) + apart:
        return spread
    return rows if c.served(source, rows) is not None else spread


def _distance(value: SSAValue, dim: int) -> int:
    """How far apart elements of dimension `dim` lie if `value`, of words, is stored as it is."""
    shape = shape_of(value.type)
    users = [use.operation for use in value.uses]
    tilings = [tiling_of(user.base.type) for user in users if isinstance(user, _STORES)]
    tiling = next((t for t in tilings if t is not None), infer_tiling(shape, 32))
    return tiling.strides[dim - len(shape)] * tiling.first[0]


def broadcast_grid(
    held: SSAValue, layout: VectorLayout, shape: tuple[int, ...], c: Converter
) -> SSAValue:
    """The grid `held` for the larger `shape` of the vector, in the same layout."""
    element = cast(VectorType, held.type).element_type
    return c.emit(grid.BroadcastOp(held, grid_type(layout, shape, element)))
