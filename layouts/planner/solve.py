"""Chooses among the strategies for moves of whole 32-bit words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pallasite.layouts.planner.budget import TooDear
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.ways import (
    ALIGNED,
    COLUMNS,
    ROTATING_FIRST,
    ROTATING_LAST,
    ROWS_APART,
    WITHIN_ROWS,
    estimates,
    least_likely,
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

_STEPS = 100
"""Steps that a strategy may take where another one has found a plan."""
_MANY_WORDS = 1 << 14
"""With more word segments, gathering each row in a register of its own is the last resort."""
_FEW_ROWS, _MANY_ROWS = 5, 128
"""Largest number of source rows per destination row for gathers along lanes: at first, and as the
last resort."""


def solve(
    program: Program,
    x: int,
    move: WordMove,
    costs: Costs,
    thorough: bool = True,
    first: bool = True,
) -> int | None:
    """The cheapest value of flat registers that `move` fills from the flat value `x`, or None.

    Without `thorough`, gives up where only many gathers would do. Unless it is the `first` one,
    words may be moved already.
    """
    distinct, position = move.needed
    if not len(distinct.register):
        return program.take(x, position)
    made = _solve(program, x, distinct, costs, thorough, first)
    return None if made is None else program.take(made, position)


def _solve(
    program: Program, x: int, move: WordMove, costs: Costs, thorough: bool, first: bool
) -> int | None:
    def aligned(program: Program, x: int, move: WordMove) -> int | None:
        return solve_aligned(program, x, move, costs)

    making: dict[str, Way] = {
        ALIGNED: lambda p: aligned(p, x, move),
        ROTATING_FIRST: lambda p: rotate_first(p, x, move, aligned),
        ROTATING_LAST: lambda p: rotate_last(p, x, move, aligned),
        WITHIN_ROWS: lambda p: gather_within_rows(p, x, move, costs, _FEW_ROWS),
        COLUMNS: lambda p: gather_columns(p, x, move, costs),
        ROWS_APART: lambda p: gather_rows_apart(p, x, move, costs),
    }
    found = estimates(move, costs)
    if [*found] == [ALIGNED]:
        return aligned(program, x, move)
    last = {ROWS_APART} if move.register.size > _MANY_WORDS else set[str]()
    # The cheapest by estimate goes first, so that its cost stops most others early.
    ways = sorted((way for way in found if way not in last), key=lambda way: found[way])
    least = least_likely(move, costs) if first else dict.fromkeys(ways, 0.0)
    made = cheapest(program, [making[w] for w in ways], _STEPS, [least[w] for w in ways])
    if made is None and program.limit < math.inf:
        return None
    # What takes long to plan is tried only where nothing else works.
    if made is None:
        made = cheapest(program, [making[way] for way in found if way in last])
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
    likely: Sequence[float] = (),
) -> int | None:
    """Makes every attempt on a fork of `program`, and adopts the cheapest.

    Returns the value that it made, or None if all attempts decline. An attempt is stopped as soon
    as it costs more than the best one before it or, if there is one, after `most` steps; it is not
    begun if what it is `likely` to cost at least is more. Raises `TooDear` if some were stopped and
    none succeeded.
    """
    best: tuple[float, Program, int] | None = None
    limit, stopped = program.limit, False
    for number, attempt in enumerate(attempts):
        if likely and program.spent + likely[number] > limit:
            stopped = True
            continue
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
