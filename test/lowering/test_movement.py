"""Emitted movement plans, executed by the meanings of their operations."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects import test as test_dialect
from xdsl.dialects.builtin import IntegerType, ModuleOp, bf16, f32, i1, i8, i16, i32
from xdsl.ir import Operation, SSAValue

from pallasite.interpreter.facts import Facts
from pallasite.interpreter.meanings import lookup
from pallasite.interpreter.values import carrier, poison, quiet
from pallasite.layouts.move import Move, Repeat, Reshape, Slice
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.planner import plan
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.movement import emit
from pallasite.lowering.vectors_to_tiles.tiled import grid_type
from pallasite.targets import get_target

from ..layouts import moving

EXAMPLES = 60 * int(os.environ.get("PALLASITE_EXAMPLES", "1"))
"""How many random movements; the variable asks for a multiple (docs/internals/testing.md)."""
TYPES = {32: [f32, i32], 16: [bf16, i16], 8: [i8], 4: [IntegerType(4)]}


def run(ops: list[Operation], inputs: dict[SSAValue, Any], facts: Facts) -> dict[SSAValue, Any]:
    values = dict(inputs)
    with quiet():
        for op in ops:
            op.verify()
            meaning = lookup(op)
            assert meaning is not None, op.name
            values[op.results[0]] = meaning.factory(op, facts)(*(values[v] for v in op.operands))
    return values


def check(case, target: str, element: Any, seed: int) -> None:
    move = case.move
    grids = [grid_type(layout, shape, element) for layout, shape in move.sources]
    holder = test_dialect.TestOp(result_types=grids)
    ops: list[Operation] = []

    def insert(op: Operation) -> SSAValue:
        ops.append(op)
        return op.results[0]

    result = emit(plan(move, Costs.of(get_target(target))), holder.results, insert)
    layout, shape = move.destination
    assert result.type == grid_type(layout, shape, element)

    rng = np.random.default_rng(seed)
    kind = carrier(element)
    arrays = [
        (rng.integers(-8, 8, s) % 2 if element == i1 else rng.integers(-8, 8, s)).astype(kind)
        for _, s in move.sources
    ]
    expected = moving.place(move.destination, case.meaning(*arrays).astype(np.float64), np.nan)
    for pattern in (0, 1):
        inputs = {}
        for value, source, array in zip(holder.results, move.sources, arrays, strict=True):
            full = poison(element, grid_type(*source, element).get_shape(), pattern)
            held = moving.place(source, array.astype(np.float64), np.nan)
            inputs[value] = np.where(np.isnan(held), full, np.nan_to_num(held).astype(kind)).astype(
                kind
            )
        values = run(ops, inputs, Facts(get_target(target), pattern))
        with np.errstate(invalid="ignore"):  # poison may be a signalling NaN
            actual = np.asarray(values[result] if ops else inputs[result]).astype(np.float64)
        actual = np.where(np.isnan(expected), np.nan, actual)
        np.testing.assert_array_equal(actual, expected, str(move))


@settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(moving.cases(3000), st.sampled_from(["v4", "v5e", "v6e"]), st.integers(0, 3))
def test_any_movement(case, target: str, seed: int):
    element = TYPES[case.move.bits][seed % len(TYPES[case.move.bits])]
    check(case, target, element, seed)


def test_transposed_pieces_of_which_a_check_looks_at_none():
    """The first registers of the result come from the pieces that are not transposed."""
    rows, turned = VectorLayout(16, 1, 2), VectorLayout(16, 0, 1)
    move = Move(
        ((rows, (2, 2, 2)), (turned, (2, 2, 2)), (rows, (64, 2, 2))), (rows, (68, 2, 2)),
        concat_dim=0,
    )  # fmt: skip
    check(moving.Case(move, lambda *x: np.concatenate(x)), "v4", bf16, 0)


def test_copies_behind_which_the_source_begins_anew():
    """What lies between two registers that are planned goes back in the source, not on."""
    rows = VectorLayout(32, 1, 2, row=7)
    step = Repeat((9, 100, 2), (18, 200, 2))
    move = Move(((rows, (9, 100, 2)),), (rows, (18, 200, 2)), (step,))
    check(moving.Case(move, lambda x: np.tile(x, (2, 2, 1))), "v4", f32, 0)


@pytest.mark.parametrize(("bits", "target"), [(32, "v4"), (8, "v5e"), (16, "v6e")])
def test_rows_cut_anew(bits: int, target: str):
    layout = VectorLayout.native(2, bits)
    move = Move.reshape((layout, (190, 162)), layout, (171, 180))
    assert "chunks" in plan(move, Costs.of(get_target(target))).how
    check(moving.Case(move, lambda x: x.reshape(171, 180)), target, TYPES[bits][0], 0)


@pytest.mark.parametrize("target", ["v4", "v5e"])
@pytest.mark.parametrize(
    ("source", "shape"),
    [((40, 205, 4), (1025, 32)), ((16, 580), (464, 5, 4)), ((24, 2070), (1380, 36))],
    ids=str,
)
def test_short_rows_cut_anew(source: tuple[int, ...], shape: tuple[int, ...], target: str):
    """Also as copies of one that has index registers by a table."""
    laid = VectorLayout.native(len(source), 32), source
    move = Move.reshape(laid, VectorLayout.native(len(shape), 32), shape)
    assert "chunks" in plan(move, Costs.of(get_target(target))).how
    check(moving.Case(move, lambda x: x.reshape(shape)), target, f32, 0)


@pytest.mark.parametrize("target", ["v4", "v5e"])
@pytest.mark.parametrize(
    ("bits", "shape", "permutation"),
    [
        (16, (20, 17, 200), (1, 0, 2)),
        (16, (20, 32, 128), (2, 0, 1)),
        (16, (3, 5, 24, 64), (1, 2, 0, 3)),
        (8, (32, 33, 130), (1, 0, 2)),
        (8, (5, 16, 64), (1, 0, 2)),
        (4, (16, 40, 64), (1, 0, 2)),
    ],
    ids=str,
)
def test_elements_of_a_word_from_several_registers(
    bits: int, shape: tuple[int, ...], permutation: tuple[int, ...], target: str
):
    """Also where the plan of few registers is repeated."""
    layout = VectorLayout.native(len(shape), bits)
    move = Move.transpose((layout, shape), layout, permutation)
    assert "pairs" in (how := plan(move, Costs.of(get_target(target))).how) or "pack" in how
    check(moving.Case(move, lambda x: x.transpose(permutation)), target, TYPES[bits][0], 0)


@pytest.mark.parametrize(
    ("bits", "target", "each"), [(8, "v4", 6), (8, "v5e", 6), (4, "v4", 9), (4, "v6e", 9)]
)
def test_registers_exchange_elements_of_words(bits: int, target: str, each: int):
    """Two results of two registers share work, or half words are packed."""
    shape = (256 // bits, 256 // bits, 128)
    layout = VectorLayout.native(3, bits)
    move = Move.transpose((layout, shape), layout, (1, 0, 2))
    made = plan(move, Costs.of(get_target(target)))
    assert made.count()["Interleave"] == each * layout.register_count(shape)
    check(moving.Case(move, lambda x: x.transpose((1, 0, 2))), target, TYPES[bits][0], 0)


@pytest.mark.parametrize("target", ["v4", "v5e"])
@pytest.mark.parametrize(
    "shape", [(8, 200, 20), (12, 64, 20), (10, 43, 20), (16, 40, 130)], ids=str
)
def test_rows_are_exchanged_in_few_stages(shape: tuple[int, int, int], target: str):
    """Registers any distance apart, lanes that do not matter, groups that lack registers."""
    layout = VectorLayout.native(3, 32)
    move = Move.transpose((layout, shape), layout, (1, 0, 2))
    result = (shape[1], shape[0], shape[2])
    made = plan(move, Costs.of(get_target(target)))
    assert made.instructions <= 5.2 * layout.register_count(result)
    check(moving.Case(move, lambda x: x.transpose((1, 0, 2))), target, f32, 0)


@pytest.mark.parametrize("target", ["v4", "v5e"])
@pytest.mark.parametrize(
    ("bits", "source", "shape"),
    [
        (8, (2, 32, 128), (2, 32, 64, 2)),
        (16, (64, 256), (64, 4, 64)),
        (16, (100, 96), (100, 24, 4)),
        (4, (64, 256), (64, 16, 16)),
        (16, (33, 2048), (33, 64, 32)),
        (16, (16, 16), (16, 4, 4)),
        (8, (64, 128), (64, 4, 32)),
    ],
    ids=str,
)
def test_lanes_split_into_rows(
    bits: int, source: tuple[int, ...], shape: tuple[int, ...], target: str
):
    """Elements of one row are packed together before they move: as words, not one by one."""
    laid = VectorLayout.native(len(source), bits), source
    move = Move.reshape(laid, VectorLayout.native(len(shape), bits), shape)
    assert "unpack" not in plan(move, Costs.of(get_target(target))).how
    check(moving.Case(move, lambda x: x.reshape(shape)), target, TYPES[bits][0], 0)


@pytest.mark.parametrize(
    ("bits", "shape", "permutation", "target"),
    [
        (32, (2, 32, 4, 8), (1, 0, 3, 2), "v5e"),
        (32, (16, 8, 128), (2, 1, 0), "v4"),
        (32, (12, 30, 100), (2, 1, 0), "v6e"),
        (16, (12, 4, 256), (2, 0, 1), "v6e"),
    ],
    ids=str,
)
def test_small_matrices_share_a_transposed_block(
    bits: int, shape: tuple[int, ...], permutation: tuple[int, ...], target: str
):
    layout = VectorLayout.native(len(shape), bits)
    move = Move.transpose((layout, shape), layout, permutation)
    assert plan(move, Costs.of(get_target(target))).how.startswith("stack, transpose")
    check(moving.Case(move, lambda x: x.transpose(permutation)), target, TYPES[bits][0], 0)


@pytest.mark.parametrize(("bits", "target"), [(16, "v4"), (16, "v5e"), (8, "v5e")])
def test_words_move_before_their_elements_part(bits: int, target: str):
    layout = VectorLayout.native(3, bits)
    flat = VectorLayout.native(2, bits)
    move = Move.reshape((layout, (64, 2, 128)), flat, (64, 256))
    assert plan(move, Costs.of(get_target(target))).how == "pack"
    check(moving.Case(move, lambda x: x.reshape(64, 256)), target, TYPES[bits][0], 0)


@pytest.mark.parametrize(
    ("bits", "shape", "result", "target"),
    [
        (32, (16, 12, 40), (16, 480), "v5e"),
        (32, (24, 300), (24, 3, 100), "v4"),
        (16, (16, 12, 40), (16, 480), "v6e"),
        (16, (50, 150), (50, 3, 50), "v5e"),
        (8, (2, 20, 3, 40), (2, 20, 120), "v5e"),
        (4, (64, 4, 32), (64, 128), "v6e"),
    ],
    ids=str,
)
def test_rows_change_before_or_after_they_are_cut(
    bits: int, shape: tuple[int, ...], result: tuple[int, ...], target: str
):
    laid = VectorLayout.native(len(shape), bits), shape
    move = Move.reshape(laid, VectorLayout.native(len(result), bits), result)
    made = plan(move, Costs.of(get_target(target)))
    assert made.how.startswith("rows apart")
    check(moving.Case(move, lambda x: x.reshape(result)), target, TYPES[bits][0], 0)


def test_rows_change_apart_of_a_part():
    """Rows that begin within a word, and in another register than those of the result."""
    layout = VectorLayout.native(3, 16)
    reshape = Reshape((32, 12, 40), (32, 480))
    part = Slice((17, 480), (9, 0), (1, 1))
    flat = VectorLayout.native(2, 16, 3)
    move = Move(((layout, (32, 12, 40)),), (flat, (17, 480)), (reshape, part))
    assert "rows apart" in plan(move, Costs.of(get_target("v5e"))).how
    check(moving.Case(move, lambda x: x.reshape(32, 480)[9:26]), "v5e", TYPES[16][0], 0)


@pytest.mark.parametrize("bits", [32, 16])
@pytest.mark.parametrize(
    ("move", "meaning"),
    [
        (lambda n: Move.slice((n, (24, 300)), n, (5, 111), (9, 70)), lambda x: x[5:14, 111:181]),
        (lambda n: Move.transpose((n, (24, 300)), n, (1, 0)), lambda x: x.T),
        (lambda n: Move.roll((n, (24, 300)), n, 0, 1), lambda x: np.roll(x, 1, 0)),
    ],
)
def test_masks(bits: int, move, meaning):
    layout = VectorLayout.native(2, bits)
    check(moving.Case(move(layout), meaning), "v5e", i1, 0)


def test_renaming_a_mask_keeps_it_a_mask():
    layout = VectorLayout.native(2, 32)
    case = moving.Case(
        Move.slice((layout, (64, 256)), layout, (8, 128), (16, 128)), lambda x: x[8:24, 128:]
    )
    check(case, "v5e", i1, 0)


def test_prints_as_a_module():
    layout = VectorLayout.native(2, 32)
    move = Move.slice((layout, (256, 1024)), layout, (5, 111), (200, 700))
    holder = test_dialect.TestOp(result_types=[grid_type(layout, (256, 1024), f32)])
    module = ModuleOp([holder])

    def insert(op: Operation) -> SSAValue:
        module.body.block.add_op(op)
        return op.results[0]

    emit(plan(move, Costs.of(get_target("v6e"))), holder.results, insert)
    module.verify()
    names = [op.name for op in module.body.block.ops]
    assert names.count("tpu.sublane_shuffle") == 1
    assert names.count("tpu.dynamic_rotate") == 1
    assert names.count("arith.select") == 2
    assert len(names) < 40
