"""What ways of moving words are judged to cost: the best of them is tried first."""

from __future__ import annotations

import pytest

from pallasite.layouts.move import Move
from pallasite.layouts.plan import Value
from pallasite.layouts.planner import ways
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.planner import plan
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.solve import cheapest
from pallasite.layouts.planner.trace import trace
from pallasite.layouts.planner.words import WordMove, whole_words
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.targets import get_target

COSTS = Costs()
LANES = COSTS.cross_lane
V4 = Costs.of(get_target("v4"))


def words(move: Move) -> WordMove:
    found = whole_words(trace(move), move.destination[0].packing)
    assert found is not None
    return found


def sliced(shape: tuple[int, int], offsets: tuple[int, int], sizes: tuple[int, int]) -> WordMove:
    native = VectorLayout.native(2, 32)
    return words(Move.slice((native, shape), native, offsets, sizes))


def test_rotations_are_counted_before_and_after_rows_are_joined():
    # Each of two registers is half of one result: rotated one by one, or joined and rotated.
    halves = sliced((8, 256), (0, 64), (8, 128))
    assert ways.of_rotating_first(halves, COSTS) == 2 * LANES + 1
    assert ways.of_rotating_last(halves, COSTS) == LANES + 1
    # Two results are halves of one register each: rotating it once for both is cheaper.
    native = VectorLayout.native(2, 32)
    shifted = words(Move.relayout(native, (5, 64), VectorLayout(32, 0, 1, 6, 3)))
    assert ways.of_rotating_first(shifted, COSTS) == LANES
    assert ways.of_rotating_last(shifted, COSTS) == 2 * LANES


def test_gathers_are_counted_by_rows():
    # Rows that keep their lanes take none; a row of two registers takes two, and one select.
    assert ways.of_gathering_within_rows(sliced((24, 128), (3, 0), (8, 128)), COSTS) == 1
    halves = sliced((8, 256), (0, 64), (8, 128))
    assert ways.of_gathering_within_rows(halves, COSTS) == 2 * LANES + 1
    assert ways.of_gathering_columns(halves, COSTS) == 2 * LANES + 1


def test_rows_put_together_in_lanes_are_gathered_apart_or_along_columns():
    native = VectorLayout.native(2, 32)
    merged = words(Move.reshape((native, (8, 16)), native, (1, 128)))
    # One gather for each of eight rows, and eight to join; or one gather along the lanes, and one
    # along the sublanes.
    assert ways.of_gathering_within_rows(merged, COSTS) >= 7 * LANES
    assert ways.of_gathering_columns(merged, COSTS) == LANES + 1
    assert ways.of_gathering_rows_apart(merged, COSTS) == LANES + 1
    # Without gathers along sublanes, eight shuffles spread one each, and seven selects choose.
    assert ways.of_gathering_columns(merged, V4) == LANES + 15
    assert ways.of_gathering_rows_apart(merged, V4) == LANES + 15


@pytest.mark.parametrize(
    ("target", "shape", "bits", "most"),
    [("v5e", (53, 31, 2), 8, 2030), ("v5e", (13, 4, 4), 4, 110), ("v6e", (13, 4, 4), 4, 110)],
    ids=str,
)
def test_the_best_way_is_not_cut_off(target: str, shape: tuple[int, ...], bits: int, most: float):
    # Each takes more steps than are left to those that are tried after another one.
    native = VectorLayout.native(3, bits)
    move = Move.transpose((native, shape), native, (2, 0, 1))
    assert plan(move, Costs.of(get_target(target))).cost <= most


def test_what_other_parts_have_made_costs_nothing():
    program = Program([Value((4,), 1)], 32, COSTS)
    rotated = program.rotate_lanes(0, 1)

    def anew(p: Program) -> int:
        return p.shuffle(p.shuffle(0, None, (1,) * 8), None, (2,) * 8)

    def continued(p: Program) -> int:
        return p.shuffle(p.rotate_lanes(0, 1), None, (1,) * 8)

    made = cheapest(program, [anew, continued])
    assert made is not None
    assert program.cost(made) == program.cost(rotated) + program.cost(made, rotated + 1)
    assert program.plan(made, "").count() == {"RotateLanes": 4, "SublaneShuffle": 4}
