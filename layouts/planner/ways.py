"""What ways of moving words are judged to cost, before any of them is tried.

Each estimate counts the instructions that a way is known by: rotations or gathers, and as many
selects or shuffles of two registers as it takes to put together what they make. Registers that turn
out equal, and rows that have to be shuffled besides, are left to the search.
"""

from __future__ import annotations

import math

import numpy as np

from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.lines import Array, any_along, distinct_values
from pallasite.layouts.planner.words import WordMove, rows_of, unique_rows
from pallasite.layouts.registers import LANES, SUBLANES


def of_rotating_first(move: WordMove, costs: Costs) -> float:
    """Source registers once per displacement, and what joins them in the destinations."""
    displacement = move.displacement
    turned = np.where(move.wanted, move.register * LANES + displacement, -1)
    rotated = distinct_values(turned[displacement > 0]).size
    return costs.cross_lane * rotated + _joins(turned)


def of_rotating_last(move: WordMove, costs: Costs) -> float:
    """Destination registers once per displacement, what joins them, and what joins their rows."""
    displacement = move.displacement
    turned = np.where(move.wanted, move.register * LANES + displacement, -1)
    parts = _kinds(displacement)
    rotated = int((parts - any_along(displacement == 0, 1, 2)).sum())
    return costs.cross_lane * rotated + _joins(turned)


def of_gathering_within_rows(move: WordMove, costs: Costs) -> float:
    """A gather for each source row of the row that has most of them, and what joins them."""
    return _within_rows(rows_of(move), move.displaced, move.register, costs)


def of_gathering_columns(move: WordMove, costs: Costs) -> float:
    """The same of the source's sublanes, and a gather along those."""
    n, s, segment = np.nonzero(move.wanted)
    place = n, move.sublane[n, s, segment], segment
    middle, displaced = np.full(move.register.shape, -1), np.zeros(move.register.shape, np.bool_)
    middle[place] = move.register[n, s, segment]
    displaced[place] = move.displaced[n, s, segment]
    rows = np.where(middle >= 0, middle * SUBLANES + np.arange(SUBLANES)[:, None], -1)
    turned = move.wanted & (move.sublane != np.arange(SUBLANES)[:, None])
    later = costs.gather(along_lanes=False) * int(any_along(turned, 1, 2).sum())
    return _within_rows(rows, displaced, middle, costs) + later


def of_gathering_rows_apart(move: WordMove, costs: Costs) -> float:
    """A gather for each of the different rows that change lanes, and what joins them."""
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
    """`rows` are the source rows of all words, those `displaced` change their lane."""
    gathers = _kinds(np.where(displaced, rows, -1), 2).max(1)
    return costs.cross_lane * int(gathers.sum()) + _joins(register)


def _joins(source: Array) -> int:
    """Instructions that put together registers of so many sources, -1 being none."""
    return int(np.maximum(_kinds(source) - 1, 0).sum())


def _kinds(field: Array, axis: int = 1) -> Array:
    """How many different values there are along `axis` and the axes behind it, but for -1."""
    flat = field.reshape(*field.shape[:axis], math.prod(field.shape[axis:]))
    ordered = np.sort(flat, axis=-1)
    new = (ordered[..., 1:] != ordered[..., :-1]) & (ordered[..., 1:] >= 0)
    return new.sum(-1) + (ordered[..., 0] >= 0)
