"""Movements of many registers, planned for the few that the others repeat."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pallasite.layouts.move import Move
from pallasite.layouts.planner.check import corners, expected_elements, performs, source_elements
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.demand import demand
from pallasite.layouts.planner.execute import UNDEFINED, execute, execute_part
from pallasite.layouts.planner.periods import Periods, periods
from pallasite.layouts.planner.planner import plan
from pallasite.layouts.planner.trace import trace
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.targets import get_target

V5E = Costs.of(get_target("v5e"))
N2, N3 = (VectorLayout.native(rank, 32) for rank in (2, 3))
B2 = VectorLayout.native(2, 16)
MOVES = [
    Move.slice((B2, (1969, 371)), B2, (1103, 89), (600, 262)),
    Move.relayout(VectorLayout(4, 0, 1, 5, 37, 16), (912, 800), VectorLayout(4, 0, 1, 7, 58, 8)),
    Move.concat([(N2, (500, 300)), (N2, (77, 300))], N2, 0),
    Move.repeat((N2, (203, 360)), N2, (1, 4)),
    Move.reshape((N3, (90, 24, 40)), N2, (720, 120)),
]


def found(move: Move) -> Periods | None:
    layout, shape = move.destination
    sources = [one.register_count(extents) for one, extents in move.sources]
    return periods(trace(move), layout.grid_shape(shape), sources)


@pytest.mark.parametrize("move", MOVES, ids=str)
def test_every_register_repeats_its_model(move: Move):
    few, whole = found(move), trace(move)
    assert few is not None
    assert len(few.chosen) <= len(whole.register) // 3
    sizes = np.cumsum([one.register_count(extents) for one, extents in move.sources])
    model = few.found.register[few.model[few.kind]]
    # Registers of a source that is not wanted may be any.
    source = np.searchsorted(sizes, whole.register, side="right")
    shift = few.shift[np.minimum(source, len(sizes) - 1), np.arange(len(model))[:, None, None]]
    moved = np.where(model >= 0, model + shift, -1)
    np.testing.assert_array_equal(moved, whole.register)
    np.testing.assert_array_equal(few.found.lane[few.model[few.kind]], whole.lane)


@pytest.mark.parametrize("move", MOVES, ids=str)
def test_every_lane_of_every_register_is_right(move: Move):
    made = plan(move, V5E)
    lanes = np.arange(128)
    bases = np.cumsum([0, *(math.prod(shape) for _, shape in move.sources)])
    sources = [
        source_elements(one, int(base), np.arange(one[0].register_count(one[1])), lanes)
        for one, base in zip(move.sources, bases, strict=False)
    ]
    layout, shape = move.destination
    expected = expected_elements(move, np.arange(layout.register_count(shape)), lanes)
    wanted = expected != UNDEFINED
    actual = execute(made, sources).reshape(expected.shape)
    assert (actual[wanted] == expected[wanted]).all()


def test_as_cheap_as_a_smaller_block():
    """What neighbours share is counted as if there were no edges nearby."""
    small, large = (
        plan(Move.slice((B2, (rows + 100, 371)), B2, (69, 89), (rows, 262)), V5E)
        for rows in (480, 1440)
    )
    assert large.instructions <= 3.01 * small.instructions


def test_nothing_repeats():
    assert found(Move.reshape((N2, (427, 162)), N2, (378, 183))) is None


def test_a_wrong_plan_is_found_at_the_corners():
    move = Move.slice((N2, (300, 400)), N2, (5, 3), (200, 300))
    wrong = plan(Move.slice((N2, (300, 400)), N2, (5, 4), (200, 300)), V5E)
    layout, shape = move.destination
    starts = trace(move).starts
    assert performs(plan(move, V5E), move, starts, corners(layout.grid_shape(shape)))
    assert not performs(wrong, move, starts, corners(layout.grid_shape(shape)))


@pytest.mark.parametrize("bits", [32, 16, 8])
def test_part_of_a_transpose_needs_part_of_the_source(bits: int):
    """Rows of the source become lanes: one lane needs one register of each block."""
    layout = VectorLayout.native(2, bits)
    move = Move.transpose((layout, (256, 384)), layout, (1, 0))
    made = plan(move, V5E)
    registers, lanes = np.array([0, 5]), np.array([0, 1])
    part = demand(made, registers, lanes)
    assert part.registers[0].size < layout.register_count((256, 384))
    sources = [source_elements(move.sources[0], 0, part.registers[0], part.lanes[0])]
    expected = expected_elements(move, registers, lanes)
    np.testing.assert_array_equal(execute_part(made, part, sources), expected)


def test_models_come_from_registers_that_there_are():
    """Rows of the grid may leave out more registers than there are before the next row."""
    move = Move.reshape((N2, (1500, 900)), N2, (450, 3000))
    few, whole = found(move), trace(move)
    assert few is not None
    wanted = whole.register[few.chosen] >= 0
    np.testing.assert_array_equal(few.found.register >= 0, wanted)
