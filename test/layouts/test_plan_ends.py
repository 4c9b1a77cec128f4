"""Plans ask for plans of parts: each of these is less, so that there is an end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pallasite.diagnostics import Unsupported
from pallasite.layouts.move import Broadcast, Move, Slice, Transpose
from pallasite.layouts.plan import Plan
from pallasite.layouts.planner import planner
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.execute import execute
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.targets import TARGETS, get_target

from . import moving
from .drawn_moves import FAMILIES, drawn
from .plan_measure import Measure, measure

COLUMNS = VectorLayout(16, 1, 0, 12, 7), (1, 17, 1)
N3, N4 = VectorLayout.native(3, 32), VectorLayout.native(4, 32)


def turned(bits: int, row: int | None, column: int | None, shape: tuple[int, ...]) -> Move:
    """All dimensions in the opposite order."""
    native = VectorLayout.native(len(shape), bits)
    order = range(len(shape))[::-1]
    return Move.transpose((native.with_offsets(row, column), shape), native, order)


NAMES_ONLY = [
    turned(32, None, 3, (1, 5, 16, 128)),
    turned(32, 0, 3, (1, 5, 16, 128)),
    turned(4, None, None, (1, 8, 3, 128)),
    turned(32, 0, 0, (1, 40, 8)),
    Move.relayout(*COLUMNS, VectorLayout.native(3, 16)),
    Move.transpose((VectorLayout(32, 1, 2, 0, 457, 1), (1, 40, 8)), N3, (2, 1, 0)),
    turned(16, 0, 0, (1, 20, 1, 31, 7)),
]
"""Whose lanes are, or become, dimensions of extent 1."""


@pytest.mark.parametrize("move", NAMES_ONLY, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_dimensions_of_extent_one_are_turned_once(move: Move, target: str):
    made = planner.plan(move, Costs.of(get_target(target)))
    (laid,) = move.sources
    numbers = np.arange(np.prod(laid[1])).reshape(laid[1])
    layout, shape = laid
    for dim, place in ((layout.sublane_dim, layout.row), (layout.lane_dim, layout.column)):
        if dim is not None and place is None:
            numbers = np.broadcast_to(numbers.take([0], dim), shape)
    wanted = numbers
    for step in move.steps:
        assert isinstance(step, Transpose)
        wanted = wanted.transpose(step.permutation)
    expected = moving.place(move.destination, wanted, -9)
    actual = execute(made, [moving.place(laid, numbers, -1)]).reshape(expected.shape)
    np.testing.assert_array_equal(np.where(expected == -9, -9, actual), expected)


class Asked:
    """`plan_or_none`, of whose answers each part must be less than the whole."""

    def __init__(self, function: Callable[[Move, Costs], Plan | None]) -> None:
        self._function, self._open = function, list[Measure]()
        self.parts = 0

    def __call__(self, move: Move, costs: Costs) -> Plan | None:
        mine = measure(move, costs)
        if self._open:
            self.parts += 1
            assert mine < self._open[-1], move
        self._open.append(mine)
        try:
            return self._function(move, costs)
        finally:
            self._open.pop()


@pytest.mark.parametrize("target", ["v4", "v7x"])
def test_parts_are_less_than_the_whole(monkeypatch: pytest.MonkeyPatch, target: str):
    planner.plan_or_none.cache_clear()
    asked = Asked(planner.plan_or_none)
    monkeypatch.setattr(planner, "plan_or_none", asked)
    costs = Costs.of(get_target(target))
    moves: list[Move] = [drawn(family, bits, 3) for family in FAMILIES for bits in (32, 8)]
    for move in (*NAMES_ONLY, *moves):
        try:
            planner.plan(move, costs)
        except Unsupported:
            continue
    assert asked.parts > 50


@pytest.mark.parametrize("bits", [32, 16, 8, 4])
def test_one_lane_of_a_row_is_turned_once_at_most(bits: int):
    """A row may become a column by a transpose, but no part of it that has one lane besides."""
    native, few = VectorLayout.native(2, bits), VectorLayout(bits, 0, 1, 0, 70, 4)
    row = (1, 300)
    moves = [Move.reshape((la, row), to, (300, 1)) for la in (native, few) for to in (native, few)]
    moves += [Move.slice((native, row), few, (0, 9), (1, 1))]
    moves += [Move.broadcast((native, (1, 1)), few, (40, 1))]
    steps = Slice((1, 1), (0, 9), (1, 1)), Broadcast((1, 1), (40, 1))
    moves += [Move(((native, row),), (few, (40, 1)), steps)]
    for move in moves:
        assert planner.plan(move, Costs.of(get_target("v5e"))).count().get("TransposeBlocks", 0) < 8
