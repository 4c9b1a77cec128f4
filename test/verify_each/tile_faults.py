"""Wrong rules of `vectors-to-tiles`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pytest import MonkeyPatch

from pallasite.dialects import arith, grid
from pallasite.layouts import plan as plans
from pallasite.lowering.vectors_to_tiles import (
    casts,
    converter,
    loading,
    masks,
    matmul,
    reduce,
    rotate,
    rules,
    stores,
    strided,
)

from .faults import fault
from .kernels import argument, kernel, store_at

rules.load()

PASS = "vectors-to-tiles"
COPY = kernel(
    [argument("x:16x256xf32"), argument("o:16x256xf32")],
    """
    LOAD %a, x
    STORE %a, o
    """,
)
ROW_SUM = kernel(
    [argument("x:8x200xf32"), argument("o:8x1xf32")],
    """
    LOAD %a, x
    %n = arith.constant dense<0.0> : vector<8xf32>
    %s = vector.multi_reduction <add>, %a, %n [1] : vector<8x200xf32> to vector<8xf32>
    %c = vector.shape_cast %s : vector<8xf32> to vector<8x1xf32>
    STORE %c, o
    """,
)
COLUMN_MAX = kernel(
    [argument("x:20x128xf32"), argument("o:1x128xf32")],
    """
    LOAD %a, x
    %n = arith.constant dense<0xFF800000> : vector<128xf32>
    %s = vector.multi_reduction <maximumf>, %a, %n [0] : vector<20x128xf32> to vector<128xf32>
    %c = vector.shape_cast %s : vector<128xf32> to vector<1x128xf32>
    STORE %c, o
    """,
)
PART = kernel(
    [argument("x:5x100xf32"), argument("o:8x128xf32")],
    f"""
    %n = arith.constant dense<0.0> : vector<8x128xf32>
    STORE %n, o
    LOAD %a, x
    {store_at("%a", argument("o:8x128xf32"), "vector<5x100xf32>")}
    """,
)
NARROWED = kernel(
    [argument("x:32x128xf32"), argument("o:32x128xbf16")],
    """
    LOAD %a, x
    %b = arith.truncf %a : vector<32x128xf32> to vector<32x128xbf16>
    STORE %b, o
    """,
)
WIDENED = kernel(
    [argument("x:32x128xi8"), argument("o:32x128xi32")],
    """
    LOAD %a, x
    %b = arith.extsi %a : vector<32x128xi8> to vector<32x128xi32>
    STORE %b, o
    """,
)
IOTA = kernel(
    [argument("x:8x256xi32"), argument("o:8x256xi32")],
    """
    LOAD %a, x
    %i = tpu.iota {dimensions = array<i32: 1>} : vector<8x256xi32>
    %b = arith.addi %a, %i : vector<8x256xi32>
    STORE %b, o
    """,
)
ROLLED = kernel(
    [argument("x:16x256xf32"), argument("o:16x256xf32")],
    """
    LOAD %a, x
    %three = arith.constant 3 : i32
    %b = tpu.dynamic_rotate %a by %three dim 1 : vector<16x256xf32>, i32 -> vector<16x256xf32>
    %c = tpu.dynamic_rotate %b by %three dim 0 : vector<16x256xf32>, i32 -> vector<16x256xf32>
    STORE %c, o
    """,
)
TURNED = kernel(
    [argument("x:8x512xf32", (32, 512), "%i, %c0"), argument("o:8x512xf32", (32, 512), "%i, %c0")],
    """
    LOAD %a, x
    %b = tpu.dynamic_rotate %a by %i dim 1 : vector<8x512xf32>, i32 -> vector<8x512xf32>
    STORE %b, o
    """,
    grid=(4,),
)
PRODUCT = kernel(
    [argument("x:8x100xf32"), argument("y:100x128xf32"), argument("o:8x128xf32")],
    """
    LOAD %a, x
    LOAD %b, y
    %n = arith.constant dense<0.0> : vector<8x128xf32>
    %c = tpu.matmul %a, %b, %n {dimension_numbers =
        #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>,
        transpose_lhs_hint = false}
        : vector<8x100xf32>, vector<100x128xf32>, vector<8x128xf32> -> vector<8x128xf32>
    STORE %c, o
    """,
)
PACKED_MASK = kernel(
    [argument("x:16x128xf32"), argument("y:16x128xbf16"), argument("o:16x128xbf16")],
    """
    LOAD %a, x
    LOAD %b, y
    %n = arith.constant dense<0.0> : vector<16x128xf32>
    %z = arith.constant dense<0.0> : vector<16x128xbf16>
    %m = arith.cmpf olt, %a, %n : vector<16x128xf32>
    %c = arith.select %m, %b, %z : vector<16x128xi1>, vector<16x128xbf16>
    STORE %c, o
    """,
)
STRIDED = kernel(
    [argument("x:16x128xf32"), argument("o:8x128xf32")],
    f"""
    %a = tpu.strided_load %x[%c0, %c0] {{strides = array<i32: 2, 1>}}
        : {argument("x:16x128xf32").memref}, vector<8x128xf32>
    STORE %a, o
    """,
)


@fault(PASS, COPY)
def second_register_of_a_load_is_the_first(patch: MonkeyPatch) -> None:
    right = loading.load_registers

    def load(plan: Any, *rest: Any) -> Any:
        return right(dataclasses.replace(plan, steps=(*plan.steps[:-1], 0)), *rest)

    patch.setattr(loading, "load_registers", load)


@fault(PASS, ROW_SUM)
def neutral_element_of_a_sum_is_one(patch: MonkeyPatch) -> None:
    patch.setattr(reduce, "neutral_value", lambda *_: 1)


@fault(PASS, ROW_SUM)
def mask_of_a_sum_is_a_lane_short(patch: MonkeyPatch) -> None:
    right = reduce._masked

    def masked(value: Any, axis: int, low: int, high: int, neutral: Any, c: Any) -> Any:
        return right(value, axis, low, high - 1, neutral, c)

    patch.setattr(reduce, "_masked", masked)


@fault(PASS, COLUMN_MAX)
def padding_joins_a_maximum(patch: MonkeyPatch) -> None:
    def filled(source: Any, held: Any, c: Any) -> Any:
        rows, *rest = held.shape
        return replace(held, shape=(-(-rows // 8) * 8, *rest))

    patch.setattr(reduce, "_filled", filled)


@fault(PASS, COLUMN_MAX)
def maximum_folds_registers_by_minimum(patch: MonkeyPatch) -> None:
    patch.setattr(reduce, "combiner", lambda *_, **__: arith.MinimumfOp)


@fault(PASS, PART)
def stored_box_is_a_row_and_a_lane_short(patch: MonkeyPatch) -> None:
    right = stores.classes
    patch.setattr(
        stores, "classes", lambda offset, extent, block, end: right(offset, extent - 1, block, end)
    )


@fault(PASS, PART)
def stored_lanes_are_one_too_many(patch: MonkeyPatch) -> None:
    right = stores._lane_mask
    patch.setattr(
        stores, "_lane_mask", lambda low, high, blocks, c: right(low, high + 1, blocks, c)
    )


@fault(PASS, NARROWED)
def halves_are_packed_in_the_wrong_order(patch: MonkeyPatch) -> None:
    right = casts.deal
    patch.setattr(casts, "deal", lambda *given: right(*given)[::-1])


@fault(PASS, WIDENED)
def quarters_are_unpacked_in_the_wrong_order(patch: MonkeyPatch) -> None:
    right = casts.interleave
    patch.setattr(casts, "interleave", lambda parts, shape, c: right(parts[::-1], shape, c))


@fault(PASS, WIDENED)
def sign_is_not_extended(patch: MonkeyPatch) -> None:
    patch.setattr(casts, "_unsigned", lambda _: True)


@fault(PASS, IOTA)
def registers_count_half_their_lanes(patch: MonkeyPatch) -> None:
    right = grid.PositionOp.__init__
    patch.setattr(
        grid.PositionOp, "__init__", lambda op, dim, step, kind: right(op, dim, step // 2, kind)
    )


def with_steps(change: Callable[[Any], Any]) -> Callable[[MonkeyPatch], None]:
    """Breaks the steps of planned movements behind the planner's own check."""

    def plant(patch: MonkeyPatch) -> None:
        right = converter.plan

        def broken(*given: Any) -> Any:
            made = right(*given)
            return dataclasses.replace(made, steps=tuple(map(change, made.steps)))

        patch.setattr(converter, "plan", broken)

    return plant


