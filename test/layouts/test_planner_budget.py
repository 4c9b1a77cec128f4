"""What a search may cost: stopped before anything is made that cannot win."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pallasite.diagnostics import Unsupported
from pallasite.layouts.move import Move
from pallasite.layouts.plan import Select, SublaneShuffle, Value
from pallasite.layouts.planner import planner, whole
from pallasite.layouts.planner.budget import Budget, TooDear
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.fields import Mask
from pallasite.layouts.planner.lines import progressions
from pallasite.layouts.planner.planner import plan
from pallasite.layouts.planner.program import Program
from pallasite.layouts.strategies import apart, transpose
from pallasite.layouts.strategies.rows import move_rows
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.targets import get_target

V5E = Costs.of(get_target("v5e"))

STARTS = np.zeros(1, np.int64)


def moved_down(count: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` registers of rows three further down: each takes rows of two neighbours."""
    row = np.arange(count * 8).reshape(count, 8, 1) + 3
    return row // 8, row % 8


def spend(limit: float) -> Program:
    """Plans rows of four registers moved down, within `limit`."""
    program = Program([Value((5,), 1)], 32, Costs(), limit)
    move_rows(program, 0, *moved_down(4), STARTS, Costs())
    return program


def test_rows_that_cannot_win_are_not_planned():
    cost = spend(np.inf).spent
    # Five rotated registers and four selects.
    assert 9 <= cost < 12
    assert spend(cost).spent == cost
    program = Program([Value((5,), 1)], 32, Costs(), 8)
    with pytest.raises(TooDear):
        move_rows(program, 0, *moved_down(4), STARTS, Costs())
    assert not program.steps


@pytest.mark.parametrize("shape", [(25, 8, 9), (30, 8, 96), (4, 16, 138)], ids=str)
def test_plans_within_a_limit(shape: tuple[int, int, int]):
    native = VectorLayout.native(3, 32)
    move = Move.transpose((native, shape), native, (2, 1, 0))
    best = plan(move, Costs())
    assert plan(move, Costs().below(1.1 * best.cost)) == best
    for most in (best.cost, best.cost - 1, best.cost / 2):
        try:
            assert plan(move, Costs().below(most)).cost <= most
        except Unsupported:
            pass
    with pytest.raises(Unsupported):
        plan(move, Costs().below(best.cost / 4))


NATIVE = VectorLayout.native(2, 32)
COMPOSED = {
    "rows and lanes in turn": (
        Move.slice((NATIVE, (1100, 1400)), NATIVE, (3, 5), (1000, 1200)), apart.by_axes),
    "sources turned": (
        Move.concat([(NATIVE, (40, 100)), (VectorLayout(32, 1, 0), (40, 60))], NATIVE, 1),
        transpose.by_aligning),
    "joined and turned": (
        Move.concat([(VectorLayout(32, 1, 0), (40, 60)), (VectorLayout(32, 1, 0), (40, 20))],
                    NATIVE, 1),
        transpose.by_aligning),
    "counted in other groups": (
        Move.reshape((VectorLayout.native(3, 32), (64, 5, 16)), VectorLayout.native(3, 32),
                     (64, 4, 20)),
        apart.as_other),
}  # fmt: skip


@pytest.mark.parametrize("case", COMPOSED)
def test_what_is_put_together_of_plans_ends_where_one_costs_too_much(
    case: str, monkeypatch: pytest.MonkeyPatch
):
    move, way = COMPOSED[case]
    best = plan(move, V5E).cost
    asked: list[Any] = []

    def made(*args: Any) -> Any:
        asked.append(way(*args))
        return asked[-1]

    for module in (apart, planner, whole):
        if hasattr(module, way.__name__):
            monkeypatch.setattr(module, way.__name__, made)
    for most in (0.1, best / 9, best / 2):
        planner.plan_or_none.cache_clear()
        with pytest.raises(Unsupported, match="no instruction sequence known"):
            plan(move, V5E.below(most))
    assert asked


def test_work_without_steps_counts():
    budget = Budget(most=3)
    budget.work(3)
    with pytest.raises(TooDear):
        budget.work(1)


@pytest.mark.parametrize(
    ("table", "nest"),
    [
        ([4], []),
        ([2, 3, 4], [(3, 1)]),
        ([5, 5, 5], [(3, 0)]),
        ([0, 4, 1, 5], [(2, 1), (2, 4)]),
        ([0, 1, 8, 9, 0, 1, 8, 9], [(2, 0), (2, 8), (2, 1)]),
        ([0, 1, 8, 10], None),
        ([0, 1, 2, 7], None),
        ([3, 2, 1], None),
        ([0, -1], None),
    ],
)
def test_progressions(table: list[int], nest: list[tuple[int, int]] | None):
    assert progressions(np.array(table)) == nest


def test_steps_on_other_values():
    mask = Mask(((0, 8, 0, 5),))
    assert Select((0, 1), mask).on((2, 3)) == Select((2, 3), mask)
    shuffle = SublaneShuffle((0,), tuple(range(8)))
    assert shuffle.on((0,)) is shuffle
    assert hash(shuffle.on((1,))) == hash(SublaneShuffle((1,), tuple(range(8))))


def test_a_limit_holds_within_none():
    """Also after something without a limit: so are ways tried of which none is known."""
    budget = Budget()
    with budget.hurry(np.inf):
        budget.work(7)
    with budget.hurry(3), pytest.raises(TooDear):
        budget.work(4)
    budget.work(100)
    assert budget.left == np.inf
