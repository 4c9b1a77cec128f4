"""Plans that move something wrongly are not taken, whichever way made them; another one is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from pallasite.diagnostics import Unsupported
from pallasite.layouts.move import Move
from pallasite.layouts.planner import planner
from pallasite.layouts.planner.check import performs
from pallasite.layouts.planner.costs import Costs
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
        monkeypatch.setattr(planner, "HUGE", 1)
    refused: list[Any] = []

    def once(check: Callable[..., bool]) -> Callable[..., bool]:
        def checked(plan: Any, asked: Move, *others: Any) -> bool:
            if asked == move and not refused:
                refused.append(plan)
                return False
            return check(plan, asked, *others)

        return checked

    for name in ("performs", "performs_at"):
        monkeypatch.setattr(planner, name, once(getattr(planner, name)))
    planner.plan_or_none.cache_clear()
    with caplog.at_level(logging.DEBUG, planner.__name__):
        made = planner.plan(move, V5E)
    planner.plan_or_none.cache_clear()
    assert refused and any(message in record.getMessage() for record in caplog.records)
    assert performs(made, move, trace(move).starts)


def test_what_cannot_be_checked_is_said(monkeypatch: pytest.MonkeyPatch):
    """No other plan is looked for then."""
    move, _ = CASES["searched"]

    def too_large(*_: Any) -> bool:
        raise Unsupported("movement-size", "too many elements to check")

    monkeypatch.setattr(planner, "performs", too_large)
    planner.plan_or_none.cache_clear()
    with pytest.raises(Unsupported, match="too many elements") as raised:
        planner.plan(move, V5E)
    assert raised.value.code == "movement-size"
