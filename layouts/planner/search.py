"""Tries the strategies on one movement in turn, each limited by the cost of the best plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np

from pallasite.layouts.move import Move
from pallasite.layouts.plan import Plan, Value
from pallasite.layouts.planner.budget import TooDear
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.least import afford
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.solve import solve
from pallasite.layouts.planner.trace import Trace
from pallasite.layouts.planner.words import WordMove, whole_words
from pallasite.layouts.strategies.flat import usual_cost
from pallasite.layouts.strategies.packed import (
    by_shifts,
    by_unpacking,
    floors,
    formats_of,
    scattered,
)
from pallasite.layouts.strategies.pairs import by_packing, by_pairing, pairs_of, parts_of
from pallasite.layouts.strategies.transpose import turns_lanes

FEW_REGISTERS = 64
"""If a transpose does the move, gathers are tried, too, for at most this many registers."""

_DEAR = 6
"""For larger destinations, gathers are tried if the transpose costs more than this per register."""

_FINE = 1 << 14
"""Even then, they are not tried with more row segments, or more elements in these, than this."""
_SHARED = 1.5
"""Nor if one step for each source register of each destination register already costs more than
this factor times the transpose."""

LARGE = 512
"""Destinations of more registers are moved along the rows and along the lanes separately."""

_STEPS, _MORE_STEPS = 250, 600
"""Where a plan is known, the search for a cheaper one ends after `_STEPS` steps, or `_MORE_STEPS`
if the known plan is dear. Large destinations, whose steps take longer, get fewer."""
_MUCH = 1.5
"""A known plan is dear if it costs more than this factor times the usual cost."""
_LOOKED = 1 << 11
"""Examining this many row segments takes as long as making one step."""
HUGE, _HUGE_CUT, _CUT = 1 << 18, 1 << 16, 8
"""No cheaper plan is searched for with more than `HUGE` row segments, or more than `_HUGE_CUT` if
registers are cut into more than `_CUT` lane segments, because registers then seldom repeat."""

SHORT = 16
"""Rows of at most this many elements are short: a register holds at most 128 elements of them."""

Build = Callable[[Program, int], int | None]


class Search:
    """Collects plans from the strategies; none may cost more than `slack` times the best before it.

    `turned` is a known plan by transposes, `straight` one by chunks.
    """

    def __init__(
        self,
        move: Move,
        found: Trace,
        costs: Costs,
        slack: float,
        turned: Plan | None,
        straight: Plan | None = None,
    ) -> None:
        self._move, self._found, self._costs, self._slack = move, found, costs, slack
        self._turned = turned
        self._plans = [p for p in (turned, straight) if p is not None]
        share = min(1.0, 2 * LARGE / len(found.register))
        most = _STEPS
        if straight is not None and move.sources[0][1][-1] > SHORT:
            most = _MORE_STEPS if straight.cost > _MUCH * usual_cost(move, costs) else _STEPS
        self._first = costs.steps
        """Steps left, over all strategies, while no plan is known."""
        self._more = most * share
        """Steps left, over all strategies, to find a cheaper plan than one that is known."""

    def run(self) -> list[Plan]:
        """The plans that were known before, followed by those found now."""
        found, costs = self._found, self._costs
        packing = self._move.destination[0].packing
        # Dozens of gathers are seldom cheaper than a transpose: search less if there is a plan with
        # one, or if there would be but for the cost limit.
        least = math.inf if self._turned is None else self._turned.cost
        if self._turned is None and turns_lanes(self._move, found):
            least = costs.most
        thorough = least == math.inf
        if not thorough and not self._may_gather(least):
            return self._plans
        huge = HUGE if found.starts.size <= _CUT else _HUGE_CUT
        if self._plans and found.register.size > huge:
            return self._plans
        words = whole_words(found, packing)
        if words is not None:
            self._try("words", lambda p, x: self._words(p, x, words, thorough))
        elif thorough or found.aligned:
            self._packed(packing)
        return self._plans

    def _words(self, program: Program, x: int, words: WordMove, thorough: bool) -> int | None:
        """Moves whole words, if that can be cheaper than the best plan so far."""
        afford(program, [words], self._costs)
        return solve(program, x, words, self._costs, thorough)

    def _may_gather(self, cost: float) -> bool:
        """Whether gathers may be cheaper than a transpose of cost `cost`, and are worth trying."""
        found, copies = self._found, self._costs.copies
        if len(found.register) <= FEW_REGISTERS:
            return True
        if cost <= _DEAR * copies * len(found.register):
            return False
        # Stretches that advance through rows or registers are looked at lane by lane.
        wanted = found.register >= 0
        lanes = np.where(wanted, found.lengths, 0).sum(2)
        if (lanes.sum() if any(found.slopes[:2]) else wanted.size) > _FINE:
            return False
        if found.slopes[0]:
            needed = lanes.max(1).sum()
        else:
            rows = np.sort(found.register.reshape(len(wanted), -1), axis=1)
            needed = np.count_nonzero(rows[:, 0] >= 0)
            needed += np.count_nonzero((rows[:, 1:] != rows[:, :-1]) & (rows[:, 1:] >= 0))
        return bool(copies * needed <= _SHARED * cost)

    def _packed(self, packing: int) -> None:
        """Tries the strategies for elements that change their place within words, cheapest
        first."""
        found, costs = self._found, self._costs
        if not self._plans:
            # The lower bounds below examine the whole trace once more.
            self._first -= found.register.size / _LOOKED
            if self._first < 0:
                return
        formats = formats_of(self._move.bits, costs)
        shifts, amounts, unpacking = floors(found, packing, formats)
        ways: list[tuple[int, str, Build]] = []
        for unpack, pack in product(formats, formats):
            build = by_unpacking(found, packing, costs, unpack, pack)
            ways.append((unpacking[unpack], f"unpack {unpack}, pack {pack}", build))
        # For every shift amount words are moved once, which costs more than the shifts themselves.
        likely = {how: floor for floor, how, _ in ways} | {"shifts": shifts * max(amounts // 2, 1)}
        ways.append((shifts, "shifts", lambda p, x: by_shifts(p, x, found, costs)))
        # Elements of a word are packed together before or after they move.
        pairs = pairs_of(found, packing)
        if pairs is not None:
            floor = costs.copies * len(pairs.registers)
            self._try("pairs", lambda p, x: by_pairing(p, x, pairs, costs), floor)
        if parts_of(found, packing) is not None:
            self._try("pack", lambda p, x: by_packing(p, x, found, packing, costs))
        unshifted = pairs is not None and not pairs.shifted
        if unshifted and self._plans and scattered(self._move, found):
            # Whatever else there is moves elements one by one.
            return
        for floor, how, build in sorted(ways, key=lambda way: likely[way[1]]):
            self._try(how, build, floor * costs.copies)

    def _try(self, how: str, build: Build, floor: float = 0.0) -> None:
        """Runs the strategy `build`, whose plans cost at least `floor`, and keeps its plan."""
        move, costs = self._move, self._costs
        limit = min(min((p.cost for p in self._plans), default=math.inf) * self._slack, costs.most)
        if not self._plans:
            # Every strategy examines the whole trace.
            self._first -= self._found.register.size / _LOOKED
        most = self._more if self._plans else self._first
        if floor > limit or most < 0:
            return
        sources = [Value(la.grid_shape(shape), la.packing) for la, shape in move.sources]
        program = Program(sources, move.bits, costs, limit, most)
        layout, shape = move.destination
        try:
            x = program.concat([program.flat(i) for i in range(len(sources))])
            made = build(program, x)
            if made is None:
                return
            result = program.elements(made)
            if program.size(result) == layout.register_count(shape):
                result = program.reshape(result, layout.grid_shape(shape))
        except TooDear:
            return
        finally:
            if self._plans:
                self._more = program.left
            else:
                self._first = program.left
        self._plans.append(program.plan(result, how))
