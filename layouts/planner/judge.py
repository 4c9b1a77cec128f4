"""Decisions about a movement before it is planned, from its shapes and from its trace."""

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
"""Destinations of at most this many registers are not split into copies."""
FINE = 1 << 14
"""With more row segments in the trace, a plan by chunks is made first, and narrow elements are
moved as words without a search."""
MANY_SOURCES = 1024
"""Short rows in more source registers are reshaped by chunks without a search, if that is cheap."""
_VERY_LARGE, _LARGE_SLACK = 8192, 1.2
"""For destinations of more registers (first number), a plan that needs no search may cost more than
the estimate by the factor (second number)."""

_FEW_ROWS, _MANY_ROWS = 16, 64
"""A reshape with at most `_FEW_ROWS` rows is not planned by chunks; one with at most `_MANY_ROWS`
is not moved as words without a search."""


def cuts_rows_anew(move: Move, many: int = _FEW_ROWS) -> bool:
    """Whether a reshape makes more than `many` rows of another length, not all multiples of 128.

    A single row that becomes a column does not count: it is transposed.
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
    """Whether narrow elements should move unpacked, one element per word."""
    layouts = [layout for layout, _ in (*move.sources, move.destination)]
    if move.bits == 32 or not all(la.is_native for la in layouts):
        return False
    if not cuts_rows_anew(move, _MANY_ROWS) or splits_rows(move):
        return False
    return not _is_joined_again(move, costs)


def splits_rows(move: Move) -> bool:
    """Whether the move is a reshape that splits rows such that a word holds parts of one row."""
    step = move.steps[0] if len(move.steps) == 1 else None
    if not isinstance(step, Reshape) or len(step.shape) < 2 or not step.source_shape:
        return False
    packing = 32 // move.bits
    rows, part = step.shape[-2:]
    return rows % packing == 0 and step.source_shape[-1] % (packing * part) == 0


def _is_joined_again(move: Move, costs: Costs) -> bool:
    """Whether other steps of the move bring together again what its reshape separates.

    Then whole words move after all, or the transpose unit can transpose the matrix.
    """
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
    """Whether narrow elements move as words because the trace has too many segments to search."""
    return move.bits < 32 and cuts_rows_anew(move) and found.register.size > FINE


def enough(move: Move, costs: Costs) -> float:
    """The cost up to which a plan by chunks is accepted without a search for cheaper ones.

    0 where the search is worth it: it is quick for few rows, and for short rows several methods
    compete whose costs are hard to estimate.
    """
    if not cuts_rows_anew(move, _MANY_ROWS):
        return 0.0
    if move.sources[0][1][-1] <= SHORT and source_registers(move) <= MANY_SOURCES:
        return 0.0
    slack = _LARGE_SLACK if registers(move) * costs.copies > _VERY_LARGE else 1.0
    return slack * usual_cost(move, costs)


def source_registers(move: Move) -> int:
    """The number of registers of all sources together."""
    return sum(layout.register_count(shape) for layout, shape in move.sources)


def registers(move: Move) -> int:
    """The number of registers of the destination."""
    layout, shape = move.destination
    return layout.register_count(shape)
