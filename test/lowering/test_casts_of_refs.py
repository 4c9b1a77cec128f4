"""Refs that are cast to what they are already: accesses by both names see the same memory."""

from __future__ import annotations

import numpy as np
import pytest

import pallasite

from .memory_kernels import kernel

REF = "memref<16x256xf32, #tpu.memory_space<vmem>>"
CASTS = {
    "cast": f"memref.cast %m : {REF} to {REF}",
    "space": f"memref.memory_space_cast %m : {REF} to {REF}",
    "layout": f'"tpu.assume_layout"(%m) : ({REF}) -> {REF}',
    "erased": f"tpu.erase_memref_layout %m : {REF} -> {REF}",
}
BLOCK, PART = "vector<16x256xf32>", "vector<8x256xf32>"


@pytest.mark.parametrize("cast", CASTS)
@pytest.mark.parametrize(("rows", "whole"), [("m", "v"), ("v", "m")])
@pytest.mark.parametrize("form", ["tiles", "vreg"])
def test_rows_by_one_name_and_all_by_the_other(cast: str, rows: str, whole: str, form: str) -> None:
    """Rows from any row on want another tiling than the whole does."""
    module = kernel(
        ["16x256xf32", "16x256xf32"],
        f""""tpu.region"() ({{
            %m = memref.alloca() : {REF}
            %v = {CASTS[cast]}
            %three = arith.constant 3 : index
            %x = vector.load %a[%z, %z] : A, {BLOCK}
            tpu.vector_store %m[%z, %z], %x {{strides = array<i32>}} : A, {BLOCK},
            %p = vector.load %{rows}[%three, %z] : A, {PART}
            tpu.vector_store %m[%z, %z], %p {{strides = array<i32>}} : A, {PART},
            %y = vector.load %{whole}[%z, %z] : A, {BLOCK}
            tpu.vector_store %b[%z, %z], %y {{strides = array<i32>}} : B, {BLOCK},
            "tpu.yield"() : () -> ()
        }}) : () -> ()""",
    )
    value = np.arange(16 * 256, dtype=np.float32).reshape(16, 256)
    (actual,) = pallasite.run(module, [value], form=form, allow_beyond_reference=True)
    assert np.array_equal(np.asarray(actual), np.concatenate([value[3:11], value[8:]]))
