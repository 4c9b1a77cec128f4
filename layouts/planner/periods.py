"""Finds destination registers that repeat one another, so that only a few have to be planned.

Two registers repeat one another (are of one *kind*) if their words come from the same places of
source registers whose numbers differ by a constant. A movement of thousands of registers has few
kinds: those of one period, and those at the edges. One or more registers of each kind are planned
together with some neighbours, with which they share instructions; `extend.py` applies the plan to
all (spec/grid_form.md section 0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pallasite.layouts.planner.lines import Array, any_along, distinct_values
from pallasite.layouts.planner.trace import Trace
from pallasite.layouts.planner.words import alike

_NEAR = ((8, 2), (4, 2), (2, 2))
"""Alternatives for how many registers at the beginning and the end of every grid dimension are
planned in any case. The first one that is small enough is taken, because instructions that
neighbours share are found only if these are planned together."""
_LEAST = 2
"""Planning only some registers is worth it if at least this many are left out per planned one."""


@dataclass(frozen=True)
class Periods:
    """The destination registers that are planned, and how the others repeat them."""

    found: Trace
    """The trace of the planned registers, with the source registers moved together over gaps."""
    chosen: Array
    """The numbers of the planned registers, ascending."""
    kind: Array
    """Per destination register, the number of its kind."""
    model: Array
    """Per kind, the position in `chosen` of the register that its members repeat."""
    shift: Array
    """[sources, registers]: what to add to the source register numbers of the model in `found`."""

    def sample(self) -> Array:
        """Registers to check: first, second, middle and last of every kind, and the planned
        ones."""
        order = np.argsort(self.kind, kind="stable")
        count = np.bincount(self.kind)
        first = np.cumsum(count) - count
        places = [first, first + np.minimum(1, count - 1), first + count // 2, first + count - 1]
        return distinct_values([order[np.concatenate(places)], self.chosen])


def periods(found: Trace, grid: Sequence[int], sources: Sequence[int]) -> Periods | None:
    """How the registers of the destination `grid` repeat one another; None if too few do.

    `sources` has the number of registers of each source.
    """
    count = len(found.register)
    bounds = np.cumsum([0, *sources])
    wanted = found.register >= 0
    live = any_along(wanted, 0, 2)
    fields = (found.register, found.row, found.lane)
    register, row, lane = fields if live.all() else (f[:, live] for f in fields)
    relative, first = np.full_like(register, -1), np.zeros((len(sources), count), np.int64)
    last = np.zeros_like(first)
    # The source is compared, too: equal relative numbers in different sources differ.
    origin = np.zeros_like(relative) if len(sources) > 1 else None
    for number, (start, end) in enumerate(pairwise(bounds.tolist())):
        mine = (register >= start) & (register < end)
        lowest = np.where(mine, register, end).min((1, 2))
        first[number] = np.where(lowest == end, start, lowest)
        np.subtract(register, first[number][:, None, None], out=relative, where=mine)
        last[number] = end - 1 - np.where(mine, relative, 0).max((1, 2))
        if origin is not None:
            origin[mine] = number
    kind = alike([f for f in (origin, relative, row, lane) if f is not None])
    tried = (_picked(kind, grid, near) for near in _NEAR)
    picked = next((found for found in tried if found is not None), None)
    if picked is None:
        return None
    chosen = np.arange(count).reshape(tuple(grid))[np.ix_(*picked)].reshape(-1)
    # Source registers move towards the beginning by those that the gaps leave out.
    nearer = first[:, chosen] - _left_out(picked, kind, first, grid)
    # This may leave the source where its registers begin anew; so the result is clipped.
    nearer = np.clip(nearer, bounds[:-1, None], last[:, chosen])
    order = np.argsort(kind[chosen], kind="stable")
    kinds = np.bincount(kind[chosen])
    model = order[np.cumsum(kinds) - kinds + kinds // 2]
    register = found.register[chosen]
    source = np.searchsorted(bounds[1:], register, side="right")
    moved = (nearer - first[:, chosen])[source, np.arange(chosen.size)[:, None, None]]
    register = np.where(register >= 0, register + moved, -1)
    row, lane = found.row[chosen], found.lane[chosen]
    few = Trace(found.starts, register, row, lane, found.slopes, found.walked)
    return Periods(few, chosen, kind, model, first - nearer[:, model][:, kind])


def _picked(kind: Array, grid: Sequence[int], near: tuple[int, int]) -> list[Array] | None:
    """Indices per grid dimension whose product contains every kind; None if they are too many.

    They include the first `near[0]` and the last `near[1]` indices of every dimension.
    """
    kinds = int(kind.max()) + 1
    most = kind.size // (1 + _LEAST)
    if kinds > most:
        return None
    numbers = np.arange(kind.size).reshape(tuple(grid))
    picked = [{*range(min(n, near[0])), *range(max(n - near[1], 0), n)} for n in grid]
    _, first = np.unique(kind, return_index=True)
    while math.prod(map(len, picked)) <= most:
        places = [np.array(sorted(p)) for p in picked]
        missing = np.ones(kinds, np.bool_)
        missing[kind[numbers[np.ix_(*places)].reshape(-1)]] = False
        if not missing.any():
            return places
        left = int(first[missing.argmax()])
        for dim in range(len(grid) - 1, -1, -1):
            left, at = divmod(left, grid[dim])
            picked[dim] |= {at, min(at + 1, grid[dim] - 1)}
    return None


def _left_out(picked: list[Array], kind: Array, first: Array, grid: Sequence[int]) -> Array:
    """[sources, chosen]: by how many source registers a register behind gaps is moved forward.

    A register behind a gap takes the place of the first one in the gap if both are of one kind, so
    that it shares source registers with its new neighbours as the latter does.
    """
    kinds, firsts = kind.reshape(tuple(grid)), first.reshape(-1, *grid)
    result = np.zeros((len(first), *map(len, picked)), np.int64)
    for dim, places in enumerate(picked):
        moved = np.zeros((len(first), places.size), np.int64)
        for number in (np.nonzero(np.diff(places) > 1)[0] + 1).tolist():
            gap, after = int(places[number - 1]) + 1, int(places[number])
            alike = kinds.take(gap, dim) == kinds.take(after, dim)
            if alike.any():
                far = (firsts.take(after, dim + 1) - firsts.take(gap, dim + 1))[:, alike]
                moved[:, number:] += far.max(1, keepdims=True)
        shape = [len(first), *(1,) * len(grid)]
        shape[dim + 1] = places.size
        result += moved.reshape(shape)
    return result.reshape(len(first), -1)