@fault(PASS, ROLLED)
def planned_rotation_is_off_by_one(patch: MonkeyPatch) -> None:
    def change(step: Any) -> Any:
        if isinstance(step, plans.RotateLanes):
            return dataclasses.replace(step, amount=(step.amount + 1) % 128)
        return step

    with_steps(change)(patch)


@fault(PASS, ROLLED)
def planned_shuffle_swaps_two_sublanes(patch: MonkeyPatch) -> None:
    def change(step: Any) -> Any:
        if isinstance(step, plans.SublaneShuffle):
            first, second, *rest = step.pattern
            return dataclasses.replace(step, pattern=(second, first, *rest))
        return step

    with_steps(change)(patch)


@fault(PASS, ROLLED)
def planned_select_swaps_its_sides(patch: MonkeyPatch) -> None:
    def change(step: Any) -> Any:
        if isinstance(step, plans.Select):
            return dataclasses.replace(step, operands=step.operands[::-1])
        return step

    with_steps(change)(patch)


@fault(PASS, TURNED)
def lanes_from_the_neighbour_register_are_forgotten(patch: MonkeyPatch) -> None:
    right = rotate._below

    def below(axis: int, bound: Any, kind: Any, c: Any) -> Any:
        return right(axis, c.constant_i32(0), kind, c)

    patch.setattr(rotate, "_below", below)


@fault(PASS, PRODUCT)
def padding_joins_a_product(patch: MonkeyPatch) -> None:
    patch.setattr(matmul, "zero_padding", lambda held, dim, c: held.grid)


@fault(PASS, PACKED_MASK)
def halves_of_a_mask_are_swapped(patch: MonkeyPatch) -> None:
    right = masks.deal
    patch.setattr(masks, "deal", lambda *given: right(*given)[::-1])


@fault(PASS, STRIDED)
def stride_of_a_load_is_ignored(patch: MonkeyPatch) -> None:
    def replace(plan: Any, **changes: Any) -> Any:
        return dataclasses.replace(plan, **{**changes, "sublane_stride": 1})

    patch.setattr(strided, "replace", replace)
