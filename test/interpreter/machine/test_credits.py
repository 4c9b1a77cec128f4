"""What a wait has certainly taken is found without a look at every transfer in flight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pallasite.interpreter.machine.credits import Credit, Credits


def credit(amount: int, *, transfer: bool, time: int = 1, ordered: bool = False) -> Credit:
    uses: Any = [] if transfer else None
    return Credit(amount, 0, np.array([time, 0]), None, uses, ordered)


def test_waits_for_parts_of_many_transfers_look_at_none(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Credit] = []
    spare: Any = Credits._spare  # pyright: ignore[reportPrivateUsage]

    def noted(at: Credits, one: Credit) -> Any:
        asked.append(one)
        return spare(at, one)

    monkeypatch.setattr(Credits, "_spare", noted)
    credits = Credits(set())
    flown = [credit(512, transfer=True) for _ in range(100)]
    for one in flown:
        credits.issue(one)
        credits.land(one)
    for left in range(99, 0, -1):
        assert not credits.wait(1, 512, 512 * left, 1, None)
    assert not asked
    assert credits.wait(1, 512, 0, 1, None) == flown
    assert len(asked) == 100


def test_what_leads_is_taken_first() -> None:
    credits = Credits(set())
    first, second = (credit(512, transfer=True, ordered=True) for _ in range(2))
    for one in (first, second):
        credits.issue(one)
        credits.land(one)
    assert credits.wait(1, 512, 512, 1, None) == [first]
    assert credits.wait(1, 512, 0, 2, None) == [second]


def test_a_signal_is_certain_once_no_other_could_have_ended_the_wait() -> None:
    credits = Credits(set())
    two, one = credit(2, transfer=False), credit(1, transfer=False)
    for signal in (two, one):
        credits.issue(signal)
        credits.land(signal)
    # Of three in all, one may be the smaller signal; two are not there without the larger one.
    assert credits.wait(1, 1, 2, 1, None) == []
    assert credits.wait(1, 1, 1, 2, None) == [two]
    assert credits.wait(1, 1, 0, 3, None) == [one]


def test_transfers_are_told_once_that_they_have_arrived() -> None:
    credits = Credits(set())
    flown = [credit(512, transfer=True) for _ in range(2)]
    for one in flown:
        credits.issue(one)
    credits.land(flown[0])
    credits.wait(1, 256, 256, 1, None)
    assert credits.in_part() == flown[:1]
    credits.land(flown[1])
    credits.wait(1, 256, 512, 1, None)
    assert credits.in_part() == flown[1:]
