"""What of a movement gets less with every part of it that is planned by itself."""

from __future__ import annotations

from pallasite.layouts.move import Move
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.judge import registers
from pallasite.layouts.planner.simplify import simplified
from pallasite.layouts.planner.split import by_axes, regrouped
from pallasite.layouts.planner.trace import trace
from pallasite.layouts.strategies.transpose import lies_along, turns_lanes

Measure = tuple[int, ...]


def measure(move: Move, costs: Costs) -> Measure:
    """The measure that `planner.plan_or_none` describes, most significant part first."""
    simple = simplified(move)
    layouts = [layout for layout, _ in (*simple.sources, simple.destination)]
    return (
        costs.stages,
        costs.stacks,
        costs.halves,
        simple.bits < 32,
        _is_misaligned(simple),
        turns_lanes(simple, trace(simple)),
        not all(layout.is_native for layout in layouts),
        len(by_axes(simple)),
        registers(simple),
        _times_regrouped(simple),
        simple != move,
    )


def _times_regrouped(move: Move) -> int:
    other = regrouped(move)
    return 0 if other is None else 1 + _times_regrouped(simplified(other))


def _is_misaligned(move: Move) -> bool:
    lanes = move.destination[0].lane_dim
    if len(move.sources) == 1 or move.steps or lanes is None:
        return False
    return not all(lies_along(source, lanes) for source in move.sources)
