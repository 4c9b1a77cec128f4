"""Results are kept up to a size, not up to a number."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase, i64

from pallasite import kept
from pallasite.dialects import types
from pallasite.frontend import bytecode_table
from pallasite.kept import KEPT_BYTES, Kept, bytes_held
from pallasite.layouts.move import Move
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.planner import plan, plan_or_none
from pallasite.layouts.planner.trace import trace
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.targets import get_target


def sized(most: int) -> tuple[Kept[str, str], list[str]]:
    """Texts that count their length, and those that were made."""
    return Kept[str, str](lambda key, value: len(value), most), []


def test_those_that_nobody_asked_for_go_first() -> None:
    texts, made = sized(9)

    def ask(key: str, size: int = 3) -> None:
        def make() -> str:
            made.append(key)
            return key * size

        assert texts.known(key, make) == key * size

    for key in "abcabd":  # when d comes, c has waited longest
        ask(key)
    ask("a")
    assert ("".join(made), texts.total) == ("abcd", 9)
    ask("c", 5)
    ask("a")
    assert ("".join(made), texts.total) == ("abcdc", 8)


def test_the_last_one_stays_whatever_its_size() -> None:
    texts, _ = sized(9)
    for key, size in (("a", 3), ("large", 100), ("large", 100)):
        texts.known(key, lambda size=size: "x" * size)
        assert (len(texts), texts.total) == (1, size)
    texts.known("b", lambda: "xxx")
    assert (len(texts), texts.total) == (1, 3)
    texts.clear()
    assert (len(texts), texts.total) == (0, 0)


def test_threads_that_make_one_value_share_it() -> None:
    values, barrier = Kept[str, list[int]](lambda key, value: 1, 9), Barrier(2)

    def make() -> list[int]:
        barrier.wait()
        return []

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(lambda _: values.known("", make), range(2))
    assert one is other
    assert (len(values), values.total) == (1, 1)


def test_errors_are_not_kept() -> None:
    texts, _ = sized(9)

    def fail() -> str:
        raise KeyError

    with pytest.raises(KeyError):
        texts.known("a", fail)
    assert texts.known("a", lambda: "x") == "x"


@dataclass(frozen=True)
class Part:
    table: bytes
    numbers: np.ndarray[Any, Any]


def test_bytes_of_what_plans_consist_of() -> None:
    part = Part(bytes(1000), np.zeros(1000))
    assert 9000 <= bytes_held(part) <= 9500
    assert 18000 <= bytes_held((part, [part])) <= 19000
    assert 1000 <= bytes_held(tuple(range(25))) <= 1200
    assert bytes_held(None) <= 64


def test_plans_are_kept_by_what_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = Costs.of(get_target("v5e"))
    layout = VectorLayout.native(2, 32)
    for function in (plan_or_none, trace):
        function.cache_clear()
    monkeypatch.setattr(plan_or_none.kept, "_most", 100_000)
    for rows in range(8, 800, 24):
        plan(Move.transpose((layout, (rows, 200)), layout, (1, 0)), costs)
    assert 50_000 < plan_or_none.kept.total <= 100_000
    assert trace.kept.total <= KEPT_BYTES
    sizes = [size for _, size in plan_or_none.kept._kept.values()]
    assert sum(sizes) == plan_or_none.kept.total
    before, asked = len(plan_or_none.kept), Move.transpose((layout, (776, 200)), layout, (1, 0))
    assert plan(asked, costs) is plan(asked, costs)
    assert len(plan_or_none.kept) == before


def test_functions_that_are_kept_tell_their_arguments_apart() -> None:
    calls: list[tuple[Any, ...]] = []

    @kept.kept
    def function(x: int, y: int = 0) -> int:
        calls.append((x, y))
        return x + y

    assert [function(1), function(1, 2), function(1, y=2), function(1)] == [1, 3, 3, 1]
    assert calls == [(1, 0), (1, 2), (1, 2)]
    assert function.__name__ == "function"


def test_long_lists_and_texts_are_not_kept() -> None:
    for count, kept_lists in ((8, 1), (10_000, 0)):
        before = types._unpacked.cache_info().currsize
        numbers = tuple(range(7, 7 + count))
        assert types.integers_in(DenseArrayBase.from_list(i64, numbers)) == numbers
        after = types._unpacked.cache_info().currsize
        assert after == before + kept_lists
    for count, kept_texts in ((3, 1), (1000, 0)):
        before = bytecode_table._parsed.cache_info().currsize
        text = f"array<i64: {', '.join(map(str, range(7, 7 + count)))}>"
        assert bytecode_table.parse_text(text, False) == DenseArrayBase.from_list(
            i64, list(range(7, 7 + count))
        )
        after = bytecode_table._parsed.cache_info().currsize
        assert after == before + kept_texts
