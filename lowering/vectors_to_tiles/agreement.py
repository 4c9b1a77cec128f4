"""Chooses the layout in which the operands of an operation meet: the one with the fewest register
operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.loading import is_loaded, load_slots
from pallasite.lowering.vectors_to_tiles.relayout import relayout_cost
from pallasite.lowering.vectors_to_tiles.tiled import Tiled, is_free, is_splat

USES = 2
"""How often a value is counted in the layout that is chosen for it: it is made and used."""


def _never() -> bool:
    """False: the default for `only_stored`."""
    return False


def meet(
    values: Sequence[SSAValue],
    bits: int,
    c: Converter,
    *,
    only_stored: Callable[[], bool] = _never,
) -> VectorLayout:
    """The layout in which vectors of one shape meet.

    The operands' own layouts are the candidates, those of few registers first. The cost of a
    candidate is what it takes to move all operands there, plus `USES` for each of its registers:
    the result is computed, and used once. A result that is `only_stored` need not be replicated
    along an axis.
    """
    operands = [c.tiled(value) for value in values]
    shape, first = operands[0].shape, operands[0].layout
    alike = first.bits == bits and all(operand.layout == first for operand in operands)
    fuller = _fuller(values, bits, c)
    if alike and not fuller:
        return first
    candidates = [*_candidates(operands, bits, only_stored), *fuller]
    if len(candidates) == 1:
        return candidates[0]
    best, least = candidates[0], math.inf
    for layout in sorted(candidates, key=lambda layout: layout.register_count(shape)):
        cost = USES * float(layout.register_count(shape))
        for value in dict.fromkeys(values):
            # Planning large movements is slow: stop as soon as the candidate is too expensive.
            if cost >= least:
                break
            if fuller and c.tiled(value).layout == layout:
                cost += loading_cost(c.tiled(value), c)
            cost += moving_cost(value, layout, c)
        if cost < least:
            best, least = layout, cost
    return best


def moving_cost(value: SSAValue, layout: VectorLayout, c: Converter) -> float:
    """The register operations, weighted as in the planner, that give `value` in `layout`."""
    held = c.tiled(value)
    if is_free(held, layout) or c.is_held(value, layout):
        return 0.0
    smaller = c.smaller(value)
    if smaller is not None and (cost := smaller.cost(layout)) is not None:
        return cost
    served = c.served(value, layout)
    if served is not None:
        return layout.register_count(held.shape) * load_slots(served, c)
    return relayout_cost(held.layout, held.shape, layout, c)


def loading_cost(held: Tiled, c: Converter) -> float:
    """What loading `held` takes, in register operations, if it comes from memory as it is."""
    if not is_loaded(held.grid):
        return 0.0
    return float(held.layout.register_count(held.shape) * load_slots(held.grid, c))


def _fuller(values: Sequence[SSAValue], bits: int, c: Converter) -> list[VectorLayout]:
    """Rows that fill registers of a row each, where memory may serve them together."""
    if not any(is_loaded(c.tiled(value).grid) for value in values):
        return []
    found: dict[VectorLayout, None] = {}
    for held in map(c.tiled, values):
        layout, rank = held.layout, len(held.shape)
        if rank < 2 or layout.lane_dim != rank - 1 or layout.extents(held.shape)[0] != 1:
            continue
        full = VectorLayout.native(rank, bits, 0, layout.column)
        if full.register_count(held.shape) < layout.register_count(held.shape):
            found[full] = None
    return list(found)


def agree(operands: Sequence[Tiled], bits: int) -> VectorLayout:
    """The layout in which `operands` meet, some of which are no vectors of the kernel.

    The cost of moving these is not known, so the layout with the most registers, the first of
    these, decides which dimensions lie on sublanes and lanes.
    """
    layouts = [o.layout for o in operands]
    leader = max(layouts, key=lambda layout: layout.register_count(operands[0].shape))
    return _led(leader, operands, bits, _never)


def spelled_out(layout: VectorLayout, shape: tuple[int, ...]) -> VectorLayout:
    """`layout` without replication along dimensions of more than one element."""
    rows, columns = layout.extents(shape)
    row = 0 if layout.row is None and rows > 1 else layout.row
    column = 0 if layout.column is None and columns > 1 else layout.column
    return layout.with_offsets(row, column)


def _candidates(
    operands: Sequence[Tiled], bits: int, only_stored: Callable[[], bool]
) -> list[VectorLayout]:
    """A layout for each way in which operands assign dimensions to sublanes and lanes, the one with
    the most registers first."""
    shape = operands[0].shape
    leaders: dict[object, VectorLayout] = {}
    for layout in sorted((o.layout for o in operands), key=lambda k: -k.register_count(shape)):
        leaders.setdefault(_axes(layout), layout)
    return [_led(leader, operands, bits, only_stored) for leader in leaders.values()]


def _led(
    leader: VectorLayout, operands: Sequence[Tiled], bits: int, only_stored: Callable[[], bool]
) -> VectorLayout:
    """The layout in which operands meet if dimensions are assigned to axes as in `leader`.

    Only operands with the same assignment count. An axis stays replicated if all of them, splats
    aside, have it so. It also does if the dimension has size 1 and one of them, not a splat, has it
    replicated: replicating a column later would cost more than replicating the others now, unless
    the result is `only_stored`. Different offsets meet at 0.
    """
    shape = operands[0].shape
    rows, columns = leader.extents(shape)
    placed = [o for o in operands if _axes(o.layout) == _axes(leader)]
    alike = [o.layout for o in placed if not is_splat(o)] or [o.layout for o in placed]
    row = _common([layout.row for layout in alike], rows, only_stored)
    column = _common([layout.column for layout in alike], columns, only_stored)
    layout = VectorLayout(bits, leader.sublane_dim, leader.lane_dim, row, column, leader.tile_rows)
    # An operand with other dimensions on these axes may vary where the leader does not.
    return spelled_out(layout, shape) if len(placed) < len(operands) else layout


def _axes(layout: VectorLayout) -> tuple[int | None, int | None, int]:
    """The dimensions on sublanes and lanes, and the rows of tiles: what operands with one
    assignment share."""
    return layout.sublane_dim, layout.lane_dim, layout.tile_rows


def _common(
    offsets: Sequence[int | None], extent: int, only_stored: Callable[[], bool]
) -> int | None:
    """The offset of element 0 along an axis of `extent` elements in which all `offsets` meet; None
    if replicated."""
    concrete = {o for o in offsets if o is not None}
    if not concrete or (extent == 1 and None in offsets and not only_stored()):
        return None
    return concrete.pop() if len(concrete) == 1 else 0
