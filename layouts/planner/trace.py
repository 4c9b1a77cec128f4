"""Computes where every row segment of a destination comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pallasite.diagnostics import Unsupported
from pallasite.kept import kept
from pallasite.layouts.move import Laid, Move
from pallasite.layouts.planner.lines import Array, Line, Lines
from pallasite.layouts.registers import LANES
from pallasite.layouts.vector_layout import VectorLayout


@dataclass(frozen=True, eq=False)
class Trace:
    """Source positions of a destination as arrays [registers, rows, segments]; -1 is padding.

    Registers of all sources are numbered consecutively. Within a segment of lanes, `register`,
    `row` and `lane` each advance by a constant per lane, given in `slopes`.
    """

    starts: Array
    register: Array
    row: Array
    lane: Array
    slopes: tuple[int, int, int]
    walked: tuple[int, ...]
    """How the source's logical index advances per lane, per dimension."""

    @property
    def lengths(self) -> Array:
        """The number of lanes of each segment."""
        return np.diff(np.append(self.starts, LANES))

    @property
    def aligned(self) -> bool:
        """Whether each segment stays in one source row and its lanes advance by one."""
        return self.slopes == (0, 0, 1)

    def words(self) -> Trace:
        """The same trace with one segment per lane."""
        segment = np.searchsorted(self.starts, np.arange(LANES), side="right") - 1
        along = np.arange(LANES) - self.starts[segment]
        data = self.register[..., segment] >= 0
        fields = (self.register, self.row, self.lane)
        register, row, lane = (
            np.where(data, field[..., segment] + slope * along, -1)
            for field, slope in zip(fields, self.slopes, strict=True)
        )
        return Trace(np.arange(LANES), register, row, lane, (0, 0, 1), self.walked)


_MANY = 1 << 18
"""Rows of more are too many, whether or not they are cut in stretches."""
_SAMPLE = 16
"""Cuts between segments are looked at in so many registers first."""


class TooFine(Exception):
    """The trace of a movement has more row segments than the caller allows."""


@kept
def trace(move: Move, most: float = math.inf) -> Trace:
    """Computes the trace of `move`, cutting lanes until every step is affine on every segment.

    Raises `TooFine` as soon as there are more than `most` row segments.
    """
    layout, shape = move.destination
    integer = _integer(move)
    starts = np.zeros(1, integer)
    grid = layout.grid_shape(shape)
    live = layout.live_rows(shape)
    registers, rows = math.prod(grid), live.astype(integer)
    if registers * rows.size > max(most, _MANY):
        raise TooFine  # Before all of them are looked at, to be looked at again in stretches.
    # One axis per dimension of the grid, then rows and segments: what depends on one of them only
    # is looked at once for each of its places.
    places = [
        np.arange(n, dtype=integer).reshape(-1, *(1,) * (len(grid) + 1 - at))
        for at, n in enumerate(grid)
    ]
    while True:
        index, valid, lines = _destination_index(layout, shape, places, rows[:, None], starts)
        if not lines.cuts.any():
            # The borders of the data come first: beyond them nothing has to be looked at.
            for step in reversed(move.steps):
                index = step.pull(lines, index)
            register, row, lane, slopes = _locate_in_sources(move, lines, index, rows[:, None])
            if not lines.cuts.any():
                break
        lines.cuts[starts] = True
        starts = np.nonzero(lines.cuts)[0].astype(integer)
        if registers * rows.size * starts.size > most:
            raise TooFine
    full, flat = (*grid, rows.size, starts.size), (registers, rows.size, starts.size)
    valid = np.broadcast_to(valid, full)
    register, row, lane = (np.where(valid, a, -1).reshape(flat) for a in (register, row, lane))
    walked = tuple(line.slope for line in index)
    longer = np.diff(np.append(starts, LANES)) > 1
    if not (register[..., longer] >= 0).any():
        slopes = (0, 0, 1)  # Single lanes advance in no way; a displacement serves them best.
    found = _merged(Trace(starts, register, row, lane, slopes, walked))
    fields = (found.register, found.row, found.lane)
    register, row, lane = (_with_rows(field, live, layout.native_rows) for field in fields)
    return Trace(found.starts.astype(np.int64), register, row, lane, slopes, walked)


def _integer(move: Move) -> type[np.integer[Any]]:
    """The smaller of two integer types, which is twice as fast, if it can number all elements."""
    laid = (*move.sources, move.destination)
    shapes = [*(step.shape for step in move.steps), *(shape for _, shape in laid)]
    places = [layout.register_count(shape) * layout.native_rows * LANES for layout, shape in laid]
    # Sums of two numbers, and those of what lies before or behind the data.
    largest = 4 * (sum(places) + sum(math.prod(shape) for shape in shapes))
    return np.int32 if largest <= np.iinfo(np.int32).max else np.int64


def _with_rows(field: Array, live: Array, count: int) -> Array:
    """`field` [registers, rows, segments] of the rows `live`, with -1 in all others."""
    if live.size == count:
        return field.astype(np.int64)
    full = np.full((len(field), count, field.shape[2]), -1)
    full[:, live] = field
    return full


def _destination_index(
    layout: VectorLayout,
    shape: tuple[int, ...],
    places: Sequence[Array],
    rows: Array,
    starts: Array,
) -> tuple[list[Line], Array, Lines]:
    rank = len(places) + 2
    index, valid = layout.elements_on(shape, places, rows, starts)
    # Cuts at the borders of the data must be found where the segment starts in padding, too.
    lines = Lines(starts, np.ones((1,) * rank, np.bool_))
    result = [Line(_of_rank(a, rank), 0) for a in index]
    if layout.column is not None:
        tile = places[-1] * layout.block[1]
        column = tile + rows // layout.tile_rows * LANES + starts - layout.column
        line = Line(column, 1)
        lines.classify(line, np.array([0, layout.extents(shape)[1]]))
        if layout.lane_dim is not None:
            result[layout.lane_dim] = line
    lines.active = _of_rank(valid, rank)
    return result, valid, lines


