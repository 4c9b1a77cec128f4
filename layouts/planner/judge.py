"""What is judged of a movement before it is planned: by its shapes, and by what was traced."""

from __future__ import annotations

import math

from pallasite.layouts.move import Move, Reshape
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.search import SHORT
from pallasite.layouts.planner.trace import TooFine, Trace, trace
from pallasite.layouts.planner.words import whole_words
from pallasite.layouts.registers import LANES
from pallasite.layouts.strategies.flat import usual_cost
from pallasite.layouts.strategies.transpose import turns_lanes
from pallasite.layouts.vector_layout import VectorLayout

SMALL = 32
"""Destinations of at most this many registers are not taken apart into copies."""
FINE = 1 << 14
"""With more stretches of rows, plans are looked for only where one is known already, and only one
plan of narrow elements."""
MANY_SOURCES = 1024
"""Short rows in more source registers are cut anew at once, if that is judged to be cheap."""
_VERY_LARGE, _LARGE_SLACK = 8192, 1.2
"""For destinations of more registers, a plan that is found at once may be dearer by this factor."""

_FEW_ROWS, _MANY_ROWS = 16, 64
"""Rows of so few are not cut anew through chunks; through words of their own, if that is best."""


def cuts_rows_anew(move: Move, many: int = _FEW_ROWS) -> bool:
    """Whether a reshape makes many rows of others, whose lengths do not fill registers.

    One row that becomes a column is transposed.
    """
    for step in move.steps:
        if isinstance(step, Reshape) and step.shape and step.source_shape:
            lengths = step.source_shape[-1], step.shape[-1]
            whole = not any(length % LANES for length in lengths)
            rows = [math.prod(shape[:-1]) for shape in (step.source_shape, step.shape)]
            turned = rows[0] == lengths[1] == 1
            if lengths[0] != lengths[1] and not whole and max(rows) > many and not turned:
                return True
    return False


def is_widened(move: Move, costs: Costs) -> bool:
    """Whether narrow elements move as words, one by one."""
    layouts = [layout for layout, _ in (*move.sources, move.destination)]
    if move.bits == 32 or not all(la.is_native for la in layouts):
        return False
    if not cuts_rows_anew(move, _MANY_ROWS) or splits_rows(move):
        return False
    return not _is_joined_again(move, costs)


def splits_rows(move: Move) -> bool:
    """Whether a reshape makes several rows of each, such that words hold parts of one row."""
    step = move.steps[0] if len(move.steps) == 1 else None
    if not isinstance(step, Reshape) or len(step.shape) < 2 or not step.source_shape:
        return False
    packing = 32 // move.bits
    rows, part = step.shape[-2:]
    return rows % packing == 0 and step.source_shape[-1] % (packing * part) == 0


def _is_joined_again(move: Move, costs: Costs) -> bool:
    """Whether a transpose joins what a reshape parts: neighbours in a word, or a whole matrix."""
    ends = (*move.sources, move.destination)
    native = all(la == VectorLayout.native(len(shape), la.bits) for la, shape in ends)
    if native and len(move.steps) == 1:
        return False
    try:
        found = trace(move, FINE)
    except TooFine:
        return False
    if move.bits in costs.transpose_bits and turns_lanes(move, found):
        return True
    return whole_words(found, move.destination[0].packing) is not None


def is_cut_finely(move: Move, found: Trace) -> bool:
    """Whether narrow elements move as words because there is too much to look at otherwise."""
    return move.bits < 32 and cuts_rows_anew(move) and found.register.size > FINE


def enough(move: Move, costs: Costs) -> float:
    """What a plan of rows cut anew may cost that is found at once, not to search for others.

    Rows that are short are put together in several ways, of which the best are hard to judge; and
    where there are few, the search takes no time.
    """
    if not cuts_rows_anew(move, _MANY_ROWS):
        return 0.0
    if move.sources[0][1][-1] <= SHORT and source_registers(move) <= MANY_SOURCES:
        return 0.0
    slack = _LARGE_SLACK if registers(move) * costs.copies > _VERY_LARGE else 1.0
    return slack * usual_cost(move, costs)


def source_registers(move: Move) -> int:
    """Registers of all sources together."""
    return sum(layout.register_count(shape) for layout, shape in move.sources)


def registers(move: Move) -> int:
    """Registers of the destination."""
    layout, shape = move.destination
    return layout.register_count(shape)
