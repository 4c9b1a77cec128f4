"""Plans that move something wrongly are not taken, whichever way made them; another one is."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pallasite.diagnostics import Unsupported
from pallasite.layouts.move import Move
from pallasite.layouts.plan import GridTake, Plan
from pallasite.layouts.planner import check, composed, planner, whole
from pallasite.layouts.planner.batch import Batch
from pallasite.layouts.planner.check import performs
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.lines import Array
from pallasite.layouts.planner.trace import trace
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.targets import get_target

V5E = Costs.of(get_target("v5e"))
N2, N3 = VectorLayout.native(2, 32), VectorLayout.native(3, 32)
CASES = {
    "searched": (Move.relayout(N2, (11, 200), VectorLayout.native(2, 32, 3, 5)), "planned wrongly"),
    "copies": (Move.transpose((N3, (64, 4, 200)), N3, (0, 2, 1)), "no plan of"),
    "periods": (
        Move.relayout(N2, (256, 1024), VectorLayout.native(2, 32, 3, 5)), "cannot be repeated"),
    "stacked": (Move.transpose((N3, (24, 8, 8)), N3, (0, 2, 1)), "planned wrongly"),
    "chunks": (Move.reshape((N2, (1009, 251)), N2, (251, 1009)), "planned wrongly"),
    "chunks, not searched": (Move.reshape((N2, (190, 162)), N2, (171, 180)), "planned wrongly"),
    "stages": (
        Move.reshape((N3, (4, 207, 11)), VectorLayout(32, 1, 0), (66, 138)), "planned wrongly"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_another_plan_is_taken(
    case: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    move, message = CASES[case]
    if case == "chunks, not searched":
        monkeypatch.setattr(whole, "HUGE", 1)
    refused: list[Any] = []

    def but_one(check: Callable[..., bool]) -> Callable[..., bool]:
        def checked(plan: Any, asked: Move, *others: Any) -> bool:
            # What is put together of plans is looked at again, to find what of it is wrong.
            again = refused and not refused[0].checked and plan.steps == refused[0].steps
            if asked == move and (again or not refused):
                refused.append(plan)
                return False
            return check(plan, asked, *others)

        return checked

    for name in ("performs", "performs_at"):
        checked = but_one(getattr(check, name))
        for module in (composed, planner, whole):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, checked)
    made = planned_anew(move, caplog)
    assert refused and message in caplog.text
    assert performs(made, move, trace(move).starts)


def planned_anew(move: Move, caplog: pytest.LogCaptureFixture) -> Plan:
    """The plan of `move` by the functions as they are now, and nothing is kept of it."""
    for kept in (planner.plan_or_none, planner.is_right):
        kept.cache_clear()
    try:
        with caplog.at_level(logging.DEBUG, planner.__package__):
            return planner.plan(move, V5E)
    finally:
        for kept in (planner.plan_or_none, planner.is_right):
            kept.cache_clear()


def test_the_part_that_is_wrong_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """What is put together of plans is checked once, as a whole. If that is wrong, what was put
    together wrongly is looked for, and done in another way."""
    right, broken = planner.plan_of_copies, list[Plan]()

    def wrong(found: Batch, plan: Plan, costs: Costs) -> Plan | None:
        made = right(found, plan, costs)
        if made is None or found.move.steps:
            return made
        # One more renaming: the registers in another order.
        grid = made.values[made.result].grid
        turned = np.roll(np.arange(math.prod(grid)), 1)
        value = made.values[made.result]
        step = GridTake.of(made.result, turned, grid)
        broken.append(
            replace(
                made,
                values=(*made.values, value),
                steps=(*made.steps, step),
                result=len(made.values),
            )
        )
        return broken[-1]

    source, target = VectorLayout(8, 1, 2, tile_rows=8), VectorLayout(8, 0, 1, 5, 21, 16)
    move = Move.reshape((source, (7, 136, 418)), target, (272, 1463))
    monkeypatch.setattr(planner, "plan_of_copies", wrong)
    made = planned_anew(move, caplog)
    assert broken and made.checked
    assert "'stages" in caplog.text and "no plan of 7 copies" in caplog.text
    assert performs(made, move, trace(move).starts)


def test_the_whole_is_checked_once(monkeypatch: pytest.MonkeyPatch):
    """Not what parts are put together of, each layer again."""
    source, target = VectorLayout(8, 1, 2, tile_rows=8), VectorLayout(8, 0, 1, 5, 21, 16)
    move = Move.reshape((source, (7, 136, 418)), target, (272, 1463))
    asked: list[Move] = []
    right = check.performs_at

    def counted(plan: Plan, asked_of: Move, elements: Array) -> bool:
        asked.append(asked_of)
        return right(plan, asked_of, elements)

    for module in (composed, whole):
        monkeypatch.setattr(module, "performs_at", counted)
    for kept in (planner.plan_or_none, planner.is_right):
        kept.cache_clear()
    made = planner.plan(move, V5E)
    assert planner.plan(move, V5E) is made
    assert asked == [move]


def test_what_cannot_be_checked_is_said(monkeypatch: pytest.MonkeyPatch):
    """No other plan is looked for then."""
    move, _ = CASES["searched"]

    def too_large(*_: Any) -> bool:
        raise Unsupported("movement-size", "too many elements to check")

    monkeypatch.setattr(whole, "performs", too_large)
    planner.plan_or_none.cache_clear()
    with pytest.raises(Unsupported, match="too many elements") as raised:
        planner.plan(move, V5E)
    assert raised.value.code == "movement-size"
