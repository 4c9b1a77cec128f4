"""Reductions over the rows of several matrices in memory, as folds of whole registers.

One register holds a row of each matrix, loaded at a distance, so that nothing is left to reduce
within registers, and the results lie in rows of one register:

    %x = tpu.load %a[...] : vector<8x1x1x8x128xf32>        %x = tpu.load %a[...] sublane_stride 8
    %y = tpu.all_reduce %x dim 3                      ->        : vector<8x1x1x8x128xf32>
                                                           %y = grid.reduce %x dim 0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from pallasite.layouts.registers import SUBLANES
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.loading import is_loaded, load_slots
from pallasite.lowering.vectors_to_tiles.tiled import Tiled

_WITHIN = 6
"""Operations of the vector unit for one reduction over the sublanes: three rotations and three
folds."""


def with_rows_apart(
    source: SSAValue, dims: Sequence[int], c: Converter, *, only_stored: Callable[[], bool]
) -> Tiled | None:
    """`source` with its rows, the dimension to be reduced, in registers of their own.

    None if memory does not serve it so, or if that costs more than reducing within registers. A
    result that is not `only_stored` may be wanted in all sublanes, which only the latter gives.
    """
    held = c.tiled(source)
    layout, rank = held.layout, len(held.shape)
    if layout.bits != 32 or list(dims) != [rank - 2] or not layout.is_native:
        return None
    if layout.sublane_dim != rank - 2 or layout.lane_dim != rank - 1 or layout.row is None:
        return None
    if not (is_loaded(held.grid) and source.has_one_use() and only_stored()):
        return None
    best, least = None, _within(layout, held.shape)
    for dim in range(rank - 2):
        other = replace(layout, sublane_dim=dim, row=0)
        if _apart(other, held.shape, 1) >= least:
            continue
        served = c.served(source, other)
        if served is None:
            continue
        cost = _apart(other, held.shape, load_slots(served, c))
        if cost < least:
            best, least = Tiled(served, other, held.shape), cost
    return best


def _within(layout: VectorLayout, shape: Sequence[int]) -> int:
    """Register operations that load a value, reduce its rows within registers, and store the
    results.

    Each result then has a register of its own, from which it goes to a row of memory.
    """
    loads = layout.register_count(shape)
    results = loads // layout.grid_shape(shape)[-2]
    assert layout.row is not None
    padded = bool((layout.row + shape[-2]) % SUBLANES or layout.row)
    return loads + (loads - results) + (padded + _WITHIN + 1) * results


def _apart(layout: VectorLayout, shape: Sequence[int], slots: int) -> int:
    """Register operations that load a value with its rows in registers of their own, fold these,
    and store the results.

    A load takes `slots` operations.
    """
    loads = layout.register_count(shape)
    results = loads // shape[-2]
    return slots * loads + (loads - results) + results
