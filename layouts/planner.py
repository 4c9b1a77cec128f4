"""`plan`: from a movement to the cheapest list of grid instructions that performs it.

Every strategy proposes a plan, the cheapest on the target wins, and no plan is accepted before it
has moved the numbers of the elements correctly (design note "Form 4", section 2).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache

from pallasite.diagnostics import Note, Unsupported
from pallasite.layouts.move import Move
from pallasite.layouts.plan import Plan, Value
from pallasite.layouts.planner_check import performs
from pallasite.layouts.planner_costs import Costs
from pallasite.layouts.planner_program import Program
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
    plans = [p for p in _candidates(move, found, costs) if p is not None]
    for best in sorted(plans, key=lambda p: (p.cost, p.grid_instructions)):
        if performs(best, move, found):
            return best
        # A bug of a strategy, which costs instructions but no correctness.
        _LOG.debug("strategy '%s' planned wrongly: %s", best.how, move)
    raise Unsupported(
        "movement",
        f"no instruction sequence known for {move}",
        None,
        [Note("write the movement in two steps, or through a buffer in VMEM")],
    )


def _candidates(move: Move, found: Trace, costs: Costs) -> list[Plan | None]:
    aligned = by_aligning(move, costs, plan)
    if aligned is not None:
        return [aligned]
    packing = move.destination[0].packing
    turned = by_transposing(move, found, costs, plan)
    # What a transpose can do is seldom worth dozens of gathers: search less if there is one.
    thorough = turned is None
    if turned is not None and len(found.register) > _FEW_REGISTERS:
        return [turned]
    words = whole_words(found, packing)
    if words is not None:
        return [
            turned,
            _build(move, costs, "words", lambda p, x: solve(p, x, words, costs, thorough)),
        ]
    result = [turned]
    if thorough or found.aligned:
        result.append(_build(move, costs, "shifts", lambda p, x: by_shifts(p, x, found, costs)))
        for build, name in by_unpacking(found, packing, move.bits, costs):
            result.append(_build(move, costs, name, build))
    return result


def _build(move: Move, costs: Costs, how: str, build: Build) -> Plan | None:
    """Runs a strategy on the registers of all sources after one another."""
    sources = [Value(layout.grid_shape(shape), layout.packing) for layout, shape in move.sources]
    program = Program(sources, move.bits)
    x = program.concat([program.flat(i) for i in range(len(sources))])
    made = build(program, x)
    if made is None:
        return None
    layout, shape = move.destination
    result = program.reshape(program.elements(made), layout.grid_shape(shape))
    return program.plan(result, costs, how)
