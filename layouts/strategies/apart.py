"""Plans a movement as one that consists of more copies (`planner/split.py`)."""

from __future__ import annotations

import numpy as np

from pallasite.diagnostics import Unsupported
from pallasite.layouts.move import Move
from pallasite.layouts.plan import Plan, Value
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.lines import Array, distinct_values
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.split import by_axes
from pallasite.layouts.planner.trace import trace
from pallasite.layouts.strategies.transpose import Planner, append


def as_other(move: Move, other: Move, costs: Costs, plan: Planner) -> Plan | None:
    """The plan of `other`, whose registers are those of `move` in grids of other shapes, for
    `move`."""
    try:
        made = plan(other, costs)
    except Unsupported:
        return None
    layout, shape = move.sources[0]
    program = Program([Value(layout.grid_shape(shape), layout.packing)], move.bits, costs)
    value = append(program, made, [program.reshape(0, made.values[0].grid)])
    target, shape = move.destination
    return program.plan(program.reshape(value, target.grid_shape(shape)), made.how)


def in_turn(move: Move, costs: Costs, plan: Planner) -> tuple[Plan, Array] | None:
    """The cheaper plan that moves along the rows and along the lanes in turn, and the lanes to
    check.

    None if only one of the two moves, or if all such plans cost too much.
    """
    plans: list[tuple[Plan, Array]] = []
    layout, shape = move.sources[0]
    for pair in by_axes(move):
        program = Program([Value(layout.grid_shape(shape), layout.packing)], move.bits, costs)
        value, hows, starts = 0, list[str](), np.zeros(1, np.int64)
        try:
            for half, found in pair:
                made = plan(half, costs)
                value = append(program, made, [value])
                hows.append(made.how)
                starts = distinct_values([starts, trace(found.core).starts])
        except Unsupported:
            continue
        plans.append((program.plan(value, ", ".join(hows)), starts))
    return min(plans, key=lambda p: p[0].cost, default=None)
