"""Floats that are only moved keep their bits, those of every NaN too: a conversion would not."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pallasite
from pallasite.dialects import tpu

from .memory_kernels import kernel

TYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f8E5M2": ml_dtypes.float8_e5m2}
SHAPE = (32, 256)
SMEM = "memref<8xi32, #tpu.memory_space<smem>>"


def every_code(element: str, shift: int = 0) -> Any:
    """All bits that a type has, or every fifth of the many: of NaNs, all."""
    if element == "f8E5M2":
        codes = np.resize(np.arange(256, dtype=np.uint8), SHAPE)
    else:
        nans = (np.arange(256) % 128 + np.where(np.arange(256) < 128, 0x7F80, 0xFF80)).astype(
            np.uint16
        )
        codes = np.resize(np.concatenate([nans, np.arange(0, 65536, 97, dtype=np.uint16)]), SHAPE)
    return np.roll(codes, shift, 1).view(TYPES[element])


def moved(element: str, mask: str, body: str, target: str) -> list[Any]:
    """The bits that forms mosaic and vreg give for `%r`, made of the vectors `%x` and `%y` and of
    the mask `%m`."""
    kind = f"vector<32x256x{element}>"
    module = kernel(
        [f"32x256x{element}", f"32x256x{element}", f"32x256x{mask}", f"32x256x{element}"],
        f"""%x = vector.load %a[%z, %z] : A, {kind}
        %y = vector.load %b[%z, %z] : B, {kind}
        %n = vector.load %c[%z, %z] : C, vector<32x256x{mask}>
        %three = arith.constant dense<3> : vector<32x256x{mask}>
        %m = arith.cmpi sgt, %n, %three : vector<32x256x{mask}>
        {body.replace("$T", kind)}
        tpu.vector_store %d[%z, %z], %r {{strides = array<i32>}} : D, {kind},""",
    )
    numbers = np.random.default_rng(7).integers(0, 8, SHAPE).astype(f"int{mask[1:]}")
    given = [every_code(element), every_code(element, 5), numbers]
    found = [pallasite.run(module, given, form=f, target=target) for f in ("mosaic", "vreg")]
    return [np.asarray(out).view(np.uint8) for (out,) in found]


@pytest.mark.parametrize("target", ["v4", "v5e", "v7x"])
@pytest.mark.parametrize("mask", ["i8", "i32"])
@pytest.mark.parametrize("element", TYPES)
def test_selected(element: str, mask: str, target: str) -> None:
    body = "%r = arith.select %m, %x, %y : vector<32x256xi1>, $T"
    want, got = moved(element, mask, body, target)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", ["v5e", "v7x"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("element", TYPES)
def test_rotated_by_what_is_known_later(element: str, dim: int, target: str) -> None:
    body = f"""%w = vector.extract %n[0, 0] : i32 from vector<32x256xi32>
    %r = tpu.dynamic_rotate %x by %w dim {dim} : $T, i32 -> $T"""
    want, got = moved(element, "i32", body, target)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", ["v4", "v6e"])
@pytest.mark.parametrize("element", TYPES)
def test_broadcast_of_a_scalar(element: str, target: str) -> None:
    kind = f"vector<32x256x{element}>"
    text = f"""
module attributes {{tpu.call = {{operands = [tensor<8x{element}>],
    results = [tensor<32x256x{element}>], aliases = array<i64>, settings = "{{}}"}}}} {{
  func.func @kernel(%s: memref<8x{element}, #tpu.memory_space<smem>>,
      %o: memref<32x256x{element}, #tpu.memory_space<vmem>>) attributes {{
      dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
      tpu.core_type = #tpu.core_type<tc>}} {{
    %z = arith.constant 0 : index
    %v = memref.load %s[%z] : memref<8x{element}, #tpu.memory_space<smem>>
    %r = vector.broadcast %v : {element} to {kind}
    tpu.vector_store %o[%z, %z], %r {{strides = array<i32>}}
      : memref<32x256x{element}, #tpu.memory_space<vmem>>, {kind},
    return
  }}
}}"""
    code = np.full(8, 0xFFA1 if element == "bf16" else 0xFF)
    given = code.astype(f"uint{8 * np.dtype(TYPES[element]).itemsize}").view(TYPES[element])
    (got,) = pallasite.run(pallasite.parse(text), [given], form="vreg", target=target)
    assert set(np.asarray(got).view(np.uint8).ravel()) == set(given.view(np.uint8))


def test_what_is_computed_with_is_not_packed() -> None:
    """Who computes with bf16 in f32 does not see which NaN was chosen."""
    module = kernel(
        ["32x256xbf16", "32x256xbf16"],
        """%x = vector.load %a[%z, %z] : A, vector<32x256xbf16>
        %none = arith.constant dense<0.0> : vector<32x256xbf16>
        %m = arith.cmpf olt, %x, %none : vector<32x256xbf16>
        %s = arith.select %m, %none, %x : vector<32x256xi1>, vector<32x256xbf16>
        %r = arith.mulf %s, %s : vector<32x256xbf16>
        tpu.vector_store %b[%z, %z], %r {strides = array<i32>} : B, vector<32x256xbf16>,""",
    )
    lowered = pallasite.lower(module, "vreg", "v4")
    unpacked = sum(isinstance(op, tpu.UnpackSubelementsOp) for op in lowered.walk())
    assert unpacked == 8
