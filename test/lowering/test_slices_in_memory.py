"""Slices of what is loaded become loads where all that uses it are slices that memory serves."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import pallasite

from .memory_kernels import kernel


def test_rows_behind_a_row_that_nobody_knows() -> None:
    text = """%l = arith.constant 0 : i32
    %h = arith.constant 3 : i32
    %s = arith.constant 1 : i32
    scf.for %k = %l to %h step %s : i32 {
      %i = arith.index_cast %k : i32 to index
      %v = vector.load %a[%i, %z] : A, vector<16x128xf32>
      %w = arith.addf %v, %v : vector<16x128xf32>
      %p = vector.extract_strided_slice %w {offsets = [3, 0], sizes = [8, 128], strides = [1, 1]}
          : vector<16x128xf32> to vector<8x128xf32>
      tpu.vector_store %b[%i, %z], %p {strides = array<i32>} : B, vector<8x128xf32>,
    }"""
    x = np.arange(32 * 128, dtype=np.float32).reshape(32, 128)
    module = kernel(["32x128xf32", "10x128xf32"], text)
    (actual,) = pallasite.run(module, [x], form="vreg", target="v5e")
    assert np.array_equal(actual, 2 * x[3:13])


def test_one_of_the_slices_does_not_name_the_columns() -> None:
    text = """%one = arith.constant 8 : index
    %v = vector.load %a[%z, %z] : A, vector<32x128xf32>
    %p = vector.extract_strided_slice %v {offsets = [3, 0], sizes = [8, 128], strides = [1, 1]}
        : vector<32x128xf32> to vector<8x128xf32>
    %q = vector.extract_strided_slice %v {offsets = [13], sizes = [8], strides = [1]}
        : vector<32x128xf32> to vector<8x128xf32>
    tpu.vector_store %b[%z, %z], %p {strides = array<i32>} : B, vector<8x128xf32>,
    tpu.vector_store %b[%one, %z], %q {strides = array<i32>} : B, vector<8x128xf32>,"""
    x = np.arange(32 * 128, dtype=np.float32).reshape(32, 128)
    module = kernel(["32x128xf32", "16x128xf32"], text)
    (actual,) = pallasite.run(module, [x], form="vreg", target="v5e")
    assert np.array_equal(actual, np.concatenate([x[3:11], x[13:21]]))


def test_sums_of_slices_are_loaded_from_where_they_begin() -> None:
    """One register of each operand is loaded, and added."""
    text = """%x = vector.load %a[%z, %z] : A, vector<16x256xf32>
    %y = vector.load %b[%z, %z] : B, vector<16x256xf32>
    %s = arith.addf %x, %y : vector<16x256xf32>
    %t = vector.extract_strided_slice %s {offsets = [3, 128], sizes = [8, 128], strides = [1, 1]}
        : vector<16x256xf32> to vector<8x128xf32>
    tpu.vector_store %c[%z, %z], %t {strides = array<i32>} : C, vector<8x128xf32>,"""
    module = kernel(["16x256xf32", "16x256xf32", "8x128xf32"], text)
    names = [op.name for op in pallasite.lower(module, form="vreg", target="v5e").walk()]
    assert (names.count("tpu.load"), names.count("arith.addf")) == (2, 1)


def test_what_is_computed_of_constants_and_counts_shrinks_with_the_slice() -> None:
    text = """%x = vector.load %a[%z, %z] : A, vector<24x200xf32>
    %k = arith.constant dense<3.0> : vector<24x200xf32>
    %n = tpu.iota {dimensions = array<i32: 0>} : vector<24x200xi32>
    %f = tpu.sitofp %n {rounding_mode = #tpu.rounding_mode<to_nearest_even>}
        : vector<24x200xi32> -> vector<24x200xf32>
    %y = arith.mulf %x, %k : vector<24x200xf32>
    %w = arith.addf %y, %f : vector<24x200xf32>
    %p = vector.extract_strided_slice %w {offsets = [8, 0], sizes = [8, 200], strides = [1, 1]}
        : vector<24x200xf32> to vector<8x200xf32>
    tpu.vector_store %b[%z, %z], %p {strides = array<i32>} : B, vector<8x200xf32>,"""
    x = np.arange(24 * 200, dtype=np.float32).reshape(24, 200)
    lowered = pallasite.lower(kernel(["24x200xf32", "8x200xf32"], text), form="vreg", target="v5e")
    assert str(lowered).count("arith.mulf") == 2
    (actual,) = pallasite.run(lowered, [x], form="vreg", target="v5e")
    assert np.array_equal(actual, (3 * x + np.arange(24, dtype=np.float32)[:, None])[8:16])


TYPES: dict[str, Any] = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}


def summed(
    element: str, rows: int, size: int, places: list[int], first: str, target: str
) -> tuple[str, NDArray[Any], NDArray[Any]]:
    """The sum of slices of `rows` rows from row `first` on: as lowered, as run, and as expected."""
    whole, part = f"vector<{rows}x256x{element}>", f"vector<{size}x256x{element}>"
    lines = [f"%k = arith.constant {first} : index" if first.isdigit() else first]
    lines.append(f"%x = vector.load %a[%k, %z] : A, {whole}")
    for n, place in enumerate(places):
        lines.append(
            f"%s{n} = vector.extract_strided_slice %x {{offsets = [{place}, 0], "
            f"sizes = [{size}, 256], strides = [1, 1]}} : {whole} to {part}"
        )
    total = "%s0"
    for n in range(1, len(places)):
        lines.append(f"%t{n} = arith.addf {total}, %s{n} : {part}")
        total = f"%t{n}"
    lines.append(f"tpu.vector_store %b[%z, %z], {total} {{strides = array<i32>}} : B, {part},")
    begin = int(first) if first.isdigit() else 0
    held = begin + rows
    module = kernel([f"{held}x256x{element}", f"{size}x256x{element}"], "\n".join(lines))
    lowered = pallasite.lower(module, form="vreg", target=target, allow_beyond_reference=True)
    x = np.random.default_rng(0).integers(-3, 4, (held, 256)).astype(TYPES[element])
    (actual,) = pallasite.run(lowered, [x], form="vreg", target=target)
    parts = [x[begin + place : begin + place + size].astype(np.float32) for place in places]
    return str(lowered), np.asarray(actual), np.add.reduce(parts).astype(TYPES[element])


@pytest.mark.parametrize(("element", "rows", "size", "target"), [
    ("f32", 8, 2, "v5e"), ("f32", 8, 4, "v5e"), ("f32", 16, 4, "v6e"), ("bf16", 16, 4, "v6e"),
    ("bf16", 16, 8, "v6e"), ("bf16", 32, 8, "v7x"),
])  # fmt: skip
def test_parts_that_lie_in_a_small_tile_are_loaded(
    element: str, rows: int, size: int, target: str
) -> None:
    """Memory is tiled so that each slice is one load: of two tiles, one per column of tiles."""
    text, actual, expected = summed(element, rows, size, [*range(0, rows, size)], "0", target)
    np.testing.assert_array_equal(actual, expected)
    assert text.count("tpu.load") == rows // size and "sublane_shuffle" not in text


@pytest.mark.parametrize(("rows", "size", "places", "first"), [
    (16, 4, [0, 4, 12], "4"),  # begins at another tile
    (16, 4, [0, 4, 12], "2"),  # cuts tiles
    (16, 4, [2, 6, 10], "0"),
    (16, 4, [2, 6, 10], "2"),  # and does not cut them
    (16, 3, [4, 8, 12], "0"),
    (16, 6, [4, 8, 10], "0"),
    (8, 2, [6, 6, 2], "0"),
    (16, 2, [6, 14, 2], "0"),
    (16, 1, [6, 15, 2], "0"),
])  # fmt: skip
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_parts_anywhere_in_tiles(
    element: str, rows: int, size: int, places: list[int], first: str
) -> None:
    _, actual, expected = summed(element, rows, size, places, first, "v6e")
    np.testing.assert_array_equal(actual, expected)
