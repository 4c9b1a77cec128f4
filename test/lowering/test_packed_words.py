"""Floats packed into words, by one instruction and by shifts where a chip packs no halves."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import pallasite

from .memory_kernels import kernel


@pytest.mark.parametrize("target", ["v4", "v5e"])
def test_every_float_is_rounded_to_its_half_of_the_word(target: str) -> None:
    floats, words = "vector<16x200xf32>", "vector<16x200xi32>"
    module = kernel(
        ["16x200xf32", "16x200xf32", "16x200xi32"],
        f"""%x = vector.load %a[%z, %z] : A, {floats}
        %y = vector.load %b[%z, %z] : B, {floats}
        %p = tpu.pack_elementwise %x, %y {{target_type = bf16}} : {floats}, {floats} -> {words}
        tpu.vector_store %c[%z, %z], %p {{strides = array<i32>}} : C, {words},""",
    )
    made = np.random.default_rng(0)
    low, high = made.standard_normal((2, 16, 200)).astype(np.float32)
    low[0, :4] = np.nan, np.inf, -0.0, 3.4e38
    high[0, :4] = 1 + 2**-8, 1 + 3 * 2**-8, -np.inf, 1e-39
    half = [x.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.uint32) for x in (low, high)]
    lowered = pallasite.lower(module, form="vreg", target=target)
    assert ("interleaved" in str(lowered)) == (target != "v4")
    (actual,) = pallasite.run(lowered, [low, high], form="vreg", target=target)
    assert np.array_equal(np.asarray(actual).view(np.uint32), half[0] | half[1] << 16)


@pytest.mark.parametrize("target", ["v4", "v5e"])
@pytest.mark.parametrize("shape", [(1, 1024), (5, 1, 256)])
@pytest.mark.parametrize("form", ["tiles", "vreg"])
def test_single_rows_are_rounded_in_place(shape: tuple[int, ...], form: str, target: str) -> None:
    text, zeros = "x".join(map(str, shape)), ", ".join(["%z"] * len(shape))
    floats, words = f"vector<{text}xf32>", f"vector<{text}xi32>"
    module = kernel(
        [f"{text}xf32", f"{text}xf32", f"{text}xi32"],
        f"""%x = vector.load %a[{zeros}] : A, {floats}
        %y = vector.load %b[{zeros}] : B, {floats}
        %p = tpu.pack_elementwise %x, %y {{target_type = bf16}} : {floats}, {floats} -> {words}
        tpu.vector_store %c[{zeros}], %p {{strides = array<i32>}} : C, {words},""",
    )
    low, high = np.random.default_rng(0).standard_normal((2, *shape)).astype(np.float32)
    half = [x.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.uint32) for x in (low, high)]
    (actual,) = pallasite.run(module, [low, high], form=form, target=target)
    assert np.array_equal(np.asarray(actual).view(np.uint32), half[0] | half[1] << 16)
