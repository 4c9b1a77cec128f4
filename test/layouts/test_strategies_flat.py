"""Rows cut anew through chunks of 128 elements."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pallasite.layouts.move import Move
from pallasite.layouts.planner.check import performs, performs_at
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.demand import ALL_LANES
from pallasite.layouts.planner.planner import plan, plan_or_none
from pallasite.layouts.planner.program import Program
from pallasite.layouts.strategies.flat import (
    by_chunks,
    elements_to_check,
    stays_in_sublanes,
    usual_cost,
)
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.targets import get_target

V4 = Costs.of(get_target("v4"))
V5E = Costs.of(get_target("v5e"))
NATIVE = VectorLayout.native(2, 32)


def reshape(source: Sequence[int], shape: Sequence[int], bits: int = 32) -> Move:
    laid = VectorLayout.native(len(source), bits), tuple(source)
    return Move.reshape(laid, VectorLayout.native(len(shape), bits), tuple(shape))


def factors(rng: random.Random, total: int) -> tuple[int, ...]:
    shape: list[int] = []
    for _ in range(rng.randrange(3)):
        shape.append(rng.choice([d for d in range(1, total + 1) if total % d == 0]))
        total //= shape[-1]
    return (*shape, total)


def shapes() -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    rng = random.Random(0)
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    while len(found) < 30:
        total = rng.choice((720, 1001, 2310, 4096, 5040, 9999, 13200))
        source, shape = factors(rng, total), factors(rng, total)
        few = max(math.prod(shape[:-1]), math.prod(source[:-1])) < 1000
        if source[-1] > 1 and math.prod(source[-2:]) >= 8 and few:
            found.append((source, shape))
    return found


@pytest.mark.parametrize(("source", "shape"), shapes(), ids=str)
def test_every_element_of_every_register(source: Sequence[int], shape: Sequence[int]):
    move = reshape(source, shape)
    for costs in (V4, V5E):
        made = by_chunks(move, costs)
        assert made is not None
        assert performs(made, move, ALL_LANES)
        assert performs_at(made, move, elements_to_check(move))


@pytest.mark.parametrize(
    ("source", "shape", "spread"),
    [
        ((57, 300), (57 * 300,), (False, True)),
        ((1, 57 * 300), (57, 300), (True, False)),
        ((57, 1, 300), (75, 1, 228), (True, True)),
        ((20, 36, 128), (20 * 36 * 128,), (False, True)),
    ],
    ids=str,
)
def test_rows_in_all_sublanes(
    source: tuple[int, ...], shape: tuple[int, ...], spread: tuple[bool, bool]
):
    def laid(shape: tuple[int, ...], spread: bool) -> VectorLayout:
        return VectorLayout.native(len(shape), 32, None if spread else 0)

    move = Move.reshape((laid(source, spread[0]), source), laid(shape, spread[1]), shape)
    for costs in (V4, V5E):
        made = by_chunks(move, costs)
        assert made is not None
        assert performs(made, move, ALL_LANES)
        assert performs_at(made, move, elements_to_check(move))


def test_large_flat_values_in_all_sublanes():
    """What a search for patterns finds takes a hundred times as long and 63,000 instructions."""
    shape = (257, 8, 958)
    flat = VectorLayout(4, None, 0, None, 0), (math.prod(shape),)
    made = plan(Move.reshape((VectorLayout.native(3, 4), shape), *flat), V5E)
    assert "chunks" in made.how
    assert made.instructions < 38000


def test_instructions_do_not_grow_with_the_block():
    few, many = (by_chunks(reshape((n * 97, 201), (n * 201, 97)), V5E) for n in (2, 20))
    assert few is not None
    assert many is not None
    assert many.grid_instructions <= 1.1 * few.grid_instructions < 200
    assert many.cost < 10.5 * few.cost


def test_cheaper_than_a_plan_by_patterns():
    """Where it is judged to be so, plans of widened elements too are of few instructions."""
    for bits in (32, 8):
        move = reshape((427, 162), (378, 183), bits)
        made = plan(move, V5E)
        assert "chunks" in made.how
        assert made.grid_instructions < 300


def test_the_usual_cost_is_about_that_of_a_plan_by_patterns():
    # What the search found before there was anything else, with gathers at the cost of rotations;
    # they cost half an instruction more.
    found = (
        (reshape((427, 162), (378, 183)), 2866 + 282 / 2, 0.2),
        (reshape((501, 666), (54, 37, 167)), 13734 + 1260 / 2, 0.2),
        (reshape((26, 1312), (533, 16, 4)), 3490 + 1066 / 2, 0.3),
    )
    for move, cost, tolerance in found:
        assert usual_cost(move, V5E) == pytest.approx(cost, rel=tolerance)


def test_short_rows_of_the_destination_are_one_gather_each():
    move = reshape((26, 1312), (533, 16, 4))
    made = by_chunks(move, V5E)
    assert made is not None
    # What the search for patterns finds costs 3490, and half an instruction more for each gather.
    assert made.cost < 1.1 * (3490 + 1110 / 2)
    assert made.count()["GatherLanes"] == 533 * 2 + 26 // 8 * 11 + 11


def test_short_rows_of_the_source_take_few_instructions():
    """Their registers are gathered twice and selected, whatever the destination."""
    move = reshape((97, 201, 3), (201, 291))
    made = by_chunks(move, V5E)
    assert made is not None
    # Rows begin in any of the 128 lanes: so many kinds of registers there are.
    assert made.grid_instructions < 200
    assert made.instructions < 4.2 * 97 * 26


@pytest.mark.parametrize("bits", [32, 16, 4])
@pytest.mark.parametrize(
    ("source", "shape", "steps"),
    [
        ((371, 41), (15211,), 10),
        ((15211,), (371, 41), 4),
        ((67, 4), (268,), 40),
        ((500, 300), (750, 200), 8),
    ],
    ids=str,
)
def test_what_stays_in_its_sublane_is_moved_as_if_all_held_the_same(
    source: tuple[int, ...], shape: tuple[int, ...], steps: int, bits: int
):
    """Whole words, whatever these hold; each pattern by itself took hundreds of steps."""
    height = 256 // bits
    laid, target = (VectorLayout(bits, 0, len(s), 0, 0) for s in (source, shape))
    move = Move.reshape((laid, (height, *source)), target, (height, *shape))
    for costs in (V4, V5E):
        made = plan(move, costs)
        assert performs(made, move, ALL_LANES)
        assert made.grid_instructions < steps
        assert made.cost == plan(move, replace(costs, stages=False)).cost
    # The sublanes of a source that begins in another one are not the same.
    other = (laid.with_offsets(1, 0), (height - 1, *source))
    assert not stays_in_sublanes(Move.reshape(other, target, (height - 1, *shape)))


@pytest.mark.parametrize("row", [0, None])
@pytest.mark.parametrize("source", [(16, 3, 9, 2), (100, 2, 7), (24, 40, 4), (25, 9, 11)], ids=str)
def test_short_rows_come_to_one_row_or_to_all(source: tuple[int, ...], row: int | None):
    """They are spread when the rows of a chunk are together: few instructions, not searched."""
    total = math.prod(source)
    native = VectorLayout.native(len(source), 32)
    move = Move.reshape((native, source), VectorLayout(32, None, 0, row, 0), (total,))
    blocks = math.prod(source[:-2]) * -(-source[-2] // 8)
    chunks = -(-total // 128)
    for costs, spread in ((V4, 6), (V5E, 1)):
        made = by_chunks(move, costs)
        assert made is not None
        assert performs(made, move, ALL_LANES)
        # A gather or two for every source register, and what puts these together.
        assert made.count()["GatherLanes"] <= 2 * blocks
        assert made.instructions < (4 + spread) * blocks + (spread + 1) * chunks
        assert plan(move, costs).cost <= made.cost


@pytest.mark.parametrize(
    ("source", "shape", "searched"),
    [((15, 1600), (200, 120), 785), ((973, 49), (7, 6811), 3898), ((62, 2336), (4672, 31), 10005)],
    ids=str,
)
def test_rows_move_in_the_cheapest_way(
    source: tuple[int, ...], shape: tuple[int, ...], searched: float
):
    """Rotated, spread, or by any pattern; what the search for patterns finds costs more."""
    made = by_chunks(reshape(source, shape), V5E)
    assert made is not None
    assert made.cost < searched


@pytest.mark.parametrize("length", [300, 12])
def test_short_rows_are_not_made_of_one_that_is_in_all_sublanes(length: int):
    flat = VectorLayout(32, None, 0, None, 0), (40 * length,)
    move = Move.reshape(flat, NATIVE, (10 * length, 4))
    assert by_chunks(move, V5E) is None
    assert performs(plan(move, V5E), move, ALL_LANES)


def test_columns_are_transposed():
    assert by_chunks(reshape((990, 1), (9, 110)), V5E) is None


def test_the_elements_to_check_are_in_every_place_of_a_chunk():
    move = reshape((1810, 35), (905, 70))
    checked = elements_to_check(move)
    for length in (35, 70):
        block = np.arange(1810 * 35 // length) // 8
        begins = block * 8 * length % 128
        assert {*begins[checked // length].tolist()} == {*begins.tolist()}
    assert {0, 1810 * 35 - 1} <= set(checked.tolist())
    assert checked.size < 20000


@pytest.mark.parametrize(
    "move",
    [
        reshape((427, 162), (378, 183), 16),
        Move.reshape((VectorLayout(32, 0, 1, 3, 0), (90, 91)), NATIVE, (91, 90)),
        Move.slice((NATIVE, (90, 91)), NATIVE, (1, 1), (9, 9)),
    ],
    ids=str,
)
def test_declined(move: Move):
    assert by_chunks(move, V5E) is None


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4])
def test_a_search_may_end_at_any_step(steps: int, monkeypatch: pytest.MonkeyPatch):
    """Also at that which puts the registers of a plan into the grid: then the other plan stays."""
    move = reshape((190, 162), (171, 180))
    layout, shape = move.destination

    def turned(program: Program, x: int, *_: object) -> int:
        count = layout.register_count(shape)
        return program.rotate_lanes(program.take(x, np.zeros(count, np.int64)), 1)

    for module in ("judge", "search"):
        monkeypatch.setattr(f"pallasite.layouts.planner.{module}.usual_cost", lambda *_: 0.0)
    monkeypatch.setattr("pallasite.layouts.planner.search.solve", turned)
    monkeypatch.setattr("pallasite.layouts.planner.search._STEPS", steps)
    plan_or_none.cache_clear()
    assert plan(move, V5E).how == "chunks"
    plan_or_none.cache_clear()
