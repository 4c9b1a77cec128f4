"""Spans are found by what they overlap, and few others are looked at."""

from __future__ import annotations

import random

from pallasite.interpreter.machine.spans import Spans


def test_what_overlaps_is_near_while_spans_come_and_go():
    draw = random.Random(5)
    spans: Spans[int] = Spans()
    held: dict[int, tuple[int, int]] = {}
    for number in range(400):
        if held and draw.random() < 0.4:
            gone = draw.choice(list(held))
            spans.remove(gone, held.pop(gone))
        low = draw.randrange(5000)
        held[number] = low, low + draw.choice([1, 7, 64, 1000, 4096])
        spans.add(number, held[number])
        low = draw.randrange(5000)
        high = low + draw.choice([1, 100, 2000])
        overlapping = {n for n, (a, b) in held.items() if a < high and low < b}
        assert overlapping <= set(spans.near((low, high)))


def test_an_empty_span_is_near_nothing():
    spans: Spans[str] = Spans()
    spans.add("empty", (64, 64))
    assert list(spans.near((0, 128))) == []
    spans.remove("empty", (64, 64))


def test_a_search_does_not_depend_on_how_many_there_are():
    spans: Spans[int] = Spans()
    for number in range(2000):
        spans.add(number, (number * 4096, number * 4096 + 4096))
    for number in range(0, 2000, 97):
        assert len(list(spans.near((number * 4096, number * 4096 + 4096)))) <= 4
