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


@pytest.mark.parametrize("whole, width", [(16, 16), (32, 32), (8, 8), (16, 8), (16, 4), (32, 8)])
@pytest.mark.parametrize("form", ["mosaic", "tiles", "vreg"])
@pytest.mark.parametrize("part", [None, 0, -1])
def test_integers_of_every_width(whole: int, width: int, form: str, part: int | None) -> None:
    """One source fills its words, several share them; parts come back with their sign."""
    kinds, count = {8: np.int8, 16: np.int16, 32: np.int32}, whole // width
    type, shape = f"vector<5x130xi{whole}>", (16, 256)
    lines = [
        f"%x{n} = vector.load %{'ab'[n % 2]}[%c{3 + n // 2}, %c1] : {'AB'[n % 2]}, {type}"
        for n in range(count)
    ]
    sources = ", ".join(f"%x{n}" for n in range(count))
    types = ", ".join([type] * count)
    made = f"%r = tpu.pack_elementwise {sources} {{target_type = i{width}}} : {types} -> {type}"
    if part is not None:
        made = made.replace("%r", "%p") + (
            f"\n%r = tpu.unpack_elementwise %p, {part % count} {{source_type = i{width}}}"
            f" : {type} -> {type}"
        )
    constants = [f"%c{n} = arith.constant {n} : index" for n in (1, 3, 4)]
    store = f"tpu.vector_store %c[%z, %z], %r {{strides = array<i32>}} : C, {type},"
    arrays = [f"16x256xi{whole}"] * 2
    module = kernel([*arrays, f"5x130xi{whole}"], "\n".join([*constants, *lines, made, store]))
    ends = np.iinfo(kinds[whole])
    drawn = np.random.default_rng(0).integers(ends.min, ends.max, (2, *shape))
    low = (1 << width) - 1
    parts = [drawn[n % 2, 3 + n // 2 : 8 + n // 2, 1:131] & low for n in range(count)]
    expected = sum(value << n * width for n, value in enumerate(parts))
    if part is not None:
        expected = (parts[part] ^ 1 << width - 1) - (1 << width - 1)
    for target in ("v4", "v6e"):
        (actual,) = pallasite.run(
            module, list(drawn.astype(kinds[whole])), form=form, target=target,
            allow_beyond_reference=True,
        )  # fmt: skip
        assert np.array_equal(np.asarray(actual), np.asarray(expected).astype(kinds[whole]))
