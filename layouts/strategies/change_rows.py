"""Reshapes that cut rows anew and put others on the sublanes: two movements, one for each.

    %b = reshape %a : 20x200x20 to 20x4000              rows are dimension 1, then dimension 0
becomes
    %r = relayout %a : 20x200x20, rows along dimension 0    packed together, shuffled, selected
    %b = reshape %r                                         whole rows, rotated along the lanes

or the same the other way about, the rows last: elements that part with their neighbours in a word
do so once, and what is cut anew keeps its sublane.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pallasite.diagnostics import Unsupported
from pallasite.layouts.move import Laid, Move, Reshape
from pallasite.layouts.plan import Plan, Value
from pallasite.layouts.planner.batch import kept_dims
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.program import Program
from pallasite.layouts.registers import LANES
from pallasite.layouts.strategies.transpose import Planner, append
from pallasite.layouts.vector_layout import VectorLayout

_EXCHANGE = 1.5
"""Least cost, per register, of each halving of the rows that are exchanged."""


def by_changing_rows(move: Move, costs: Costs, plan: Planner, most: float) -> Plan | None:
    """The cheapest plan in two movements if it costs less than `most`, else None."""
    best: Plan | None = None
    if not costs.halves:
        return None
    for halves in _halves(move):
        limit = most if best is None else best.cost
        if _judged(halves, costs) >= limit:
            continue
        made = _in_turn(move, halves, costs, plan, limit)
        if made is not None and made.cost < limit:
            best = made
    return best


def _halves(move: Move) -> list[tuple[Move, Move]]:
    """The pairs of movements that change the rows first, or last, where that is possible."""
    (layout, shape), (target, result) = move.sources[0], move.destination
    dims = (layout.sublane_dim, layout.lane_dim, target.sublane_dim, target.lane_dim)
    rows, lanes, new_rows, new_lanes = dims
    if len(move.sources) > 1 or not _cuts_rows(move) or None in dims:
        return []
    kept = {d: (d, 0) for d in range(len(result))}
    for step in reversed(move.steps):
        kept = kept_dims(step, kept)
    halves: list[tuple[Move, Move]] = []
    size = layout.native_rows
    for dim, (source, offset) in kept.items():
        if dim == new_rows and source not in (rows, lanes) and target.row is not None:
            row = (target.row - offset) % size
            between = VectorLayout(layout.bits, source, lanes, row, layout.column), shape
            first = Move.relayout(layout, shape, between[0])
            halves.append((first, Move((between,), move.destination, move.steps)))
        if source == rows and dim not in (new_rows, new_lanes) and layout.row is not None:
            row = (layout.row + offset) % size
            between = VectorLayout(layout.bits, dim, new_lanes, row, target.column), result
            last = Move.relayout(between[0], result, target)
            halves.append((Move(move.sources, between, move.steps), last))
    return halves


def _cuts_rows(move: Move) -> bool:
    """Whether native tiles are reshaped so that rows have another length, which must be rotated."""
    layouts = [layout for layout, _ in (*move.sources, move.destination)]
    reshapes = [step for step in move.steps if isinstance(step, Reshape)]
    lengths = [(step.source_shape[-1:], step.shape[-1:]) for step in reshapes]
    return all(la.is_native for la in layouts) and any(
        old != new and any(n % LANES for n in (*old, *new)) for old, new in lengths
    )


def _judged(halves: tuple[Move, Move], costs: Costs) -> float:
    """An estimate of the least cost of both movements."""
    total = 0.0
    for half in halves:
        (layout, shape), (target, result) = half.sources[0], half.destination
        taken, made = layout.register_count(shape), target.register_count(result)
        if half.steps:
            # One side has rows of the old length, the other of the new one.
            total += costs.cross_lane * max(taken, made)
        else:
            total += rows_exchanged(half.sources[0], half.destination)
    return costs.copies * total


def rows_exchanged(source: Laid, result: Laid) -> float:
    """An estimate of the least cost of bringing another dimension onto the sublanes."""
    count = sum(layout.register_count(shape) for layout, shape in (source, result)) / 2
    rows = min(layout.extents(shape)[0] for layout, shape in (source, result))
    rows = min(rows, source[0].native_rows)
    return _EXCHANGE * math.log2(max(rows, 2)) * count


def _in_turn(
    move: Move, halves: tuple[Move, Move], costs: Costs, plan: Planner, most: float
) -> Plan | None:
    layout, shape = move.sources[0]
    program = Program([Value(layout.grid_shape(shape), layout.packing)], move.bits, costs)
    value, hows, spent = 0, list[str](), 0.0
    apart = replace(costs, halves=False)
    for half in halves:
        try:
            made = plan(half, apart.below(most - spent))
        except Unsupported:
            return None
        spent += made.cost
        if spent >= most:
            return None
        value = append(program, made, [value])
        hows.append(made.how)
    return program.plan(value, f"rows apart, {', '.join(hows)}")
