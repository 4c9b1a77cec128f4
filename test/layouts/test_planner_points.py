"""Words followed back through plans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pallasite.layouts.move import Move
from pallasite.layouts.plan import (
    GatherLanes,
    GridBroadcast,
    GridConcat,
    GridSlice,
    GridTake,
    GridTranspose,
    Or,
    Plan,
    RotateLanes,
    Select,
    ShiftLeft,
    Step,
    SublaneShuffle,
    TransposeBlocks,
    Unpack,
    Value,
)
from pallasite.layouts.planner.check import corner_elements, performs, performs_at
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.demand import ALL_LANES, origins, origins_of
from pallasite.layouts.planner.fields import Field, Mask
from pallasite.layouts.planner.planner import plan
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.targets import get_target

V5E = Costs.of(get_target("v5e"))


def native(*shape: int, bits: int = 32) -> Any:
    return VectorLayout.native(len(shape), bits), shape


def to(move: Any, source: Any, *rest: Any) -> Move:
    return move(source, VectorLayout.native(len(source[1]), source[0].bits), *rest)


MOVES = {
    "slice": to(Move.slice, native(40, 300), (3, 5), (30, 200)),
    "roll": Move.roll(native(40, 300), VectorLayout.native(2, 32), 1, 7),
    "transpose": to(Move.transpose, native(40, 300), (1, 0)),
    "transpose-i8": to(Move.transpose, native(40, 300, bits=8), (1, 0)),
    "slice-i8": to(Move.slice, native(90, 300, bits=8), (3, 0), (30, 300)),
    "roll-bf16": Move.roll(native(40, 300, bits=16), VectorLayout.native(2, 16), 0, 7),
    "merge-i4": to(Move.reshape, native(4, 40, 30, bits=4), (40, 4, 30)),
    "concat": Move.concat([native(5, 30), native(9, 30)], VectorLayout.native(2, 32), 0),
    "chunks": Move.reshape(native(190, 162), VectorLayout.native(2, 32), (171, 180)),
    "short": Move.reshape(native(40, 205, 4), VectorLayout.native(2, 32), (1025, 32)),
}


def every(move: Move) -> Any:
    return np.arange(np.prod(move.destination[1]))


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_every_element(move: Move):
    made = plan(move, V5E)
    assert performs_at(made, move, every(move))
    assert performs_at(made, move, corner_elements(move))


def test_all_kinds_of_steps_are_among_them():
    kinds = {type(step) for move in MOVES.values() for step in plan(move, V5E).steps}
    wanted = {GatherLanes, RotateLanes, Select, SublaneShuffle, TransposeBlocks, Unpack}
    assert wanted <= kinds
    assert kinds & {Or, ShiftLeft}


def spoilt(step: Step) -> Step | None:
    """The step, doing something else."""
    match step:
        case SublaneShuffle():
            return replace(step, pattern=(*step.pattern[1:], step.pattern[0]))
        case RotateLanes():
            return replace(step, amount=step.amount + 1)
        case GatherLanes():
            constant, *factors = step.index.base
            return replace(step, index=replace(step.index, base=(constant + 1, *factors)))
        case Select() if step.mask.first is not None:
            return replace(step, mask=replace(step.mask, first=step.mask.first + 1))
        case Select():
            return replace(step, mask=Mask(()))
        case ShiftLeft():
            return replace(step, amount=step.amount + 1)
        case _:
            return None


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_both_checks_see_the_same_errors(move: Move):
    made = plan(move, V5E)
    others = wrong = 0
    for number, step in [*enumerate(made.steps)][:: len(made.steps) // 25 + 1]:
        other = spoilt(step)
        if other is not None:
            steps = (*made.steps[:number], other, *made.steps[number + 1 :])
            bad: Plan = replace(made, steps=steps)
            right = performs(bad, move, ALL_LANES)
            assert performs_at(bad, move, every(move)) == right
            others, wrong = others + 1, wrong + (not right)
    assert wrong or not others


def test_index_registers_by_table():
    table = np.array([2, 0, 0, 1])
    field = Field.by_table((1, 8, 0, 1), 128, table)
    assert (field.registers, field.array()[1, 0, 3]) == (3, 12)
    register, sublane, lane = np.array([0, 1, 3]), np.zeros(3, np.int64), np.array([0, 127, 5])
    assert field.at(register, sublane, lane).tolist() == [17, 0, 14]
    twice = field.repeated(2).numbers()
    assert twice is not None
    assert twice.tolist() == [*table, *table]
    mask = Mask((), field, 0, 4)
    assert mask.array()[1, 0, 12:14].tolist() == [False, False]
    assert mask.at(register, sublane, lane).tolist() == [False, True, False]


def test_a_table_of_one_is_none():
    assert Field.by_table((1, 8, 0, 1), 128, np.zeros(4, np.int64)) == Field((1, 0, 0, 1), (), 128)


GRID = Value((3, 4, 5), 1)
RENAMED = {
    "slice": (GridSlice((0,), (1, 0, 1), (2, 2, 2), (1, 3, 2)), [GRID]),
    "transpose": (GridTranspose((0,), (2, 0, 1)), [GRID]),
    "broadcast": (GridBroadcast((0,), (2, 4, 3, 5)), [Value((4, 1, 5), 1)]),
    "concat": (GridConcat((0, 1, 2), 1), [GRID, Value((3, 1, 5), 1), GRID]),
    "take": (GridTake.of(0, np.array([7, -1, 59, 0]), (4,)), [GRID]),
}


@pytest.mark.parametrize(("step", "operands"), RENAMED.values(), ids=RENAMED)
def test_registers_come_from_where_numpy_says(step: Step, operands: list[Value]):
    numbers = [np.arange(v.registers).reshape(v.grid) for v in operands]
    match step:
        case GridSlice():
            expected = [numbers[0][1:3, 0:4:3, 1:4:2]]
        case GridTranspose():
            expected = [numbers[0].transpose(step.permutation)]
        case GridBroadcast():
            expected = [np.broadcast_to(numbers[0], step.shape)]
        case GridTake():
            expected = [step.numbers()]
        case _:
            expected = [
                np.concatenate([x if i == j else x * 0 - 1 for j, x in enumerate(numbers)], 1)
                for i in range(len(numbers))
            ]
    value = operands[0].on(expected[0].shape)
    flat = [e.reshape(-1) for e in expected]
    found = origins(step, operands, value)
    assert found is not None
    np.testing.assert_array_equal(np.stack(found), np.stack(flat))
    some = np.array([3, 1, 2, 3])
    found = origins_of(step, operands, value, some)
    assert found is not None
    np.testing.assert_array_equal(np.stack(found), np.stack([f[some] for f in flat]))


@pytest.mark.parametrize(("row", "column"), [(None, 0), (0, None), (None, None)])
def test_copies_along_replicated_axes_are_checked(row: int | None, column: int | None):
    """Registers that hold an element in the first row and lane only are not replicated."""
    for bits, shape in ((32, (1, 1)), (8, (3, 1, 1))):
        native = VectorLayout.native(len(shape), bits)
        spread = VectorLayout.native(len(shape), bits, row, column)
        move = Move.relayout(native, shape, spread)
        one = plan(Move.relayout(native, shape, native), V5E)
        assert not performs_at(one, move, every(move))
        assert performs_at(plan(move, V5E), move, every(move))
