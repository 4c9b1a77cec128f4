"""Chooses among the strategies for moves of whole 32-bit words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from pallasite.layouts.planner.budget import TooDear
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.lines import distinct_values
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.ways import (
    of_gathering_columns,
    of_gathering_rows_apart,
    of_gathering_within_rows,
    of_rotating_first,
    of_rotating_last,
)
from pallasite.layouts.planner.words import WordMove
from pallasite.layouts.strategies.exchange import exchange
from pallasite.layouts.strategies.lanes import (
    gather_columns,
    gather_rows_apart,
    gather_within_rows,
    rotate_first,
    rotate_last,
)
from pallasite.layouts.strategies.rows import copies, move_rows

Way = Callable[[Program], int | None]
"""Returns the number of the value that it made, or None if it does not apply."""

_FEW_SEGMENTS = 3
_MOST_ROTATIONS = 32
_FEW_REGISTERS, _MANY_REGISTERS = 64, 2048
"""Largest destinations for strategies that treat single rows, and single words."""
_STEPS = 100
"""Steps that a strategy may take where another one has found a plan."""
_MANY_WORDS = 1 << 14
"""With more word segments, gathering each row in a register of its own is the last resort."""
_FEW_ROWS, _MANY_ROWS = 5, 128
"""Largest number of source rows per destination row for gathers along lanes: at first, and as the
last resort."""


def solve(
    program: Program, x: int, move: WordMove, costs: Costs, thorough: bool = True
) -> int | None:
    """The cheapest value of flat registers that `move` fills from the flat value `x`, or None.

    Without `thorough`, gives up where only many gathers would do.
    """
    live = np.nonzero(move.wanted.any((1, 2)))[0]
    position = np.full(len(move.register), -1)
    if not live.size:
        return program.take(x, position)
    distinct, position[live] = move.only(live).distinct()
    made = _solve(program, x, distinct.merged(), costs, thorough)
    return None if made is None else program.take(made, position)


def _solve(program: Program, x: int, move: WordMove, costs: Costs, thorough: bool) -> int | None:
    def aligned(program: Program, x: int, move: WordMove) -> int | None:
        return solve_aligned(program, x, move, costs)

    amounts = (
        distinct_values(move.displacement[move.wanted]) if move.slope == 1 else np.array([-1, -1])
    )
    if amounts.tolist() == [0] and move.starts.size <= _FEW_SEGMENTS:
        return aligned(program, x, move)
    ways: list[tuple[float, Way]] = []
    last: list[Way] = []
    if amounts.tolist() == [0]:
        # Lanes that stay in place but pick different sublanes: replicated columns to rows.
        ways.append((0.0, lambda p: aligned(p, x, move)))
    elif move.slope == 1 and amounts.size <= _MOST_ROTATIONS:
        first, after = of_rotating_first(move, costs), of_rotating_last(move, costs)
        ways.append((first, lambda p: rotate_first(p, x, move, aligned)))
        ways.append((after, lambda p: rotate_last(p, x, move, aligned)))
    if move.slope != 1 or amounts.size > 1 or move.starts.size > _FEW_SEGMENTS:
        within = of_gathering_within_rows(move, costs)
        ways.append((within, lambda p: gather_within_rows(p, x, move, costs, _FEW_ROWS)))
        if len(move.register) <= _MANY_REGISTERS:
            columns = of_gathering_columns(move, costs)
            ways.append((columns, lambda p: gather_columns(p, x, move, costs)))
        if len(move.register) <= _FEW_REGISTERS:
            apart = of_gathering_rows_apart(move, costs)
            if move.register.size <= _MANY_WORDS:
                ways.append((apart, lambda p: gather_rows_apart(p, x, move, costs)))
            else:
                last.append(lambda p: gather_rows_apart(p, x, move, costs))
    # The cheapest by estimate goes first, so that its cost stops most others early.
    ways.sort(key=lambda way: way[0])
    made = cheapest(program, [way for _, way in ways], _STEPS)
    if made is None and program.limit < math.inf:
        return None
    # What takes long to plan is tried only where nothing else works.
    if made is None:
        made = cheapest(program, last)
    if made is None and thorough and costs.steps == math.inf:
        made = gather_within_rows(program, x, move, costs, _MANY_ROWS)
    return made


def solve_aligned(program: Program, x: int, move: WordMove, costs: Costs) -> int | None:
    """Like `solve`, for words that keep their lanes."""
    copied = copies(move.register, move.sublane)
    if (copied >= 0).all():
        return program.take(x, copied)
    return cheapest(
        program,
        [
            lambda p: exchange(p, x, move, costs),
            lambda p: move_rows(p, x, move.register, move.sublane, move.starts, costs),
        ],
    )


def cheapest(
    program: Program,
    attempts: Sequence[Way],
    most: float = math.inf,
) -> int | None:
    """Makes every attempt on a fork of `program`, and adopts the cheapest.

    Returns the value that it made, or None if all attempts decline. An attempt is stopped as soon
    as it costs more than the best one before it or, if there is one, after `most` steps. Raises
    `TooDear` if some were stopped and none succeeded.
    """
    best: tuple[float, Program, int] | None = None
    limit, stopped = program.limit, False
    for attempt in attempts:
        copy = program.fork()
        copy.limit = limit
        try:
            with program.hurry(math.inf if best is None else most):
                value = attempt(copy)
        except TooDear:
            stopped = True
            continue
        if value is None:
            continue
        # Values that other parts of the movement have made already cost nothing.
        cost = copy.cost(value, len(program.values))
        if best is None or cost < best[0]:
            best = (cost, copy, value)
            limit = min(limit, copy.spent)
    if best is None:
        if stopped:
            raise TooDear
        return None
    program.adopt(best[1])
    return best[2]
