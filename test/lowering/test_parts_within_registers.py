"""Parts of arrays that begin within a register, which only `allow_beyond_reference` admits."""

from __future__ import annotations

import random

import ml_dtypes
import numpy as np
import pytest

import pallasite
from pallasite.diagnostics import Unsupported

from .memory_kernels import kernel

DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "i8": np.int8}
VMEM = "#tpu.memory_space<vmem>"
ARRAY, PART = "32x384x{}", "32x200x{}"


def sliced(ref: str, start: int, element: str) -> str:
    array, part = (f"memref<{shape.format(element)}, {VMEM}>" for shape in (ARRAY, PART))
    return f"""%row = arith.constant 0 : i32
        %lane = arith.constant {start} : i32
        %p = tpu.memref_slice %{ref}[%row, %lane] : {array} -> {part}"""


@pytest.mark.parametrize("seed", range(6))
def test_what_they_hold_is_loaded_and_stored(seed: int) -> None:
    draw = random.Random(seed)
    element = draw.choice(list(DTYPES))
    start, column = draw.randrange(1, 128), draw.randrange(100)
    array, value = ARRAY.format(element), f"32x96x{element}"
    at = f"""%c = arith.constant {column} : index
        {sliced("a" if seed % 2 else "b", start, element)}"""
    part = f"memref<{PART.format(element)}, {VMEM}>"
    if seed % 2:
        types = [array, value]
        body = f"""%v = vector.load %p[%z, %c] : {part}, vector<{value}>
        tpu.vector_store %b[%z, %z], %v {{strides = array<i32>}} : B, vector<{value}>,"""
    else:
        types = [value, array]
        body = f"""%w = arith.constant dense<1{"" if element == "i8" else ".0"}> : vector<{array}>
        tpu.vector_store %b[%z, %z], %w {{strides = array<i32>}} : B, vector<{array}>,
        %v = vector.load %a[%z, %z] : A, vector<{value}>
        tpu.vector_store %p[%z, %c], %v {{strides = array<i32>}} : {part}, vector<{value}>,"""
    module = kernel(types, f"{at}\n{body}")
    x = (np.arange(32 * (384 if seed % 2 else 96)) % 117).reshape(32, -1).astype(DTYPES[element])
    begin = start + column
    if seed % 2:
        expected = x[:, begin : begin + 96]
    else:
        expected = np.ones((32, 384), x.dtype)
        expected[:, begin : begin + 96] = x
    target = draw.choice(["v4", "v5e", "v7x"])
    for form in ("mosaic", "dma", "tiles", "vreg"):
        (result,) = pallasite.run(
            module, [x], form=form, target=target, allow_beyond_reference=True
        )
        np.testing.assert_array_equal(result, expected, err_msg=f"{form} {target}")
    with pytest.raises(Unsupported) as refused:
        pallasite.lower(module, form="tiles", target=target)
    assert refused.value.code == "unaligned-slice"


@pytest.mark.parametrize("start", [5, 128])
@pytest.mark.parametrize(
    "load",
    [
        f"""%v = tpu.strided_load %p[%z, %z] {{strides = array<i32: 2, 1>}}
        : memref<32x200xf32, {VMEM}>, vector<8x128xf32>""",
        f"""%q = tpu.memref_bitcast %p : memref<32x200xf32, {VMEM}> -> memref<32x200xi32, {VMEM}>
        %i = vector.load %q[%z, %z] : memref<32x200xi32, {VMEM}>, vector<8x128xi32>
        %v = tpu.bitcast %i : vector<8x128xi32> -> vector<8x128xf32>""",
    ],
)
def test_other_accesses_are_refused(load: str, start: int) -> None:
    store = "tpu.vector_store %b[%z, %z], %v {strides = array<i32>} : B, vector<8x128xf32>,"
    module = kernel(["32x384xf32", "8x128xf32"], f"{sliced('a', start, 'f32')}\n{load}\n{store}")
    x = np.arange(32 * 384, dtype=np.float32).reshape(32, 384)
    for form in ("mosaic", "dma", "tiles", "vreg"):
        if start % 128:
            with pytest.raises(Unsupported) as refused:
                pallasite.run(module, [x], form=form, allow_beyond_reference=True)
            assert refused.value.code == "unaligned-slice"
        else:
            (result,) = pallasite.run(module, [x], form=form, allow_beyond_reference=True)
            rows = slice(0, 16, 2) if "strided" in load else slice(0, 8)
            np.testing.assert_array_equal(result, x[rows, start : start + 128])
