"""Destination registers that repeat one another: what a large movement is planned for.

Two registers repeat one another if their words come from the same places, but for a distance
between their source registers. A movement of thousands of registers has few different ones: those
of one period, and those at the edges. They are planned with some of their neighbours, with whom
they share instructions; `planner_extend.py` applies the plan to all (design note "Form 4",
section 0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pallasite.layouts.planner_lines import Array, distinct_values
from pallasite.layouts.planner_trace import Trace
from pallasite.layouts.planner_words import unique_rows

_NEAR = 3
"""Registers in a row at both ends of every grid dimension that are planned in any case."""
_LEAST = 2
"""Repeating pays if so many times as many registers are not planned as are."""


@dataclass(frozen=True)
class Periods:
    """Few destination registers in place of all."""

    chosen: Array
    """The registers that are planned, ascending."""
    kind: Array
    """Per destination register, a number that those have in common which repeat one another."""
    model: Array
    """Per kind, the place in `chosen` of the register that the others of its kind repeat."""
    shift: Array
    """[sources, registers]: how much further its source registers are than those of its model."""

    def only(self, found: Trace) -> Trace:
        """The trace of the chosen registers."""
        register, row, lane = (f[self.chosen] for f in (found.register, found.row, found.lane))
        return Trace(found.starts, register, row, lane, found.slopes, found.walked)

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
    wanted = found.register >= 0
    bounds = np.cumsum([0, *sources])
    relative, first = np.full_like(found.register, -1), np.zeros((len(sources), count), np.int64)
    for number, (start, end) in enumerate(pairwise(bounds.tolist())):
        mine = wanted
        if len(sources) > 1:
            mine = (found.register >= start) & (found.register < end)
        lowest = np.where(mine, found.register, end).min((1, 2))
        first[number] = np.where(lowest == end, 0, lowest)
        np.subtract(found.register, first[number][:, None, None], out=relative, where=mine)
        # The same distance from another source is not the same place.
        relative[mine] += int(bounds[-1]) * number
    fields = [f.reshape(count, -1) for f in (relative, found.row, found.lane)]
    _, _, kind = unique_rows(np.concatenate(fields, 1))
    chosen = _chosen(kind, grid)
    if chosen is None:
        return None
    order = np.argsort(kind[chosen], kind="stable")
    kinds = np.bincount(kind[chosen])
    model = order[np.cumsum(kinds) - kinds + kinds // 2]
    return Periods(chosen, kind, model, first - first[:, chosen[model]][:, kind])


def _chosen(kind: Array, grid: Sequence[int]) -> Array | None:
    """A box of registers, with gaps, in which every kind occurs; None if it is not much smaller."""
    kinds = int(kind.max()) + 1
    most = kind.size // (1 + _LEAST)
    if kinds > most:
        return None
    numbers = np.arange(kind.size).reshape(tuple(grid))
    picked = [{*range(min(n, _NEAR)), *range(max(n - _NEAR, 0), n)} for n in grid]
    _, first = np.unique(kind, return_index=True)
    while True:
        if math.prod(map(len, picked)) > most:
            return None
        chosen = numbers[np.ix_(*[np.array(sorted(p)) for p in picked])].reshape(-1)
        missing = np.ones(kinds, np.bool_)
        missing[kind[chosen]] = False
        if not missing.any():
            return np.sort(chosen)
        place, left = [], int(first[missing.argmax()])
        for n in reversed(grid):
            left, at = divmod(left, n)
            place.insert(0, at)
        for dim, at in enumerate(place):
            picked[dim] |= {at, min(at + 1, grid[dim] - 1)}