def _of_rank(a: Array, rank: int) -> Array:
    """`a` with axes of extent 1 before its own."""
    return a.reshape((1,) * (rank - a.ndim) + a.shape)


def _locate_in_sources(
    move: Move, lines: Lines, index: list[Line], rows: Array
) -> tuple[Array, Array, Array, tuple[int, int, int]]:
    if len(move.sources) == 1:
        register, row, lane = _locate(move.sources[0], lines, index, rows)
        return register.base, row.base, lane.base, (register.slope, row.slope, lane.slope)
    dim = move.concat_dim
    bounds = np.cumsum([0, *(shape[dim] for _, shape in move.sources)])
    which = lines.classify(index[dim], bounds)
    first, result = 0, list[Array]()
    slopes = (0, 0, 0)
    for number, source in enumerate(move.sources):
        local = list(index)
        local[dim] = index[dim].scaled(1, -int(bounds[number]))
        here = which == number
        active, lines.active = lines.active, lines.active & here
        found = _locate(source, lines, local, rows)
        lines.active = active
        bases = [found[0].base + first, found[1].base, found[2].base]
        first += source[0].register_count(source[1])
        advance = (found[0].slope, found[1].slope, found[2].slope)
        if not number:
            result, slopes = bases, advance
            continue
        result = [np.where(here, new, old) for new, old in zip(bases, result, strict=True)]
        if slopes != advance:
            # Sources that advance differently: look at every lane by itself.
            lines.cuts[:] = lines.starts.size < LANES
    return result[0], result[1], result[2], slopes


def _locate(source: Laid, lines: Lines, index: list[Line], rows: Array) -> tuple[Line, Line, Line]:
    """`VectorLayout.locate` on lines; along a replicated axis the destination's position is
    taken."""
    layout, shape = source
    strides = layout.strides(shape)
    register = lines.constant(0)
    for dim, stride in zip(layout.leading_dims(len(shape)), strides, strict=False):
        register = register.plus(index[dim].scaled(stride, 0))
    row, lane = lines.constant(0), Line(_of_rank(lines.starts, lines.active.ndim), 1)
    if layout.row is not None:
        position = lines.constant(0) if layout.sublane_dim is None else index[layout.sublane_dim]
        block, row = lines.divide(position.scaled(1, layout.row), layout.block[0])
        register = register.plus(block.scaled(strides[-2], 0))
    else:
        row = Line(rows % layout.tile_rows, 0)
    if layout.column is not None:
        position = lines.constant(0) if layout.lane_dim is None else index[layout.lane_dim]
        block, rest = lines.divide(position.scaled(1, layout.column), layout.block[1])
        tile, lane = lines.divide(rest, LANES)
        register = register.plus(block.scaled(strides[-1], 0))
        row = row.plus(tile.scaled(layout.tile_rows, 0))
    elif layout.row is None:
        row = Line(rows, 0)
    return register, row, lane


def _merged(found: Trace) -> Trace:
    """Removes cuts between segments that turned out to continue each other."""
    if len(found.starts) < 2:
        return found
    steps = np.diff(found.starts)
    # Most cuts are seen in a few registers.
    some = np.arange(0, len(found.register), max(1, len(found.register) // _SAMPLE))
    joined = np.nonzero(_continues(found, steps, some, slice(None)))[0]
    if joined.size and some.size < len(found.register):
        joined = joined[_continues(found, steps, slice(None), joined)]
    if not joined.size:
        return found
    keep = np.ones(found.starts.size, np.bool_)
    keep[joined + 1] = False
    return replace(
        found,
        starts=found.starts[keep],
        register=found.register[..., keep],
        row=found.row[..., keep],
        lane=found.lane[..., keep],
    )


def _continues(found: Trace, steps: Array, registers: Array | slice, cuts: Array | slice) -> Array:
    """For each of some cuts, whether the segment after it continues the one before in all
    `registers`; `steps` are the lengths of the segments before."""
    fields = [f[registers] for f in (found.register, found.row, found.lane)]
    before, after = ([f[..., at][..., cuts] for f in fields] for at in (slice(-1), slice(1, None)))
    same = (after[0] >= 0) == (before[0] >= 0)
    for old, new, slope in zip(before, after, found.slopes, strict=True):
        same &= (new == old + slope * steps[cuts]) | (new < 0)
    return same.all((0, 1))


def check_replication(move: Move) -> None:
    """Refuses a destination that is replicated along a dimension in which its data differ.

    The first and the last element of such a dimension must come from the same source element
    (spec/vreg_lowering.md section 6.2, precondition).
    """
    layout, shape = move.destination
    for dim, offset in ((layout.sublane_dim, layout.row), (layout.lane_dim, layout.column)):
        if dim is None or offset is not None or shape[dim] == 1:
            continue
        lines = Lines(np.zeros(1, np.int64), np.ones((1, 1, 1), np.bool_))
        places: list[tuple[int, ...]] = []
        for number in (0, 1, shape[dim] - 1):
            index = [lines.constant(number if d == dim else 0) for d in range(len(shape))]
            for step in reversed(move.steps):
                index = step.pull(lines, index)
            found = _locate_in_sources(move, lines, index, np.zeros((1, 1, 1), np.int64))
            places.append(tuple(int(a.reshape(-1)[0]) for a in found[:3]))
        if len(set(places)) > 1:
            raise Unsupported(
                "movement-replication",
                f"cannot replicate dimension {dim} whose elements differ: {move}",
            )
