"""Rows that leave a reduction the same in every sublane are packed with their neighbours."""

from __future__ import annotations

from collections import Counter

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pallasite

from .memory_kernels import kernel

WORDS = "vector.multi_reduction <add>, %w, %zeros [{dim}] : {many} to {one}"
NARROW = {"bf16": "arith.truncf", "f8E5M2": "arith.truncf", "i8": "arith.trunci"}
NUMPY = {"bf16": ml_dtypes.bfloat16, "f8E5M2": ml_dtypes.float8_e5m2, "i8": np.int8}


def vector(shape: tuple[int, ...], element: str) -> str:
    return f"vector<{'x'.join(map(str, shape))}x{element}>"


def summed(shape: tuple[int, ...], element: str, times: int = 1) -> ModuleOp:
    """The sum of all rows of every matrix, computed in words and stored as `element`."""
    *lead, _, columns = shape
    wide = "i32" if element == "i8" else "f32"
    one, row = (*lead, columns), (*lead, 1, columns)
    zero, mul = ("0", "arith.muli") if wide == "i32" else ("0.0", "arith.mulf")
    factor = f"{times}" if wide == "i32" else f"{times}.0"
    zeros = ", ".join(["%z"] * len(shape))
    reduced = WORDS.format(dim=len(lead), many=vector(shape, wide), one=vector(one, wide))
    body = f"""%w = vector.load %a[{zeros}] : A, {vector(shape, wide)}
    %zeros = arith.constant dense<{zero}> : {vector(one, wide)}
    %s = {reduced}
    %r = vector.shape_cast %s : {vector(one, wide)} to {vector(row, wide)}
    %f = arith.constant dense<{factor}> : {vector(row, wide)}
    %p = {mul} %r, %f : {vector(row, wide)}
    %n = {NARROW[element]} %p : {vector(row, wide)} to {vector(row, element)}
    vector.store %n, %b[{zeros}] : B, {vector(row, element)}"""
    sizes = ["x".join(map(str, s)) for s in (shape, row)]
    return kernel([f"{sizes[0]}x{wide}", f"{sizes[1]}x{element}"], body)


def counts(module: ModuleOp, target: str) -> Counter[str]:
    """The operations of the kernel in registers."""
    lowered = pallasite.lower(module, form="vreg", target=target, allow_beyond_reference=True)
    return Counter(op.name for op in lowered.walk())


@pytest.mark.parametrize("element", ["bf16", "f8E5M2", "i8"])
@pytest.mark.parametrize(
    "shape", [(9, 384), (2, 8, 640), (3, 5, 200), (16, 129), (2, 2, 7, 1100)], ids=str
)
def test_sums_of_rows(shape: tuple[int, ...], element: str, target: str = "v5e") -> None:
    wide = np.int32 if element == "i8" else np.float32
    x = np.random.default_rng(3).integers(-3, 4, shape).astype(wide)
    module = summed(shape, element)
    lowered = pallasite.lower(module, form="vreg", target=target, allow_beyond_reference=True)
    (actual,) = pallasite.run(lowered, [x], form="vreg", target=target)
    expected = x.sum(-2, keepdims=True).astype(NUMPY[element])
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize(
    ("shape", "element", "registers"),
    [((32, 256), "bf16", 1), ((32, 384), "bf16", 2), ((1, 8, 512), "bf16", 2),
     ((32, 512), "i8", 1), ((32, 640), "f8E5M2", 2)],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("times", [1, 3])
def test_neighbours_share_a_register(
    shape: tuple[int, ...], element: str, registers: int, times: int, target: str
) -> None:
    found = counts(summed(shape, element, times), target)
    assert found["tpu.pack_subelements"] == found["tpu.store"] == registers


@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_maxima_of_narrow_rows(target: str) -> None:
    body = """%x = vector.load %a[%z, %z] : A, vector<32x256xbf16>
    %i = arith.constant dense<0xFF80> : vector<256xbf16>
    %m = vector.multi_reduction <maximumf>, %x, %i [0] : vector<32x256xbf16> to vector<256xbf16>
    %r = vector.shape_cast %m : vector<256xbf16> to vector<1x256xbf16>
    vector.store %r, %b[%z, %z] : B, vector<1x256xbf16>"""
    module = kernel(["32x256xbf16", "1x256xbf16"], body)
    x = np.random.default_rng(5).standard_normal((32, 256)).astype(ml_dtypes.bfloat16)
    (actual,) = pallasite.run(module, [x], form="vreg", target=target)
    assert np.array_equal(actual, x.max(0, keepdims=True))
    found = counts(module, target)
    assert found["tpu.pack_subelements"] == found["tpu.store"] == 1


def test_a_row_that_is_loaded_keeps_small_tiles() -> None:
    """It comes as full registers of tiles of one row."""
    body = """%x = vector.load %a[%z, %z] : A, vector<1x1024xf32>
    %n = arith.truncf %x : vector<1x1024xf32> to vector<1x1024xbf16>
    vector.store %n, %b[%z, %z] : B, vector<1x1024xbf16>"""
    lowered = pallasite.lower(kernel(["1x1024xf32", "1x1024xbf16"], body), "vreg", "v5e")
    assert "(8,128)(2,1)" not in str(lowered)
