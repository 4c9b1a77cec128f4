"""Index maps in as few steps as they take."""

from __future__ import annotations

import pytest

from pallasite.layouts.move import IndexStep, Move, Reshape, Roll, Slice, Transpose
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.planner import plan
from pallasite.layouts.planner.simplify import simplified
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.targets import get_target

SHAPE = (9, 1, 20)
STEPS: dict[str, tuple[list[IndexStep], list[IndexStep]]] = {
    "units": ([Transpose((9, 20, 1), (0, 2, 1))], [Reshape(SHAPE, (9, 20, 1))]),
    "reshapes": (
        [Transpose((9, 20, 1), (0, 2, 1)), Reshape((9, 20, 1), (3, 60))],
        [Reshape(SHAPE, (3, 60))]),
    "transposes": (
        [Transpose((20, 9, 1), (2, 0, 1)), Transpose((1, 20, 9), (2, 0, 1))],
        [Transpose((1, 20, 9), (1, 2, 0))]),
    "there and back": ([Transpose((20, 1, 9), (2, 1, 0)), Transpose(SHAPE, (2, 1, 0))], []),
    "between": (
        [Reshape(SHAPE, (180,)), Roll((180,), 0, 180), Slice((180,), (0,), (1,)),
         Reshape((180,), SHAPE)], []),
    "units behind": (
        [Transpose((20, 9, 1), (2, 0, 1)), Reshape((20, 9, 1), (5, 36))],
        [Transpose((1, 20, 9), (1, 2, 0)), Reshape((1, 20, 9), (5, 36))]),
    "kept": (
        [Transpose((20, 1, 9), (2, 1, 0)), Reshape((20, 1, 9), (180,))],
        [Transpose((20, 1, 9), (2, 1, 0)), Reshape((20, 1, 9), (180,))]),
}  # fmt: skip


@pytest.mark.parametrize("case", STEPS)
def test_steps_are_joined(case: str):
    steps, fewer = STEPS[case]
    native = VectorLayout.native(3, 32)
    shape = steps[-1].shape
    move = Move(((native, SHAPE),), (VectorLayout.native(len(shape), 32), shape), tuple(steps))
    assert simplified(move).steps == tuple(fewer)


def test_the_same_movement_has_the_same_plan():
    native = VectorLayout.native(3, 32)
    source, shape = (native, (33, 1, 77)), (3, 11, 77)
    turned = Transpose((33, 77, 1), (0, 2, 1)), Reshape((33, 77, 1), shape)
    move = Move((source,), (native, shape), turned)
    assert plan(move, Costs()) == plan(Move.reshape(source, native, shape), Costs())


@pytest.mark.parametrize("bits", [32, 16])
@pytest.mark.parametrize("shape", [(256,), (3, 100)], ids=str)
def test_a_row_is_turned_whether_it_has_a_dimension_for_rows(shape: tuple[int, ...], bits: int):
    costs = Costs.of(get_target("v5e"))
    rank = len(shape)
    native = VectorLayout.native(rank + 1, bits)
    lying = VectorLayout(bits, None, rank - 1)
    alone = plan(Move.reshape((lying, shape), native, (*shape, 1)), costs)
    of_rows = Move.reshape((native, (*shape[:-1], 1, shape[-1])), native, (*shape, 1))
    assert alone.count() == plan(of_rows, costs).count()
    assert "TransposeBlocks" in alone.count()


def test_rows_and_lanes_are_the_last_dimensions_of_what_is_reshaped():
    """Where only a dimension of extent 1 is in the way; then the rows are found."""
    lying, shape = VectorLayout(32, 2, 1, 0, 0), (185, 167, 1)
    flat = VectorLayout(32, None, 0, None, 0)
    move = Move.reshape((lying, shape), flat, (185 * 167,))
    rows = VectorLayout.native(3, 32), (185, 1, 167)
    assert simplified(move) == Move.reshape(rows, flat, (185 * 167,))
    back = Move.reshape((flat, (185 * 167,)), lying, shape)
    assert simplified(back) == Move.reshape((flat, (185 * 167,)), *rows)
    assert simplified(simplified(move)) == simplified(move)
    made = plan(move, Costs.of(get_target("v5e")))
    assert "chunks" in made.how
    assert made.grid_instructions < 12
    # Other dimensions stay where they are, and so does what is not reshaped.
    turned = Move.reshape((VectorLayout(32, 0, 1, 0, 0), (3, 167, 2)), flat, (1002,))
    assert simplified(turned) == turned
    laid = Move.relayout(lying, shape, VectorLayout.native(3, 32))
    assert simplified(laid) == laid


def test_a_matrix_that_is_turned_and_reshaped_is_not_a_column_between():
    """Of single elements there were 148,104 rows then."""
    source, native = (187, 1, 792), VectorLayout.native(3, 4)
    first = Move.transpose((native, source), native, (2, 0, 1))
    end, shape = VectorLayout(4, 0, 1, 17, 174, 32), (17, 8712)
    steps = (*first.steps, Reshape((792, 187, 1), shape))
    made = plan(Move(first.sources, (end, shape), steps), Costs.of(get_target("v5e")))
    assert made.cost < 13_000
    assert made.grid_instructions < 100
