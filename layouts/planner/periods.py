"""Destination registers that repeat one another: what a large movement is planned for.

Two registers repeat one another if their words come from the same places, but for a distance
between their source registers. A movement of thousands of registers has few different ones: those
of one period, and those at the edges. They are planned with some of their neighbours, with whom
they share instructions; `extend.py` applies the plan to all (spec/grid_form.md
section 0).
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
"""How many registers at the beginning and the end of every grid dimension are planned in any case.
The more neighbours are planned together, the better known is what they share; so the largest choice
that is small enough is taken."""
_LEAST = 2
"""Repeating pays if at least this many registers are left out per register that is planned."""


@dataclass(frozen=True)
class Periods:
    """Few destination registers in place of all."""

    found: Trace
    """Where their words come from, as if what lies between them had been left out."""
    chosen: Array
    """Which registers they are, ascending."""
    kind: Array
    """Per destination register, a number that those have in common which repeat one another."""
    model: Array
    """Per kind, the place in `chosen` of the register that all of its kind repeat."""
    shift: Array
    """[sources, registers]: how much further its source registers are than in `found`."""

    def sample(self) -> Array:
        """The first, second, middle and last register of every kind, and those that are planned."""
        order = np.argsort(self.kind, kind="stable")
        count = np.bincount(self.kind)
        first = np.cumsum(count) - count
        places = [first, first + np.minimum(1, count - 1), first + count // 2, first + count - 1]
        return distinct_values([order[np.concatenate(places)], self.chosen])


def periods(found: Trace, grid: Sequence[int], sources: Sequence[int]) -> Periods | None:
    """How the registers of `grid` repeat one another; None if too few do.

    `sources` are the numbers of registers of the sources.
    """
    count = len(found.register)
    bounds = np.cumsum([0, *sources])
    wanted = found.register >= 0
    live = any_along(wanted, 0, 2)
    fields = (found.register, found.row, found.lane)
    register, row, lane = fields if live.all() else (f[:, live] for f in fields)
    relative, first = np.full_like(register, -1), np.zeros((len(sources), count), np.int64)
    last = np.zeros_like(first)
    # By source: the same distance from another source is not the same place.
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
    # What is left out of one row of the grid may be more than there is before the next one.
    nearer = first[:, chosen] - _left_out(picked, kind, first, grid)
    # Where the source begins anew, what follows a gap moves on; but never out of the source.
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
    """Places along every dimension, such that every kind occurs; None if they are too many.

    Among them are so many at the begin and at the end of every dimension.
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
    """[sources, chosen]: how many source registers what follows a gap moves towards what is before.

    A register behind a gap takes the place of the first one in it, if both are of a kind; so it
    shares source registers with its new neighbours as that one did.
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
