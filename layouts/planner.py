"""`plan`: from a movement to the cheapest list of grid instructions that performs it.

Every strategy proposes a plan, the cheapest on the target wins, and no plan is accepted before it
has moved the numbers of the elements correctly (design note "Form 4", section 2).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import lru_cache

from pallasite.diagnostics import Note, Unsupported
from pallasite.layouts.move import Move
from pallasite.layouts.plan import Plan, Value
from pallasite.layouts.planner_check import performs
from pallasite.layouts.planner_costs import Costs
from pallasite.layouts.planner_program import Program, TooDear
from pallasite.layouts.planner_solve import solve
from pallasite.layouts.planner_trace import Trace, check_replication, trace
from pallasite.layouts.planner_words import whole_words
from pallasite.layouts.strategies_packed import by_shifts, by_unpacking
from pallasite.layouts.strategies_transpose import by_aligning, by_transposing

__all__ = ["Costs", "plan"]

_FEW_REGISTERS = 64
"""Destinations for which gathers are tried although transposes would do."""

Build = Callable[[Program, int], int | None]

_LOG = logging.getLogger(__name__)


@lru_cache(maxsize=4096)
def plan(move: Move, costs: Costs) -> Plan:
    """The cheapest checked plan of `move`; raises `Unsupported` if no strategy finds one."""
    check_replication(move)
    found = trace(move)
    for bounded in (True, False):
        plans = _Search(move, found, costs, bounded).run()
        for best in sorted(plans, key=lambda p: (p.cost, p.grid_instructions)):
            if performs(best, move, found):
                return best
            # A bug of a strategy, which costs instructions but no correctness: look for plans
            # that this one stopped.
            _LOG.debug("strategy '%s' planned wrongly: %s", best.how, move)
        if not plans:
            break
    raise Unsupported(
        "movement",
        f"no instruction sequence known for {move}",
        None,
        [Note("write the movement in two steps, or through a buffer in VMEM")],
    )


class _Search:
    """Asks the strategies for plans; each is stopped where it costs more than the best so far."""

    def __init__(self, move: Move, found: Trace, costs: Costs, bounded: bool) -> None:
        self._move, self._found, self._costs, self._bounded = move, found, costs, bounded
        self._plans: list[Plan] = []

    def run(self) -> list[Plan]:
        move, found, costs = self._move, self._found, self._costs
        aligned = by_aligning(move, costs, plan)
        if aligned is not None:
            return [aligned]
        packing = move.destination[0].packing
        turned = by_transposing(move, found, costs, plan)
        # What a transpose can do is seldom worth dozens of gathers: search less if there is one.
        thorough = turned is None
        if turned is not None:
            self._plans.append(turned)
            if len(found.register) > _FEW_REGISTERS:
                return self._plans
        words = whole_words(found, packing)
        if words is not None:
            self._try("words", lambda p, x: solve(p, x, words, costs, thorough))
        elif thorough or found.aligned:
            self._try("shifts", lambda p, x: by_shifts(p, x, found, costs))
            for build, name in by_unpacking(found, packing, move.bits, costs):
                self._try(name, build)
        return self._plans

    def _try(self, how: str, build: Build) -> None:
        """Runs a strategy on the registers of all sources after one another."""
        move, costs = self._move, self._costs
        limit = min((p.cost for p in self._plans), default=math.inf)
        sources = [Value(la.grid_shape(shape), la.packing) for la, shape in move.sources]
        program = Program(sources, move.bits, costs, limit if self._bounded else math.inf)
        try:
            x = program.concat([program.flat(i) for i in range(len(sources))])
            made = build(program, x)
        except TooDear:
            return
        if made is None:
            return
        layout, shape = move.destination
        result = program.reshape(program.elements(made), layout.grid_shape(shape))
        self._plans.append(program.plan(result, costs, how))
