"""Plans of a movement as a whole: not in stages, nor as copies of a smaller one.

The methods are chunks of 128 elements (`flat`), transposes, unpacking elements, planning only the
registers of one period, and the search over the strategies.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from functools import cached_property

from pallasite.diagnostics import Unsupported
from pallasite.layouts.move import Move
from pallasite.layouts.plan import Plan
from pallasite.layouts.planner.check import performs, performs_at
from pallasite.layouts.planner.composed import composed, no_plan
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.extend import extend
from pallasite.layouts.planner.judge import (
    FINE,
    MANY_SOURCES,
    SMALL,
    cuts_rows_anew,
    enough,
    is_cut_finely,
    is_widened,
    registers,
    source_registers,
    splits_rows,
)
from pallasite.layouts.planner.periods import periods
from pallasite.layouts.planner.search import HUGE, Search
from pallasite.layouts.planner.trace import TooFine, Trace, trace
from pallasite.layouts.planner.words import whole_words
from pallasite.layouts.strategies.flat import (
    by_chunks,
    comes_everywhere,
    elements_to_check,
    stays_in_sublanes,
)
from pallasite.layouts.strategies.packed import scattered
from pallasite.layouts.strategies.pairs import is_paired
from pallasite.layouts.strategies.transpose import (
    Planner,
    by_aligning,
    by_transposing,
    by_widening,
)

PER_STEP = 512
"""A search limited to n steps is not begun with more than n times this many row segments."""

_SLACK = 1.1
"""A plan of one period that is dearer by this factor may still be the cheapest for all."""
_MANY = 128
"""For destinations of more registers, only the registers of one period are planned."""

_LOG = logging.getLogger(__name__)


def as_whole(move: Move, costs: Costs, part: Planner) -> Plan:
    """The cheapest plan of `move` as a whole; raises `Unsupported` if there is none.

    If the words of narrow elements hold parts of a row that is split, the plan with unpacked
    elements is made first: it takes less time, and bounds the cost of the other. `part` plans parts
    of the movement.
    """
    whole = _Whole(move, costs, part)
    wide = None
    if move.bits < 32 and splits_rows(move) and cuts_rows_anew(move) and not whole.stays:
        wide = whole.widened()
    if wide is None:
        return whole.plan()
    try:
        made = _Whole(move, costs.below(wide.cost), part).plan()
    except Unsupported:
        return wide
    return made if made.cost < wide.cost else wide


@dataclass(frozen=True)
class _Whole:
    """A movement that is planned as a whole; `part` plans parts of it."""

    move: Move
    costs: Costs
    part: Planner

    @cached_property
    def stays(self) -> bool:
        """Whether whole words move and keep their sublane, so that chunks consist of words."""
        return stays_in_sublanes(self.move)

    def plan(self) -> Plan:
        """The cheapest plan; raises `Unsupported` if there is none."""
        move, costs = self.move, self.costs
        if is_widened(move, costs) and not self.stays:
            # Whatever else is tried costs many times as long, and finds little that is better.
            made = self.widened()
            if made is not None:
                return made
        anew = cuts_rows_anew(move) and (
            registers(move) > SMALL
            or source_registers(move) > MANY_SOURCES
            or comes_everywhere(move)
        )
        straight = by_chunks(move, costs) if anew else None
        if straight is not None and straight.cost <= enough(move, costs):
            if self._is_straight(straight):
                return straight
            straight = None
        try:
            found = trace(move, PER_STEP * costs.steps if straight is None else HUGE)
        except TooFine:
            if straight is not None and self._is_straight(straight):
                return straight
            if costs.steps < math.inf:
                raise no_plan(move) from None
            straight, found = None, trace(move)
        return self._by_trace(found, straight)

    def widened(self) -> Plan | None:
        """The plan with unpacked elements; None if there is none within the cost limit."""
        made = by_widening(self.move, self.costs, self.part)
        if made is None or made.cost > self.costs.most:
            return None
        return composed(self.move, made, self.costs)

    def _is_straight(self, plan: Plan) -> bool:
        """Whether a plan by chunks moves a few elements correctly.

        A few suffice because such plans are regular.
        """
        if performs_at(plan, self.move, elements_to_check(self.move)):
            return True
        _LOG.debug("strategy '%s' planned wrongly: %s", plan.how, self.move)
        return False

    def _by_trace(self, found: Trace, straight: Plan | None) -> Plan:
        """The plan for the trace `found`; `straight` is a plan by chunks if one is known."""
        move, costs = self.move, self.costs
        if straight is None and cuts_rows_anew(move) and found.register.size > FINE:
            straight = by_chunks(move, costs)
        # Words replicated over all lanes need not change lanes; selects suffice.
        spread = (
            all(source.column is None for source, _ in move.sources)
            and whole_words(found, move.destination[0].packing) is not None
        )
        turned = by_aligning(move, costs, self.part)
        if turned is None and not spread:
            turned = by_transposing(move, found, costs, self.part)
        made = None if turned is not None else self._by_parts(found, straight)
        if made is not None:
            return made
        made = self._searched(found, turned, straight)
        if spread:
            made = self._turned(found, made) or made
        if made is None:
            raise no_plan(move)
        return made

    def _by_parts(self, found: Trace, straight: Plan | None) -> Plan | None:
        """A plan with unpacked elements, or of one period of registers; None if neither applies or
        if `straight` is cheaper."""
        move = self.move
        many = registers(move) * self.costs.copies > _MANY
        parted = many and scattered(move, found) and not is_paired(move, found)
        if (parted or is_cut_finely(move, found)) and not self.stays:
            made = self.widened()
            if made is not None:
                return made
        made = self._by_periods(found, straight)
        if made is None or (straight is not None and made.cost > straight.cost):
            return None
        return made

    def _searched(self, found: Trace, turned: Plan | None, straight: Plan | None) -> Plan | None:
        """The cheapest correct plan of the strategies, `turned` and `straight`; None if none is."""
        move, costs = self.move, self.costs
        for slack in (1.0, math.inf):
            plans = Search(move, found, costs, slack, turned, straight).run()
            for best in sorted(plans, key=lambda p: (p.cost, p.grid_instructions)):
                if best is turned:
                    # Plans by transposes are assembled from plans that were checked.
                    if (made := composed(move, best, costs)) is not None:
                        return made
                    continue
                straightly = best is straight
                if self._is_straight(best) if straightly else performs(best, move, found.starts):
                    return best
                # A strategy has a bug, which costs instructions but no correctness. The cost of its
                # plan may have stopped other strategies, so they are tried again without limit.
                _LOG.debug("strategy '%s' planned wrongly: %s", best.how, move)
            if not plans:
                break
        return None

    def _turned(self, found: Trace, known: Plan | None) -> Plan | None:
        """The plan through transposed sources if it is cheaper than `known`, else None."""
        move, costs = self.move, self.costs
        most = math.inf if known is None else known.cost
        if most <= costs.copies * costs.transpose_block(move.destination[0].packing):
            return None
        turned = by_transposing(move, found, costs, self.part)
        return None if turned is None or turned.cost >= most else composed(move, turned, costs)

    def _by_periods(self, found: Trace, straight: Plan | None) -> Plan | None:
        """The plan of the registers of one period, extended to all.

        None if registers do not repeat, or if no such plan is correct.
        """
        move, costs = self.move, self.costs
        if len(found.register) <= _MANY:
            return None
        layout, shape = move.destination
        grid = layout.grid_shape(shape)
        few = periods(found, grid, [la.register_count(extents) for la, extents in move.sources])
        if few is None:
            return None
        times = round(len(found.register) / few.chosen.size)
        # Instructions that neighbours share are counted exactly only in the extended plan, so the
        # limit has some slack here.
        weighed = replace(costs, copies=costs.copies * times, most=_SLACK * costs.most)
        search = Search(move, few.found, weighed, _SLACK, None, straight)
        plans = [p for p in search.run() if p is not straight]
        if not plans and straight is None and costs.most < math.inf:
            # A search over all registers would take longer and not find a cheaper plan.
            raise no_plan(move)
        most = min((p.cost for p in plans), default=0.0) * _SLACK
        wide = (extend(p, few, grid, costs) for p in plans if p.cost <= most)
        made = [p for p in wide if p is not None]
        for best in sorted(made, key=lambda p: (p.cost, p.grid_instructions)):
            if performs(best, move, found.starts, few.sample()):
                return best
            _LOG.debug("strategy '%s' cannot be repeated: %s", best.how, move)
        return None
