"""What is not looked for because it cannot win, and what is looked at as a whole nevertheless."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pallasite.layouts.move import Move, Reshape
from pallasite.layouts.plan import Plan
from pallasite.layouts.planner import check
from pallasite.layouts.planner.check import performs
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.lines import Array
from pallasite.layouts.planner.planner import plan, plan_or_none
from pallasite.layouts.planner.search import Search
from pallasite.layouts.planner.trace import trace
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.targets import get_target

V5E = Costs.of(get_target("v5e"))
N2, N3 = VectorLayout.native(2, 32), VectorLayout.native(3, 32)
BF3 = VectorLayout.native(3, 16)


def tries(move: Move, monkeypatch: pytest.MonkeyPatch) -> tuple[Plan, int]:
    """The plan of `move`, and how many searches it takes, nothing being known."""
    searched: list[Search] = []
    run = Search.run

    def counted(self: Search) -> list[Plan]:
        searched.append(self)
        return run(self)

    monkeypatch.setattr(Search, "run", counted)
    plan_or_none.cache_clear()
    return plan(move, V5E), len(searched)


def test_rows_that_become_columns_are_not_transposed(monkeypatch: pytest.MonkeyPatch):
    """Each lane of a row goes to another register, and the rows keep to the sublanes."""
    shape = (1, 970, 63)
    move = Move.transpose(
        (VectorLayout(16, 1, 2, 0, 0, 4), shape), BF3.with_offsets(7, 0), (2, 1, 0)
    )
    made, searches = tries(move, monkeypatch)
    assert "TransposeBlocks" not in made.count()
    assert made.instructions < 12_500
    assert searches <= 8


def test_rows_that_are_replicated_are_cut_in_one_place(monkeypatch: pytest.MonkeyPatch):
    """Not looked for in every sublane: that took 4,000 steps, of which 1,590 were the plan."""
    narrow = VectorLayout.native(3, 8), (125, 9, 9)
    first = Move.transpose(narrow, narrow[0], (0, 2, 1))
    steps = (*first.steps, Reshape((125, 9, 9), (10125,)))
    move = Move(first.sources, (VectorLayout(8, None, 0, None, 0), (10125,)), steps)
    plan_or_none.cache_clear()
    made = plan(move, Costs.of(get_target("v4")))
    assert made.grid_instructions < 150
    assert made.cost < 7_000
    # What is cut at once, without a detour, is not dearer.
    square = Move.reshape((N2, (64, 136)), VectorLayout(32, None, 0, None, 0), (64 * 136,))
    assert plan(square, V5E).cost <= plan(square, replace(V5E, stages=False)).cost


def test_rows_of_other_registers_become_columns_by_transposes():
    """There, what is turned first is put together once for all of them."""
    source = VectorLayout(32, 1, 2, 3, 0), (124, 1, 183)
    made = plan(Move.transpose(source, VectorLayout(32, 1, 2, 1, 42), (2, 0, 1)), V5E)
    assert made.cost < 12_000


def test_what_is_stacked_is_not_stacked_anew_for_few_blocks(monkeypatch: pytest.MonkeyPatch):
    move = Move.transpose((BF3, (5, 1300, 114)), BF3, (2, 1, 0))
    made, searches = tries(move, monkeypatch)
    assert made.how.startswith("stack, transpose")
    assert made.instructions < 29_000
    assert searches <= 16


def test_a_register_that_is_paired_with_itself_costs_nothing_more():
    """Of registers filled alike one needs a row of two others, and one of them only."""
    narrow = VectorLayout.native(3, 4), (1375, 8, 4)
    move = Move.relayout(narrow[0], narrow[1], narrow[0].with_offsets(25, 0))
    best = plan(move, V5E).cost
    assert plan(move, V5E.below(1.1 * best)).cost == best


@pytest.mark.parametrize("at", [0, 700, 1147])
def test_a_wrong_register_of_many_that_are_read_is_seen(at: int, monkeypatch: pytest.MonkeyPatch):
    """Few elements of many registers are followed back, each of them."""
    source = VectorLayout(4, 0, 1, 5, 875, 8), (1148, 1)
    move = Move.relayout(*source, VectorLayout.native(2, 4))
    made = plan(move, V5E)
    starts = trace(move).starts
    asked: list[Array] = []
    at_elements = check.performs_at

    def followed(made: Plan, move: Move, elements: Array) -> bool:
        asked.append(elements)
        return at_elements(made, move, elements)

    def one(made: Plan, move: Move, _: Array) -> bool:
        return at_elements(made, move, np.array([at]))

    monkeypatch.setattr(check, "performs_at", followed)
    assert performs(made, move, starts)
    assert [elements.size for elements in asked] == [1148]
    # The same plan moves one element less of a source that begins a row later.
    moved = replace(move, sources=((source[0].with_offsets(4, 875), source[1]),))
    assert not performs(made, moved, starts)
    monkeypatch.setattr(check, "performs_at", one)
    assert not performs(made, moved, starts)
