"""Movements of large blocks, planned as many copies of a small one or along one axis at a time."""

from __future__ import annotations

import numpy as np
import pytest

from pallasite.layouts.move import Move
from pallasite.layouts.planner.batch import batch
from pallasite.layouts.planner.check import expected_elements, source_elements
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.execute import UNDEFINED, execute
from pallasite.layouts.planner.planner import plan
from pallasite.layouts.planner.split import by_axes, regrouped
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.targets import get_target

V5E = Costs.of(get_target("v5e"))
N1, N2, N3, N4 = (VectorLayout.native(rank, 32) for rank in (1, 2, 3, 4))
I3 = VectorLayout.native(3, 4)
B1, B2, B3 = (VectorLayout.native(rank, 16) for rank in (1, 2, 3))
LANES = np.arange(128)

MOVES = [
    Move.slice((N2, (600, 1000)), N2, (5, 300), (300, 500)),
    Move.slice((N2, (2000, 300)), N2, (1003, 128), (990, 172)),
    Move.slice((N2, (2100, 700)), N2, (5, 300), (1000, 200), (2, 2)),
    Move.slice((N3, (6, 300, 1000)), N3, (2, 8, 111), (3, 290, 700)),
    Move.slice((B2, (1300, 1000)), B2.with_offsets(3, 5), (16, 77), (1200, 900)),
    Move.slice((B2.with_offsets(3, 5), (1300, 1000)), B2, (16, 123), (1200, 800)),
    Move.roll((N3, (5, 128, 512)), N3, 1, 3),
    Move.roll((N3, (5, 128, 512)), N3, 0, 3),
    Move.transpose((N3, (24, 16, 384)), N3, (1, 0, 2)),
    Move.transpose((N3, (40, 24, 130)), N3, (0, 2, 1)),
    Move.transpose((N4, (3, 4, 16, 300)), N4, (1, 0, 2, 3)),
    Move.reshape((N4, (24, 33, 5, 80)), N4, (22, 9, 20, 80)),
    Move.reshape((N3, (48, 8, 130)), N2, (384, 130)),
    Move.reshape((B3, (48, 8, 256)), B2, (384, 256)),
    Move.reshape((N3, (3, 64, 300)), N1, (57600,)),
    Move.reshape((B3, (12, 64, 40)), B1, (30720,)),
    Move.reshape((N1, (46080,)), N3, (3, 48, 320)),
    Move.reshape((N2.with_offsets(0, 5), (64, 300)), N3, (24, 8, 100)),
    Move.broadcast((N3, (30, 1, 256)), N3, (30, 24, 256)),
    Move.concat([(N3, (20, 3, 256)), (N3, (20, 10, 256))], N3, 1),
    Move.repeat((N2, (300, 384)), N2, (2, 1)),
    # Rows become a leading dimension: blocks of eight, of which the last are not whole.
    Move.transpose((N3, (99, 119, 1)), N3, (1, 0, 2)),
    Move.slice((N3, (210, 60, 20)), N3, (3, 8, 0), (199, 48, 20)),
    Move.transpose((B3, (111, 159, 8)), B3, (1, 0, 2)),
    # Gathers by index registers that advance over the grid: numbered for each copy.
    Move.transpose((I3, (35, 192, 13)), I3, (2, 1, 0)),
]


@pytest.mark.parametrize("move", MOVES, ids=str)
def test_every_lane_is_right(move: Move):
    bases = np.cumsum([0, *(np.prod(shape) for _, shape in move.sources)])
    sources = [
        source_elements((layout, shape), int(base), np.arange(layout.register_count(shape)), LANES)
        for (layout, shape), base in zip(move.sources, bases, strict=False)
    ]
    layout, shape = move.destination
    expected = expected_elements(move, np.arange(layout.register_count(shape)), LANES)
    actual = execute(plan(move, V5E), sources)
    wanted = expected != UNDEFINED
    assert (actual.reshape(expected.shape)[wanted] == expected[wanted]).all()


@pytest.mark.parametrize(
    ("move", "copies"),
    [
        (Move.roll((N3, (5, 128, 512)), N3, 1, 3), 5 * 4),
        (Move.roll((N3, (5, 128, 512)), N3, 2, 3), 5 * 16),
        (Move.roll((N3, (5, 128, 512)), N3, 0, 3), 16 * 4),
        (Move.slice((N2, (64, 512)), N2, (3, 128), (40, 300)), 3),
        (Move.transpose((N3, (24, 16, 384)), N3, (1, 0, 2)), 3),
        (Move.concat([(N3, (20, 3, 256)), (N3, (20, 10, 256))], N3, 1), 20 * 2),
    ],
    ids=str,
)
def test_copies(move: Move, copies: int):
    found = batch(move)
    assert found is not None
    assert found.copies == copies


def test_index_registers_are_numbered_for_each_copy():
    one, many = (Move.transpose((I3, (35, n, 13)), I3, (2, 1, 0)) for n in (64, 192))
    made = plan(many, V5E)
    assert "GatherLanes" in made.count()
    assert made.instructions <= 3 * plan(one, V5E).instructions


def test_blocks_of_rows_are_counted():
    """A period of the pattern: 32 rows of 300 elements are 75 registers of a vector."""
    found = regrouped(Move.reshape((N3, (3, 256, 300)), N1, (230400,)))
    lanes = VectorLayout(32, None, 1)
    assert found == Move.reshape((N3, (24, 32, 300)), lanes, (24, 9600))


@pytest.mark.parametrize(
    "move, copies",
    [
        (Move.transpose((N3, (1329, 137, 1)), N3, (1, 0, 2)), 167),
        (Move.transpose((N3, (1328, 136, 1)), N3, (1, 0, 2)), 166 * 17),
        (Move.transpose((N3, (99, 119, 1)), N3, (1, 0, 2)), 15),
    ],
    ids=str,
)
def test_blocks_that_are_whole_in_every_grid(move: Move, copies: int):
    """However large the block, few registers are looked at; little is wasted."""
    found = batch(move)
    assert found is not None and found.copies == copies
    layout, shape = found.core.destination
    assert layout.register_count(shape) <= 137
    whole = move.destination[0].register_count(move.destination[1])
    assert found.copies * layout.register_count(shape) <= 1.06 * whole


def test_nothing_to_share():
    assert batch(Move.slice((N2, (64, 512)), N2, (3, 5), (40, 300))) is None
    assert regrouped(Move.reshape((N3, (3, 8, 128)), N3, (6, 4, 128))) is not None
    assert regrouped(Move.reshape((N3, (5, 9, 128)), N2, (45, 128))) is None
    assert by_axes(Move.transpose((N3, (24, 16, 384)), N3, (1, 0, 2))) == []


@pytest.mark.parametrize("sizes", [(256, 256), (2048, 1024)], ids=str)
def test_as_many_registers_as_the_whole_search_finds(sizes: tuple[int, int]):
    rows, columns = (n - 128 for n in sizes)
    made = plan(Move.slice((N2, sizes), N2, (5, 111), (rows, columns)), V5E)
    blocks = (rows // 8 + 1) * (columns // 128 + 1)
    assert made.instructions <= 4 * blocks


def test_all_matrices_are_stacked_although_there_are_copies():
    # Blocks of eight rows are copies; sixteen matrices of four rows fit below one another.
    one, many = (Move.transpose((N3, (4, n, 138)), N3, (2, 1, 0)) for n in (8, 16))
    made = plan(many, V5E)
    assert made.how.startswith("stack")
    assert made.count()["TransposeBlocks"] == plan(one, V5E).count()["TransposeBlocks"]
