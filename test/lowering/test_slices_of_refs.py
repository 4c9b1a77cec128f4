"""Stores of parts and slices of memory leave alone what lies before and behind them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import pallasite

from .memory_kernels import kernel

VMEM = "#tpu.memory_space<vmem>"


def filled_slices(whole: str, part: str, step: int, indices: str, zeros: str) -> str:
    """Copies an array, and fills slices of the copy, whose first elements are known when the kernel
    runs: 3 of them, `step` apart."""
    return f"""%v = vector.load %a[{zeros}] : A, vector<{whole}>
    tpu.vector_store %b[{zeros}], %v {{strides = array<i32>}} : B, vector<{whole}>,
    %o = arith.constant 0 : i32
    %s = arith.constant 1 : i32
    %h = arith.constant 3 : i32
    %t = arith.constant {step} : i32
    %k = arith.constant dense<77.0> : vector<{part}>
    scf.for %n = %o to %h step %s : i32 {{
      %i = arith.muli %n, %t : i32
      %r = tpu.memref_slice %b[{indices}] : memref<{whole}, {VMEM}> -> memref<{part}, {VMEM}>
      tpu.vector_store %r[{zeros}], %k {{strides = array<i32>}} : memref<{part}, {VMEM}>,
          vector<{part}>,
    }}"""


def test_rows_behind_a_slice_stay() -> None:
    """Slices of fewer rows than a tile has."""
    text = filled_slices("32x128xf32", "5x128xf32", 8, "%i, %o", "%z, %z")
    x = np.arange(32 * 128, dtype=np.float32).reshape(32, 128)
    rows = np.arange(32)[:, None]
    expected = np.where((rows % 8 < 5) & (rows < 24), np.float32(77), x)
    (actual,) = pallasite.run(kernel(["32x128xf32"] * 2, text), [x], form="vreg", target="v5e")
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize(("start", "size"), [(1024, 300), (0, 300), (3072, 1024), (2048, 384)])
def test_elements_behind_a_part_stay(start: int, size: int) -> None:
    text = f"""%v = vector.load %a[%z] : A, vector<4096xf32>
    tpu.vector_store %b[%z], %v {{strides = array<i32>}} : B, vector<4096xf32>,
    %n = arith.constant {start} : index
    %k = arith.constant dense<77.0> : vector<{size}xf32>
    tpu.vector_store %b[%n], %k {{strides = array<i32>}} : B, vector<{size}xf32>,"""
    x = np.arange(4096, dtype=np.float32)
    expected = x.copy()
    expected[start : start + size] = 77
    (actual,) = pallasite.run(kernel(["4096xf32"] * 2, text), [x], form="vreg", target="v5e")
    assert np.array_equal(actual, expected)


def test_elements_behind_a_flat_slice_stay() -> None:
    text = filled_slices("4096xf32", "384xf32", 1024, "%i", "%z")
    x = np.arange(4096, dtype=np.float32)
    expected = np.where((x % 1024 < 384) & (x < 3072), np.float32(77), x)
    (actual,) = pallasite.run(kernel(["4096xf32"] * 2, text), [x], form="vreg", target="v5e")
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize(("first", "to"), [(3, 5), (5, 3), (7, 17), (1, 3)])
@pytest.mark.parametrize("columns", [128, 256])
def test_packed_rows_move_by_whole_words(first: int, to: int, columns: int) -> None:
    whole, part = f"64x{columns}xbf16", f"16x{columns}xbf16"
    text = f"""%v = vector.load %a[%z, %z] : A, vector<{whole}>
    tpu.vector_store %b[%z, %z], %v {{strides = array<i32>}} : B, vector<{whole}>,
    %i = arith.constant {first} : index
    %j = arith.constant {to} : index
    %w = vector.load %a[%i, %z] : A, vector<{part}>
    tpu.vector_store %b[%j, %z], %w {{strides = array<i32>}} : B, vector<{part}>,"""
    x = (np.arange(64 * columns).reshape(64, columns) % 251).astype(ml_dtypes.bfloat16)
    expected = x.copy()
    expected[to : to + 16] = x[first : first + 16]
    (actual,) = pallasite.run(kernel([whole, whole], text), [x], form="vreg", target="v5e")
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize("form", ["tiles", "vreg"])
@pytest.mark.parametrize(("rows", "columns"), [(16, 128), (64, 200)])
def test_rows_of_parts_of_one_packed_matrix_of_several(rows: int, columns: int, form: str) -> None:
    """A part that begins within a register, of a matrix that a squeezed view chooses."""
    size, end = rows - 8, f"{columns}xi16"
    whole, part = f"2x{rows}x{end}", f"{size}x{end}"
    views = "\n".join(
        f"""%{n}s = tpu.memref_slice %{n}[%one, %{first}, %zero]
            : memref<{whole}, {VMEM}> -> memref<1x{part}, {VMEM}>
        %{n}v = tpu.memref_squeeze %{n}s : memref<1x{part}, {VMEM}> -> memref<{part}, {VMEM}>"""
        for n, first in (("a", "eight"), ("b", "zero"))
    )
    text = f"""%zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %eight = arith.constant 8 : i32
    %two = arith.constant 2 : index
    %w = vector.load %a[%z, %z, %z] : A, vector<{whole}>
    tpu.vector_store %b[%z, %z, %z], %w {{strides = array<i32>}} : B, vector<{whole}>,
    {views}
    %x = vector.load %av[%two, %z] : memref<{part}, {VMEM}>, vector<{size - 2}x{end}>
    tpu.vector_store %bv[%z, %z], %x {{strides = array<i32>}} : memref<{part}, {VMEM}>,
        vector<{size - 2}x{end}>,"""
    x = np.arange(2 * rows * columns).reshape(2, rows, columns).astype(np.int16)
    expected = x.copy()
    expected[1, : size - 2] = x[1, 10:]
    (actual,) = pallasite.run(kernel([whole, whole], text), [x], form=form, target="v5e")
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize("first, rows", [(8, 16), (8, 24), (24, 16)])
@pytest.mark.parametrize("form", ["mosaic", "tiles", "vreg"])
def test_parts_that_begin_within_tiles_as_words(first: int, rows: int, form: str) -> None:
    whole, part = f"memref<40x256xi16, {VMEM}>", f"memref<{rows}x256xi16, {VMEM}>"
    words, loaded = f"memref<{rows // 2}x256xi32, {VMEM}>", f"vector<{rows // 2}x256xi32>"
    text = f"""%o = arith.constant 0 : i32
    %f = arith.constant {first} : i32
    %s = tpu.memref_slice %a[%f, %o] : {whole} -> {part}
    %w = tpu.memref_bitcast %s : {part} -> {words}
    %x = vector.load %w[%z, %z] : {words}, {loaded}
    tpu.vector_store %b[%z, %z], %x {{strides = array<i32>}} : B, {loaded},"""
    x = np.random.default_rng(0).integers(-999, 999, (40, 256)).astype(np.int16)
    taken = x[first : first + rows].astype(np.int32)
    module = kernel(["40x256xi16", f"{rows // 2}x256xi32"], text)
    (actual,) = pallasite.run(module, [x], form=form, target="v5e")
    assert np.array_equal(np.asarray(actual), (taken[::2] & 0xFFFF) | (taken[1::2] << 16))
