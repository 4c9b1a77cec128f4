"""Wrong rules of `fold-kernel` and `canonicalize-mosaic`."""

from __future__ import annotations

import numpy as np
from pytest import MonkeyPatch

from pallasite.dialects import arith
from pallasite.passes import fold_ranges, ranges
from pallasite.passes.canonicalize_mosaic import (
    broadcasts,
    conversions,
    driver,
    folding,
    rules,
    selects,
)
from pallasite.passes.fold_kernel import driver as fold_driver
from pallasite.passes.fold_kernel import floats, loops
from pallasite.passes.fold_kernel import rules as fold_rules

from .faults import fault
from .kernels import argument, kernel

rules.load()
fold_rules.load()

SCALED = kernel(
    [argument("x:8x128xi32", (32, 128), "%i, %c0"), argument("o:8x128xi32", (32, 128), "%i, %c0")],
    """
    %three = arith.constant 3 : i32
    %k = arith.muli %i, %three : i32
    %b = vector.broadcast %k : i32 to vector<8x128xi32>
    LOAD %a, x
    %c = arith.addi %a, %b : vector<8x128xi32>
    STORE %c, o
    """,
    grid=(4,),
)
ROWS = kernel(
    [argument("x:8x128xi32"), argument("o:8x128xi32")],
    """
    LOAD %a, x
    %i = tpu.iota {dimensions = array<i32: 0>} : vector<8x128xi32>
    %seven = arith.constant dense<7> : vector<8x128xi32>
    %four = arith.constant dense<4> : vector<8x128xi32>
    %m = arith.cmpi slt, %i, %seven : vector<8x128xi32>
    %q = arith.divsi %i, %four : vector<8x128xi32>
    %c = arith.addi %a, %q : vector<8x128xi32>
    %b = arith.select %m, %c, %q : vector<8x128xi1>, vector<8x128xi32>
    STORE %b, o
    """,
)
UNSIGNED = kernel(
    [argument("x:32x128xi32"), argument("o:32x128xi16")],
    """
    LOAD %a, x
    %low = arith.trunci %a : vector<32x128xi32> to vector<32x128xi8>
    %b = arith.extui %low : vector<32x128xi8> to vector<32x128xi16>
    STORE %b, o
    """,
)
SIGNED = kernel(
    [argument("x:32x128xi32"), argument("o:32x128xi16")],
    """
    LOAD %a, x
    %low = arith.trunci %a : vector<32x128xi32> to vector<32x128xi8>
    %b = arith.extsi %low : vector<32x128xi8> to vector<32x128xi16>
    STORE %b, o
    """,
)
TRUNCATED = kernel(
    [argument("x:8x128xf32"), argument("o:8x128xi32")],
    """
    LOAD %a, x
    %b = arith.fptosi %a : vector<8x128xf32> to vector<8x128xi32>
    STORE %b, o
    """,
)
CONSTANTS = kernel(
    [argument("x:8x128xf32"), argument("o:8x128xf32")],
    """
    LOAD %a, x
    %two = arith.constant dense<2.0> : vector<8x128xf32>
    %three = arith.constant dense<3.0> : vector<8x128xf32>
    %six = arith.mulf %two, %three : vector<8x128xf32>
    %b = arith.addf %a, %six : vector<8x128xf32>
    STORE %b, o
    """,
)
SAME = kernel(
    [argument("x:8x128xf32"), argument("o:8x128xf32")],
    """
    LOAD %a, x
    %b = arith.addf %a, %a : vector<8x128xf32>
    STORE %b, o
    """,
)
SHORT = kernel(
    [argument("x:8x128xf32"), argument("o:8x128xf32")],
    """
    LOAD %a, x
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %b = scf.for %k = %zero to %two step %one iter_args(%c = %a) -> (vector<8x128xf32>) : i32 {
      %d = arith.addf %c, %a : vector<8x128xf32>
      scf.yield %d : vector<8x128xf32>
    }
    STORE %b, o
    """,
)
SPREAD = kernel(
    [argument("x:8x128xf32"), argument("o:8x128xf32")],
    """
    LOAD %a, x
    %two = arith.constant 2.0 : f32
    %b = vector.broadcast %two : f32 to vector<8x128xf32>
    %c = arith.mulf %a, %b : vector<8x128xf32>
    STORE %c, o
    """,
)
THRICE = kernel(
    [argument("x:8x128xf32"), argument("o:8x128xf32")],
    """
    LOAD %a, x
    %three = arith.constant dense<3.0> : vector<8x128xf32>
    %c = arith.mulf %a, %three : vector<8x128xf32>
    STORE %c, o
    """,
)
MASKS = kernel(
    [argument("x:8x128xf32"), argument("y:8x128xf32"), argument("o:8x128xf32")],
    """
    LOAD %a, x
    LOAD %b, y
    %zero = arith.constant dense<0.0> : vector<8x128xf32>
    %p = arith.cmpf olt, %a, %zero : vector<8x128xf32>
    %q = arith.cmpf olt, %b, %zero : vector<8x128xf32>
    %r = arith.cmpf olt, %a, %b : vector<8x128xf32>
    %m = arith.select %p, %q, %r : vector<8x128xi1>, vector<8x128xi1>
    %c = arith.select %m, %a, %b : vector<8x128xi1>, vector<8x128xf32>
    STORE %c, o
    """,
)
ROUNDED = kernel(
    [argument("x:16x128xf32"), argument("o:16x128xf32")],
    """
    LOAD %a, x
    %b = arith.truncf %a : vector<16x128xf32> to vector<16x128xbf16>
    %c = arith.extf %b : vector<16x128xbf16> to vector<16x128xf32>
    STORE %c, o
    """,
)


