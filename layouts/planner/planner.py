"""`plan`: from a movement to the cheapest list of grid instructions that performs it.

Strategies propose plans, and the cheapest on the target is taken. Every plan is checked by moving
element numbers with it (spec/grid_form.md section 2).
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace

from pallasite.diagnostics import Unsupported
from pallasite.kept import kept
from pallasite.layouts.move import Move
from pallasite.layouts.plan import Plan
from pallasite.layouts.planner.batch import batch
from pallasite.layouts.planner.check import corners, performs
from pallasite.layouts.planner.composed import NO_PLAN, composed, moves_corners, no_plan
from pallasite.layouts.planner.copies import plan_of_copies
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.judge import SMALL, registers, source_registers
from pallasite.layouts.planner.search import LARGE
from pallasite.layouts.planner.simplify import simplified
from pallasite.layouts.planner.split import regrouped
from pallasite.layouts.planner.trace import TooFine, check_replication, trace
from pallasite.layouts.planner.whole import PER_STEP, as_whole
from pallasite.layouts.strategies.apart import as_other, in_turn
from pallasite.layouts.strategies.change_rows import by_changing_rows
from pallasite.layouts.strategies.flat import stays_in_sublanes
from pallasite.layouts.strategies.small_blocks import Stacking, is_stacked_alike
from pallasite.layouts.strategies.stages import AT_ONCE, SOON, STEPS, Stages

__all__ = ["Costs", "plan", "plan_or_none"]

_PIECES = 64
"""If a plan in stages costs more than this per register, a search for another takes too long."""
_CUTS = 40
"""With more lane segments than this, a plan in stages is never dearer than one without."""

_LOG = logging.getLogger(__name__)


def plan(move: Move, costs: Costs) -> Plan:
    """The cheapest checked plan of `move`; raises `Unsupported` if no strategy finds one."""
    made = _part(move, costs)
    if made.checked or is_right(move, costs):
        return made
    # A strategy has a bug. The result stays correct, only planning takes longer: with `wary` costs
    # every part and every assembled plan is checked by itself, and wrong ones are replaced.
    return _part(move, replace(costs, wary=True))


@kept
def is_right(move: Move, costs: Costs) -> bool:
    """Whether the plan of `move`, assembled from checked plans, moves a few elements correctly."""
    made = plan_or_none(move, costs)
    return made is not None and moves_corners(move, made)


def _part(move: Move, costs: Costs) -> Plan:
    """Like `plan`, for a part of a movement: a plan assembled from checked ones is not checked.

    The plan that contains it is checked as a whole.
    """
    check_replication(move)
    made = plan_or_none(move, costs)
    if made is None:
        raise no_plan(move)
    return made


@kept
def plan_or_none(move: Move, costs: Costs) -> Plan | None:
    """The cheapest plan of `move`; None if no strategy finds one. Both results are cached.

    Recursive through the parts of the movement; `planner/__init__.py` explains why it terminates.
    """
    simple = simplified(move)
    if simple != move:
        return plan_or_none(simple, costs)
    try:
        made = _in_parts(move, costs) or _as_one(move, costs)
    except Unsupported as error:
        if error.code != NO_PLAN:
            raise
        made = composed(move, Stages.placed(move).best(_part, costs), costs)
    return None if made is None or made.cost > costs.most else made


def _in_parts(move: Move, costs: Costs) -> Plan | None:
    """A plan that moves copies of a smaller movement; None if `move` cannot be split into any."""
    other = regrouped(move)
    if other is not None and registers(other) > SMALL:
        return composed(move, as_other(move, other, costs, _part), costs)
    made = _by_copies(move, costs) or _by_axes(move, costs)
    return None if made is None else _better_together(move, costs, made)


def _better_together(move: Move, costs: Costs, made: Plan) -> Plan:
    """`made`, a plan by copies, or a cheaper one by stacking small matrices or in stages."""
    stacking = Stacking.of(move, costs)
    if stacking is not None and not is_stacked_alike(move, costs, made):
        made = composed(move, stacking.better(_part, made), costs) or made
    stages = Stages.of(move)
    found = batch(move) if registers(move) > SMALL else None
    if found is not None and stages.repeat(Stages.of(found.core)):
        return made  # So were those of one copy, if that was worth the trouble.
    return composed(move, stages.better(_part, costs, made), costs) or made


def _as_one(move: Move, costs: Costs) -> Plan:
    """The plan of a movement that is not split into copies.

    If the result is replicated, a plan that first moves everything to one place is tried, too.
    """
    stages, named = Stages.named(move), None
    if stages is not None:
        named = composed(move, stages.best(_part, replace(costs, stages=True)), costs)
    if named is None:
        return _in_stages(move, costs)
    try:
        made = _in_stages(move, replace(costs.below(named.cost), steps=min(costs.steps, STEPS)))
    except Unsupported:
        return named
    return made if made.cost < named.cost else named


def _in_stages(move: Move, costs: Costs) -> Plan:
    """The cheaper of a plan in stages and one of the whole movement.

    Stages come first where a search seldom finds a plan within its steps, otherwise they are tried
    after it. Several index steps on few registers may together be a simple movement that a search
    finds quickly (split and transposed heads, for example): in native tiles the search comes first,
    in others, where it takes longer, it comes last.
    """
    stages = Stages.of(move)
    if not stages.several or not costs.stages or stays_in_sublanes(move):
        return _at_once(move, costs)
    simple = stages.steps > 1 and registers(move) <= SMALL
    ends = (*move.sources, move.destination)
    native = all(la.is_native and not (la.row or la.column) for la, _ in ends)
    only = stages.are_all(costs)
    first = only or (stages.come_first and not (simple and native))
    if first:
        staged = composed(move, stages.best(_part, costs), costs)
        if staged is not None:
            only = only or (stages.steps > 1 and not simple)
            return staged if only else _better_at_once(move, costs, staged)
    try:
        made = _at_once(move, replace(costs, steps=AT_ONCE, stages=False))
    except Unsupported:
        made = None if first else composed(move, stages.best(_part, costs), costs)
        if made is None and costs.most < math.inf:
            raise  # More steps seldom find a plan that is better than the one that is known.
        return _at_once(move, costs) if made is None else made
    return composed(move, stages.better(_part, costs, made), costs) or made


def _better_at_once(move: Move, costs: Costs, staged: Plan) -> Plan:
    """`staged`, or a cheaper plan of the whole movement if a short search finds one."""
    most = max(registers(move), source_registers(move))
    if staged.cost > _PIECES * costs.copies * most:
        return staged
    try:
        if trace(move, PER_STEP * SOON).starts.size > _CUTS:
            return staged
        made = _at_once(move, replace(costs.below(staged.cost), steps=SOON, stages=False))
    except (Unsupported, TooFine):
        return staged
    return made if made.cost < staged.cost else staged


def _at_once(move: Move, costs: Costs) -> Plan:
    """The plan of a movement without stages; raises `Unsupported` if there is none."""
    stacking, stacked = Stacking.of(move, costs), None
    if stacking is not None and stacking.is_promising():
        stacked = composed(move, stacking.best(_part, costs.most), costs)
        if stacked is not None and stacking.is_surely_better(stacked):
            return stacked
    try:
        rest = costs
        if stacking is not None and stacked is not None:
            rest = costs.below(stacking.worth(stacked.cost))
        made = as_whole(move, rest, _part)
        made = composed(move, by_changing_rows(move, rest, _part, made.cost), costs) or made
    except Unsupported:
        if stacked is None:
            raise
        return stacked
    if stacking is None:
        return made
    if stacked is not None:
        return stacked if stacking.is_better(stacked, made) else made
    return composed(move, stacking.better(_part, made), costs) or made


def _by_copies(move: Move, costs: Costs) -> Plan | None:
    """The plan of one copy, extended to all; None if there is only one copy, or no plan for it."""
    found = batch(move) if registers(move) > SMALL else None
    if found is None:
        return None
    try:
        one = _part(found.core, replace(costs, copies=costs.copies * found.copies))
    except Unsupported:
        bounded = costs.most < math.inf or costs.steps < math.inf
        if bounded and not costs.stages and Stacking.of(move, costs) is None:
            raise  # To look for plans of all of them would take longer, and find what is dearer.
        return None
    wide = composed(move, plan_of_copies(found, one, costs), costs)
    if wide is None:
        _LOG.debug("no plan of %s copies: %s", found.copies, move)
    return wide


def _by_axes(move: Move, costs: Costs) -> Plan | None:
    """A checked plan that moves along the rows and along the lanes in turn.

    None if the block is small, or if only one of the two moves.
    """
    best = in_turn(move, costs, _part) if registers(move) > LARGE else None
    target, shape = move.destination
    if best is None or not performs(best[0], move, best[1], corners(target.grid_shape(shape))):
        return None
    return best[0]
