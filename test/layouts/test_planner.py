"""Plans executed on element numbers against NumPy, and counted against the design note."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pallasite.diagnostics import Unsupported
from pallasite.layouts.move import Move
from pallasite.layouts.plan import Plan
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.demand import demand
from pallasite.layouts.planner.execute import execute, execute_part
from pallasite.layouts.planner.planner import plan, plan_or_none
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.targets import get_target

from . import moving
from .movement_cases import CASES

V5E = Costs.of(get_target("v5e"))
V6E = Costs.of(get_target("v6e"))
# The note lets a shuffle of two registers take any pattern.
NOTE = Costs(any_shuffle=True)


@pytest.mark.parametrize(("name", "move", "ceiling"), CASES, ids=[c[0] for c in CASES])
def test_counts(name: str, move: Move, ceiling: int):
    made = plan(move, NOTE)
    assert made.instructions <= ceiling, f"{made.count()}\n{made}"


def check(case, target: str):
    """Executes the plan of a case in every lane, with UNDEFINED in all padding."""
    made = plan(case.move, Costs.of(get_target(target)))
    arrays = case.numbers()
    registers = [moving.place(s, a, -1) for s, a in zip(case.move.sources, arrays, strict=True)]
    expected = moving.place(case.move.destination, case.meaning(*arrays), -9)
    actual = execute(made, registers).reshape(expected.shape)
    np.testing.assert_array_equal(np.where(expected == -9, -9, actual), expected, str(case.move))


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(moving.cases(), st.sampled_from(["v4", "v5e", "v6e"]))
def test_any_movement(case, target: str):
    check(case, target)


BF2 = VectorLayout.native(2, 16)
N2, N3 = VectorLayout.native(2, 32), VectorLayout.native(3, 32)


@pytest.mark.parametrize(
    "move",
    [
        Move.slice((N2, (2048, 2048)), N2, (5, 111), (1900, 1800)),
        Move.transpose((N2, (2048, 2048)), N2, (1, 0)),
        Move.roll((N2, (2048, 2048)), N2, 1, 77),
        Move.reshape((N2, (2048, 2048)), N3, (2048, 16, 128)),
        Move.broadcast((N2, (2048, 1)), N2, (2048, 2048)),
        Move.concat([(N2, (1000, 2048)), (N2, (1048, 2048))], N2, 0),
    ],
    ids=str,
)
def test_plans_of_large_blocks_are_short(move: Move):
    plan_or_none.cache_clear()
    start = time.process_time()
    made = plan(move, V6E)
    seconds = time.process_time() - start
    assert made.grid_instructions <= 10
    assert seconds < 0.5


@pytest.mark.parametrize(
    ("move", "golden"),
    [
        (Move.slice((N2, (8, 256)), N2, (0, 64), (8, 128)), 3),
        (Move.slice((BF2, (16, 128)), BF2, (3, 0), (8, 128)), 13),
        (Move.concat([(N2, (5, 128)), (N2, (5, 128))], N2, 0), 3),
        (Move.concat([(N2, (8, 64)), (N2, (8, 64))], N2, 1), 2),
        (Move.reshape((N2, (12, 128)), N3, (3, 4, 128)), 1),
        (Move.reshape((N2, (8, 256)), N2, (16, 128)), 32),
        (Move.reshape((N3, (8, 10, 128)), N2, (8, 1280)), 160),
        (Move.transpose((N3, (8, 8, 128)), N3, (1, 0, 2)), 40),
        (Move.reshape((N2, (1, 128)), N2, (128, 1)), 17),
        (Move.roll((N2, (16, 256)), N2, 0, 3), 8),
        (Move.roll((N2, (16, 256)), N2, 1, 130), 8),
        (Move.roll((N2, (10, 128)), N2, 0, 3), 4),
        (Move.broadcast((N2, (1, 128)), N2, (16, 128)), 1),
        (Move.broadcast((N2, (16, 1)), N2, (16, 256)), 2),
        (Move.transpose((N2, (16, 256)), N2, (1, 0)), 2),
    ],
    ids=str,
)
def test_no_more_instructions_than_the_old_passes(move: Move, golden: int):
    """spec/vreg_lowering.md section 9.3, with shuffles that the compiler takes."""
    assert plan(move, V6E).instructions <= golden


def test_equal_plans_for_equal_shapes_of_any_size():
    small = plan(Move.slice((N2, (64, 512)), N2, (5, 17), (40, 256)), V6E)
    large = plan(Move.slice((N2, (640, 5120)), N2, (5, 17), (600, 4992)), V6E)
    assert list(small.count()) == list(large.count())
    assert small.grid_instructions == large.grid_instructions


def issued(made: Plan) -> int:
    """Operations on registers, and on groups of them, which are put together and taken apart."""
    return made.instructions + 2 * made.count().get("TransposeBlocks", 0)


def test_columns_of_many_rows():
    """A block for each row costs less than a gather for each register."""
    move = Move.relayout(VectorLayout(32, 0, 1), (100, 32, 1), VectorLayout.native(3, 32))
    assert issued(plan(move, V6E)) <= 400


@pytest.mark.parametrize("shape", [(3, 16), (16, 3), (8, 8), (5, 8), (8, 4)])
def test_narrow_matrices_are_transposed(shape: tuple[int, int]):
    """A block that is nearly empty costs no more than its registers that are used."""
    made = plan(Move.transpose((N2, shape), N2, (1, 0)), V5E)
    assert made.count() == {"TransposeBlocks": 1}
    assert made.cost < 4 * V5E.cross_lane


@pytest.mark.parametrize("shape", [(24, 8, 8), (12, 16, 8), (8, 16, 16), (64, 4, 8)])
def test_matrices_share_a_block_for_fewer_operations(shape: tuple[int, int, int]):
    """A block for each would cost as much, but take three operations."""
    native = VectorLayout.native(3, 32)
    made = plan(Move.transpose((native, shape), native, (0, 2, 1)), V5E)
    assert made.how.startswith("stack, transpose")
    assert issued(made) <= 2.4 * shape[0]


@pytest.mark.parametrize("bits", [4, 8])
def test_transposes_between_tiles_of_few_rows_go_through_native_ones(bits: int):
    # v5e transposes no bytes: as 32 bits, which only native tiles become.
    few, native = VectorLayout(bits, 1, 2, tile_rows=32 // bits), VectorLayout.native(3, bits)
    for shape in ((130, 2, 128), (130, 2, 256)):
        between = plan(Move.transpose((native, shape), native, (2, 1, 0)), V5E)
        made = plan(Move.transpose((few, shape), few, (2, 1, 0)), V5E)
        assert "unpack, transpose" in made.how and made.cost < 2 * between.cost


def test_replication_of_differing_elements_is_refused():
    with pytest.raises(Unsupported, match="cannot replicate dimension 1 whose elements differ"):
        plan(Move.relayout(N2, (8, 128), VectorLayout.native(2, 32, 0, None)), V6E)


def test_one_column_serves_all_lanes():
    lanes = VectorLayout.native(2, 32, 0, None)
    column = Move.broadcast((N2, (8, 1)), lanes, (8, 300))
    assert plan(column, V6E).instructions == 1
    more = VectorLayout.native(3, 32, 0, None)
    assert plan(Move.broadcast((lanes, (8, 300)), more, (2, 8, 300)), V6E).instructions == 0


def test_replicated_sources_give_up_replication_for_free():
    source = VectorLayout.replicated(2, 16), (1, 1)
    made = plan(Move.broadcast(source, VectorLayout.native(2, 16), (100, 300)), V6E)
    assert made.instructions == 0


@pytest.mark.parametrize("length", [64, 200, 512])
@pytest.mark.parametrize("bits", [32, 16])
def test_a_row_becomes_a_column_by_a_transpose(length: int, bits: int):
    """Also where nothing says that rows and lanes are exchanged: to gather every row costs more."""
    native = VectorLayout.native(2, bits)
    for move in (
        Move.reshape((native, (1, length)), native, (length, 1)),
        Move.transpose((native, (1, length)), native, (1, 0)),
    ):
        assert plan(move, V5E).count() == {"TransposeBlocks": -(-length // 128)}


def test_no_register_is_wanted_of_a_step():
    """Every step of a plan is executed, also those of which a part of the result needs nothing."""
    layout, shape = VectorLayout.native(3, 8), (32, 32, 128)
    made = plan(Move.transpose((layout, shape), layout, (1, 0, 2)), V5E)
    assert "Interleave" in made.count()
    nothing = demand(made, np.arange(0), np.arange(128))
    sources = [np.empty((0, 8, 128, 4), np.int64)]
    assert execute_part(made, nothing, sources).shape == (0, 8, 128, 4)
