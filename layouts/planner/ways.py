"""Estimates of what each method of moving words costs, to decide which one is tried first.

Each estimate counts the instructions that dominate a method: rotations or gathers, and the selects
or two-register shuffles that combine their results. It ignores registers that turn out to be equal
and additional shuffles of rows; the search accounts for those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from pallasite.layouts.planner.budget import Budget
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.lines import Array, any_along, distinct_values
from pallasite.layouts.planner.words import WordMove, rows_of, unique_rows
from pallasite.layouts.registers import LANES, SUBLANES

ALIGNED, ROTATING_FIRST, ROTATING_LAST = "aligned", "rotating first", "rotating last"
WITHIN_ROWS, COLUMNS, ROWS_APART = "within rows", "columns", "rows apart"

_FEW_SEGMENTS = 3
_MOST_ROTATIONS = 32
_FEW_REGISTERS, _MANY_REGISTERS = 64, 2048
"""Largest destinations for strategies that treat single rows, and single words."""
_SURE = {ROTATING_FIRST: 1.25, ROTATING_LAST: 1.25, ALIGNED: 1.25, ROWS_APART: 1.25}
_UNSURE = 2.5
"""No plan was found to cost less than the estimate of its method, divided by this. Repeated
registers may share gathers, which is not seen before these are planned."""


@lru_cache(maxsize=8)
def estimates(move: WordMove, costs: Costs) -> dict[str, float]:
    """The methods that may do a move of distinct registers, and what they are estimated to cost.

    0 for rows that keep their lanes, unless nothing else is tried.
    """
    amounts, few = move.amounts, move.starts.size <= _FEW_SEGMENTS
    if amounts == [0] and few:
        return {ALIGNED: of_rotating_first(move, costs)}
    found: dict[str, float] = {}
    if amounts == [0]:
        # Lanes that stay in place but pick different sublanes: replicated columns to rows.
        found[ALIGNED] = 0.0
    elif amounts is not None and len(amounts) <= _MOST_ROTATIONS:
        found[ROTATING_FIRST] = of_rotating_first(move, costs)
        found[ROTATING_LAST] = of_rotating_last(move, costs)
    if amounts is None or len(amounts) > 1 or not few:
        found[WITHIN_ROWS] = of_gathering_within_rows(move, costs)
        if len(move.register) <= _MANY_REGISTERS:
            found[COLUMNS] = of_gathering_columns(move, costs)
        if len(move.register) <= _FEW_REGISTERS:
            found[ROWS_APART] = of_gathering_rows_apart(move, costs)
    return found


def least_likely(move: WordMove, costs: Costs) -> dict[str, float]:
    """What each method that may do the move hardly costs less than, for all copies."""
    found = estimates(move, costs)
    return {way: costs.copies * cost / _SURE.get(way, _UNSURE) for way, cost in found.items()}


def is_too_dear(program: Budget, moves: Sequence[WordMove], costs: Costs) -> bool:
    """Whether `moves` are estimated to cost much more than the budget of `program`."""
    if program.limit == math.inf:
        return False
    some = [move.needed[0] for move in moves]
    each = [min(least_likely(move, costs).values()) for move in some if len(move.register)]
    # Other moves may find some of their words moved for the first.
    likely = (max(each, default=0.0) + sum(each)) / 2
    return program.spent + likely > program.limit


def of_rotating_first(move: WordMove, costs: Costs) -> float:
    """Cost of rotating every source register once per lane displacement, then combining."""
    displacement = move.displacement
    turned = np.where(move.wanted, move.register * LANES + displacement, -1)
    rotated = distinct_values(turned[displacement > 0]).size
    return costs.cross_lane * rotated + _joins(turned)


def of_rotating_last(move: WordMove, costs: Costs) -> float:
    """Cost of combining source rows per destination register and displacement, then rotating."""
    displacement = move.displacement
    turned = np.where(move.wanted, move.register * LANES + displacement, -1)
    parts = _kinds(displacement)
    rotated = int((parts - any_along(displacement == 0, 1, 2)).sum())
    return costs.cross_lane * rotated + _joins(turned)


def of_gathering_within_rows(move: WordMove, costs: Costs) -> float:
    """Cost of lane gathers: per destination register, as many as the most sources of a row."""
    return _within_rows(rows_of(move), move.displaced, move.register, costs)


def of_gathering_columns(move: WordMove, costs: Costs) -> float:
    """Cost of lane gathers that leave words in the source's sublane, then sublane gathers."""
    n, s, segment = np.nonzero(move.wanted)
    place = n, move.sublane[n, s, segment], segment
    middle, lane = np.full(move.register.shape, -1), np.full(move.register.shape, -1)
    displaced = np.zeros(move.register.shape, np.bool_)
    middle[place] = move.register[n, s, segment]
    lane[place] = move.lane[n, s, segment]
    displaced[place] = move.displaced[n, s, segment]
    # Registers that only pick other sublanes are gathered once.
    some = len(middle)
    _, first, _ = unique_rows(np.concatenate([f.reshape(some, -1) for f in (middle, lane)], 1))
    middle, displaced = middle[first], displaced[first]
    rows = np.where(middle >= 0, middle * SUBLANES + np.arange(SUBLANES)[:, None], -1)
    turned = move.wanted & (move.sublane != np.arange(SUBLANES)[:, None])
    later = costs.gather(along_lanes=False) * int(any_along(turned, 1, 2).sum())
    return _within_rows(rows, displaced, middle, costs) + later


def of_gathering_rows_apart(move: WordMove, costs: Costs) -> float:
    """Cost of one lane gather per distinct row whose lanes change, then combining the rows."""
    n = len(move.register)
    fields = (move.register, move.sublane, move.lane)
    flat = np.concatenate([f.reshape(n * SUBLANES, -1) for f in fields], 1)
    turned = any_along(move.displaced.reshape(n * SUBLANES, -1), 1)
    # Every row that changes lanes is gathered once, and then put to the others of its register.
    gathers = len(unique_rows(flat[turned])[1])
    joins = int(np.maximum(any_along(move.wanted, 2).sum(1) - 1, 0).sum())
    picked = move.wanted & (move.sublane != np.arange(SUBLANES)[:, None])
    later = costs.gather(along_lanes=False) * int(any_along(picked, 2).sum())
    return costs.cross_lane * gathers + joins + later


def _within_rows(rows: Array, displaced: Array, register: Array, costs: Costs) -> float:
    """Cost of lane gathers within rows, for the source row of every word in `rows`.

    `displaced` marks words whose lane changes, `register` is the source register of every word.
    """
    gathers = _kinds(np.where(displaced, rows, -1), 2).max(1)
    # Rows are put together once for all registers that gather other lanes of them.
    _, first, _ = unique_rows(rows.reshape(len(rows), -1))
    return costs.cross_lane * int(gathers.sum()) + _joins(register[first])


def _joins(source: Array) -> int:
    """Instructions that combine several sources into one register; -1 in `source` means none."""
    return int(np.maximum(_kinds(source) - 1, 0).sum())


def _kinds(field: Array, axis: int = 1) -> Array:
    """The number of distinct values, except -1, over `axis` and all axes after it."""
    flat = field.reshape(*field.shape[:axis], math.prod(field.shape[axis:]))
    ordered = np.sort(flat, axis=-1)
    new = (ordered[..., 1:] != ordered[..., :-1]) & (ordered[..., 1:] >= 0)
    return new.sum(-1) + (ordered[..., 0] >= 0)
