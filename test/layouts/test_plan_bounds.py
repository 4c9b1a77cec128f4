"""What plans of any movements may cost, and how long they may be looked for, without a clock."""

from __future__ import annotations

import pytest

from pallasite.layouts.plan import Step
from pallasite.layouts.planner.budget import Budget
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.planner import plan, plan_or_none
from pallasite.targets import get_target

from .drawn_moves import FAMILIES, drawn, words

_TARGETS = ("v4", "v5e", "v5p", "v6e", "v7x")
_NUMBERS = (8, 12, 20)
_COST, _STEPS = 10, 12_000
"""Of a thousand draws the worst plan costs 8.1 for each word that stages read and write, and the
longest search takes 9,900 steps. Without stages these are 39 and 69,000."""


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How many steps each search takes, those of what is given up included."""
    steps: list[float] = []
    pay, work = Budget.pay, Budget.work

    def paid(self: Budget, price: float, step: Step) -> None:
        before = self.left
        pay(self, price, step)
        steps.append(1.0 if before == self.left else before - self.left)

    def worked(self: Budget, more: float) -> None:
        steps.append(more)
        work(self, more)

    monkeypatch.setattr(Budget, "pay", paid)
    monkeypatch.setattr(Budget, "work", worked)
    return steps


@pytest.mark.parametrize("bits", [32, 16, 8, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_plans_and_their_search_are_bounded(family: str, bits: int, taken: list[float]):
    for number in _NUMBERS:
        move = drawn(family, bits, number)
        plan_or_none.cache_clear()
        taken.clear()
        made = plan(move, Costs.of(get_target(_TARGETS[number % len(_TARGETS)])))
        assert made.cost <= _COST * words(move), move
        assert sum(taken) <= _STEPS, move
