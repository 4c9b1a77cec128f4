"""`plan`: from a movement to the cheapest list of grid instructions that performs it.

Every strategy proposes a plan, the cheapest on the target wins, and no plan is accepted before it
has moved the numbers of the elements correctly (spec/grid_form.md section 2).
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace

from pallasite.diagnostics import Note, Unsupported
from pallasite.kept import kept
from pallasite.layouts.move import Move
from pallasite.layouts.plan import Plan
from pallasite.layouts.planner.batch import batch
from pallasite.layouts.planner.check import corner_elements, corners, performs, performs_at
from pallasite.layouts.planner.copies import plan_of_copies
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
from pallasite.layouts.planner.search import HUGE, LARGE, Search
from pallasite.layouts.planner.simplify import simplified
from pallasite.layouts.planner.split import regrouped
from pallasite.layouts.planner.trace import TooFine, Trace, check_replication, trace
from pallasite.layouts.planner.words import whole_words
from pallasite.layouts.strategies.apart import as_other, in_turn
from pallasite.layouts.strategies.change_rows import by_changing_rows
from pallasite.layouts.strategies.flat import by_chunks, elements_to_check
from pallasite.layouts.strategies.packed import scattered
from pallasite.layouts.strategies.pairs import is_paired
from pallasite.layouts.strategies.small_blocks import Stacking, is_stacked_alike
from pallasite.layouts.strategies.stages import AT_ONCE, SOON, Stages
from pallasite.layouts.strategies.transpose import by_aligning, by_transposing, by_widening

__all__ = ["Costs", "plan", "plan_or_none"]

_SLACK = 1.1
"""A plan of some registers that is dearer by this factor may still be the cheapest one for all."""
_MANY = 128
"""Of larger destinations, in registers, only those are planned that the others repeat."""
_PER_STEP = 512
"""Where a search ends after so many steps, it is not begun with more stretches of rows for each."""
_PIECES = 64
"""Registers that cost so much each, in stages, are of more pieces than a search finds soon."""
_CUTS = 40
"""Where registers are cut in more stretches of lanes, no plan at once costs less than stages."""
_NO_PLAN = "movement"

_LOG = logging.getLogger(__name__)


def plan(move: Move, costs: Costs) -> Plan:
    """The cheapest checked plan of `move`; raises `Unsupported` if no strategy finds one."""
    made = _part(move, costs)
    if made.checked or is_right(move, costs):
        return made
    # A bug of a strategy, which costs time but no correctness: of parts and what is put together
    # of them, each is checked by itself then, so that another one is taken for what is wrong.
    return _part(move, replace(costs, wary=True))


@kept
def is_right(move: Move, costs: Costs) -> bool:
    """Whether the plan of `move`, which is put together of checked ones, moves a few elements as it
    should."""
    made = plan_or_none(move, costs)
    return made is not None and _moves_corners(move, made)


def _moves_corners(move: Move, made: Plan) -> bool:
    if performs_at(made, move, corner_elements(move)):
        return True
    _LOG.debug("strategy '%s' planned wrongly: %s", made.how, move)
    return False


def _part(move: Move, costs: Costs) -> Plan:
    """The same, not checked if it is put together of plans that were: who uses it for a part checks
    all that is put together of it, once."""
    check_replication(move)
    made = plan_or_none(move, costs)
    if made is None:
        raise _no_plan(move)
    return made


@kept
def plan_or_none(move: Move, costs: Costs) -> Plan | None:
    """The cheapest plan of `move`, None if no strategy finds one: that is kept, too.

    Parts are planned by the same function; why that ends, `planner/__init__.py` says.
    """
    simple = simplified(move)
    if simple != move:
        return plan_or_none(simple, costs)
    try:
        made = _in_parts(move, costs) or _as_one(move, costs)
    except Unsupported as error:
        if error.code != _NO_PLAN:
            raise
        made = _composed(move, Stages.placed(move).best(_part, costs), costs)
    return None if made is None or made.cost > costs.most else made


def _in_parts(move: Move, costs: Costs) -> Plan | None:
    """The plan of a movement that is put together of copies, of itself or written otherwise."""
    other = regrouped(move)
    if other is not None and registers(other) > SMALL:
        return _composed(move, as_other(move, other, costs, _part), costs)
    made = _by_copies(move, costs) or _by_axes(move, costs)
    return None if made is None else _better_together(move, costs, made)


def _better_together(move: Move, costs: Costs, made: Plan) -> Plan:
    """A plan that costs less than one that was put together of copies, if there is one."""
    stacking = Stacking.of(move, costs)
    if stacking is not None and not is_stacked_alike(move, costs, made):
        made = _composed(move, stacking.better(_part, made), costs) or made
    stages = Stages.of(move)
    found = batch(move) if registers(move) > SMALL else None
    if found is not None and stages.repeat(Stages.of(found.core)):
        return made  # So were those of one copy, if that was worth the trouble.
    return _composed(move, stages.better(_part, costs, made), costs) or made


def _as_one(move: Move, costs: Costs) -> Plan:
    """The plan of a movement that is not put together of copies.

    What searches seldom find within so many steps is made in stages first, what they do not find
    is afterwards. Several steps of few registers may be one simple movement together (heads that
    are split and transposed are), which a search finds soon: it begins with that in native tiles,
    and ends with it in others, where a search takes longer.
    """
    stages = Stages.of(move)
    if not stages.several or not costs.stages:
        return _at_once(move, costs)
    simple = stages.steps > 1 and registers(move) <= SMALL
    ends = (*move.sources, move.destination)
    native = all(la.is_native and not (la.row or la.column) for la, _ in ends)
    only = stages.are_all(costs)
    first = only or (stages.come_first and not (simple and native))
    if first:
        staged = _composed(move, stages.best(_part, costs), costs)
        if staged is not None:
            only = only or (stages.steps > 1 and not simple)
            return staged if only else _better_at_once(move, costs, staged)
    try:
        made = _at_once(move, replace(costs, steps=AT_ONCE, stages=False))
    except Unsupported:
        made = None if first else _composed(move, stages.best(_part, costs), costs)
        if made is None and costs.most < math.inf:
            raise  # More steps seldom find a plan that is better than the one that is known.
        return _at_once(move, costs) if made is None else made
    return _composed(move, stages.better(_part, costs, made), costs) or made


def _better_at_once(move: Move, costs: Costs, staged: Plan) -> Plan:
    """A plan that is not made in stages, if it is found soon and costs less than one that is."""
    most = max(registers(move), source_registers(move))
    if staged.cost > _PIECES * costs.copies * most:
        return staged
    try:
        if trace(move, _PER_STEP * SOON).starts.size > _CUTS:
            return staged
        made = _at_once(move, replace(costs.below(staged.cost), steps=SOON, stages=False))
    except (Unsupported, TooFine):
        return staged
    return made if made.cost < staged.cost else staged


def _at_once(move: Move, costs: Costs) -> Plan:
    """The plan of a movement that is not made in stages."""
    stacking, stacked = Stacking.of(move, costs), None
    if stacking is not None and stacking.is_promising():
        stacked = _composed(move, stacking.best(_part, costs.most), costs)
        if stacked is not None and stacking.is_surely_better(stacked):
            return stacked
    try:
        rest = costs
        if stacking is not None and stacked is not None:
            rest = costs.below(stacking.worth(stacked.cost))
        made = _as_words_or(move, rest)
        made = _composed(move, by_changing_rows(move, rest, _part, made.cost), costs) or made
    except Unsupported:
        if stacked is None:
            raise
        return stacked
    if stacking is None:
        return made
    if stacked is not None:
        return stacked if stacking.is_better(stacked, made) else made
    return _composed(move, stacking.better(_part, made), costs) or made


def _as_words_or(move: Move, costs: Costs) -> Plan:
    """The plan of `move` as a whole, or as words if these hold parts of rows that are cut anew.

    The latter takes less time, and says what the other may cost.
    """
    wide = None
    if move.bits < 32 and splits_rows(move) and cuts_rows_anew(move):
        wide = _widened(move, costs)
    if wide is None:
        return _plan(move, costs)
    try:
        made = _plan(move, costs.below(wide.cost))
    except Unsupported:
        return wide
    return made if made.cost < wide.cost else wide


def _widened(move: Move, costs: Costs) -> Plan | None:
    """The plan by unpacked elements."""
    made = by_widening(move, costs, _part)
    return None if made is None or made.cost > costs.most else _composed(move, made, costs)


def _no_plan(move: Move) -> Unsupported:
    hint = Note("write the movement in two steps, or through a buffer in VMEM")
    return Unsupported(_NO_PLAN, f"no instruction sequence known for {move}", None, [hint])


def _composed(move: Move, made: Plan | None, costs: Costs) -> Plan | None:
    """A plan that is put together of checked ones, and is checked later; if `costs` are wary, at
    once, and None if it is wrong."""
    if made is None or (costs.wary and not _moves_corners(move, made)):
        return None
    return replace(made, checked=costs.wary)


def _plan(move: Move, costs: Costs) -> Plan:
    """The plan of `move` as a whole."""
    if is_widened(move, costs):
        # Whatever else is tried costs many times as long, and finds little that is better.
        made = _widened(move, costs)
        if made is not None:
            return made
    anew = cuts_rows_anew(move) and (
        registers(move) > SMALL or source_registers(move) > MANY_SOURCES
    )
    straight = by_chunks(move, costs) if anew else None
    if straight is not None and straight.cost <= enough(move, costs):
        if _is_straight(straight, move):
            return straight
        straight = None
    try:
        found = trace(move, _PER_STEP * costs.steps if straight is None else HUGE)
    except TooFine:
        if straight is not None and _is_straight(straight, move):
            return straight
        if costs.steps < math.inf:
            raise _no_plan(move) from None
        straight, found = None, trace(move)
    return _by_trace(move, found, costs, straight)


def _is_straight(plan: Plan, move: Move) -> bool:
    """Whether a plan by chunks, made in a regular way, moves a few elements as it should."""
    if performs_at(plan, move, elements_to_check(move)):
        return True
    _LOG.debug("strategy '%s' planned wrongly: %s", plan.how, move)
    return False


def _by_trace(move: Move, found: Trace, costs: Costs, straight: Plan | None) -> Plan:
    """The plan of what was `found`; one `straight` through it may be known."""
    if straight is None and cuts_rows_anew(move) and found.register.size > FINE:
        straight = by_chunks(move, costs)
    # Words that are the same in all lanes are in the right one anyway, and can be selected.
    spread = (
        all(source.column is None for source, _ in move.sources)
        and whole_words(found, move.destination[0].packing) is not None
    )
    turned = by_aligning(move, costs, _part)
    if turned is None and not spread:
        turned = by_transposing(move, found, costs, _part)
    made = None if turned is not None else _by_parts(move, found, costs, straight)
    if made is not None:
        return made
    made = _searched(move, found, costs, turned, straight)
    if spread:
        made = _turned(move, found, costs, made) or made
    if made is None:
        raise _no_plan(move)
    return made


def _by_parts(move: Move, found: Trace, costs: Costs, straight: Plan | None) -> Plan | None:
    """The plan of elements as words, or of registers that others repeat, if one is to be made."""
    many = registers(move) * costs.copies > _MANY
    parted = many and scattered(move, found) and not is_paired(move, found)
    if parted or is_cut_finely(move, found):
        made = _widened(move, costs)
        if made is not None:
            return made
    made = _by_periods(move, found, costs, straight)
    if made is None or (straight is not None and made.cost > straight.cost):
        return None
    return made


def _searched(
    move: Move, found: Trace, costs: Costs, turned: Plan | None, straight: Plan | None
) -> Plan | None:
    """The cheapest plan that any strategy makes, or one of the two that are known."""
    for slack in (1.0, math.inf):
        plans = Search(move, found, costs, slack, turned, straight).run()
        for best in sorted(plans, key=lambda p: (p.cost, p.grid_instructions)):
            if best is turned:
                # Transposes are put together of plans that were checked.
                if (made := _composed(move, best, costs)) is not None:
                    return made
                continue
            straightly = best is straight
            if _is_straight(best, move) if straightly else performs(best, move, found.starts):
                return best
            # A bug of a strategy, which costs instructions but no correctness: look for plans
            # that this one stopped.
            _LOG.debug("strategy '%s' planned wrongly: %s", best.how, move)
        if not plans:
            break
    return None


def _turned(move: Move, found: Trace, costs: Costs, known: Plan | None = None) -> Plan | None:
    """The plan through transposed sources, if it is cheaper than one that is known."""
    most = math.inf if known is None else known.cost
    if most <= costs.copies * costs.transpose_block(move.destination[0].packing):
        return None
    turned = by_transposing(move, found, costs, _part)
    return None if turned is None or turned.cost >= most else _composed(move, turned, costs)


def _by_copies(move: Move, costs: Costs) -> Plan | None:
    """The plan of one of many copies, for all of them."""
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
    wide = _composed(move, plan_of_copies(found, one, costs), costs)
    if wide is None:
        _LOG.debug("no plan of %s copies: %s", found.copies, move)
    return wide


def _by_periods(move: Move, found: Trace, costs: Costs, straight: Plan | None) -> Plan | None:
    """The plan of few registers, for all that repeat them; one that is as cheap as `straight`."""
    if len(found.register) <= _MANY:
        return None
    layout, shape = move.destination
    grid = layout.grid_shape(shape)
    few = periods(found, grid, [la.register_count(extents) for la, extents in move.sources])
    if few is None:
        return None
    times = round(len(found.register) / few.chosen.size)
    # How much neighbours share is seen only where all of them are there.
    weighed = replace(costs, copies=costs.copies * times, most=_SLACK * costs.most)
    search = Search(move, few.found, weighed, _SLACK, None, straight)
    plans = [p for p in search.run() if p is not straight]
    if not plans and straight is None and costs.most < math.inf:
        # To look for plans of all of them would take longer, and find what is dearer.
        raise _no_plan(move)
    most = min((p.cost for p in plans), default=0.0) * _SLACK
    wide = (extend(p, few, grid, costs) for p in plans if p.cost <= most)
    made = [p for p in wide if p is not None]
    for best in sorted(made, key=lambda p: (p.cost, p.grid_instructions)):
        if performs(best, move, found.starts, few.sample()):
            return best
        _LOG.debug("strategy '%s' cannot be repeated: %s", best.how, move)
    return None


def _by_axes(move: Move, costs: Costs) -> Plan | None:
    """Along the rows and along the lanes one after the other, if the block is large."""
    best = in_turn(move, costs, _part) if registers(move) > LARGE else None
    target, shape = move.destination
    if best is None or not performs(best[0], move, best[1], corners(target.grid_shape(shape))):
        return None
    return best[0]