@fault("canonicalize-mosaic", SCALED)
def product_by_three_is_folded(patch: MonkeyPatch) -> None:
    patch.setitem(folding._NEUTRAL, arith.MuliOp, 3)


@fault("canonicalize-mosaic", UNSIGNED)
def unsigned_numbers_widen_with_sign(patch: MonkeyPatch) -> None:
    right = driver.Legalizer.to_i32
    patch.setattr(driver.Legalizer, "to_i32", lambda self, value, signed=True: right(self, value))


@fault("canonicalize-mosaic", SIGNED)
def sign_is_lost_on_the_way_through_words(patch: MonkeyPatch) -> None:
    right = driver.Legalizer.to_i32
    patch.setattr(
        driver.Legalizer, "to_i32", lambda self, value, signed=True: right(self, value, False)
    )


@fault("canonicalize-mosaic", TRUNCATED)
def conversion_to_integer_rounds_to_nearest(patch: MonkeyPatch) -> None:
    patch.setattr(conversions, "_mode_of", lambda op: driver.NEAREST)


@fault("fold-kernel", CONSTANTS)
def product_of_constants_is_their_sum(patch: MonkeyPatch) -> None:
    patch.setitem(floats._CONSTANTS, arith.MulfOp, np.add)


@fault("fold-kernel", SAME)
def sum_of_same_is_one_of_them(patch: MonkeyPatch) -> None:
    patch.setitem(fold_driver.KERNEL.of, arith.AddfOp, [floats.fold_extremum_of_same])


@fault("fold-kernel", SHORT)
def last_iteration_is_left_out(patch: MonkeyPatch) -> None:
    # As if the loop's last number belonged to it.
    right = loops.integer
    patch.setattr(loops, "integer", lambda value: 1 if right(value) == 2 else right(value))


@fault("fold-ranges", ROWS)
def last_row_is_forgotten(patch: MonkeyPatch) -> None:
    right = ranges._below
    patch.setattr(
        ranges, "_below", lambda a, b: (a.high is not None and a.high == b.low) or right(a, b)
    )


@fault("fold-ranges", ROWS)
def shift_is_by_the_divisor(patch: MonkeyPatch) -> None:
    right = fold_ranges.integer
    patch.setattr(fold_ranges, "integer", lambda v: 8 if right(v) == 4 else right(v))


@fault("canonicalize-mosaic", SPREAD)
def broadcast_constant_is_zero(patch: MonkeyPatch) -> None:
    right = broadcasts.splat
    patch.setattr(broadcasts, "splat", lambda kind, _: right(kind, 0.0))


@fault("canonicalize-mosaic", MASKS)
def select_of_masks_swaps_its_sides(patch: MonkeyPatch) -> None:
    right = selects._logic
    patch.setattr(selects, "_logic", lambda mask, a, b, r: right(mask, b, a, r))


@fault("canonicalize-mosaic", ROUNDED)
def rounding_to_bf16_is_left_out(patch: MonkeyPatch) -> None:
    patch.setattr(driver, "_fits", lambda *_: True)


@fault("canonicalize-mosaic", THRICE)
def every_constant_is_two(patch: MonkeyPatch) -> None:
    right = folding.splat_number
    patch.setattr(folding, "splat_number", lambda value: None if right(value) is None else 2)
