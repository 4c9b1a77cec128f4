"""Slices of what is loaded become loads where all that uses it are slices that memory serves."""

from __future__ import annotations

import numpy as np

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
