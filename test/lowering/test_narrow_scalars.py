"""Scalar narrow floats, which later forms convert by integer arithmetic, are the same numbers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pallasite
from pallasite import api

SMEM = "#tpu.memory_space<smem>"
READ: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
}  # fmt: skip
WRITTEN: dict[str, Any] = READ | {
    "f16": np.float16, "f8E4M3": ml_dtypes.float8_e4m3, "f8E3M4": ml_dtypes.float8_e3m4,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
DTYPES: dict[str, Any] = WRITTEN | {"f32": np.float32}


def converted(values: Any, source: str, result: str, form: str) -> Any:
    """`values`, each loaded from SMEM, converted and stored there, as 32-bit floats."""
    size, op = len(values), "truncf" if source == "f32" else "extf"
    old, new = (f"memref<{size}x{kind}, {SMEM}>" for kind in (source, result))
    text = f"""
func.func @kernel(%x: {old}, %o: {new}) attributes {{
    dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
    tpu.core_type = #tpu.core_type<tc>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end = arith.constant {size} : index
  scf.for %i = %c0 to %end step %c1 {{
    %a = memref.load %x[%i] : {old}
    %b = arith.{op} %a : {source} to {result}
    memref.store %b, %o[%i] : {new}
  }}
  return
}}"""
    kind = DTYPES[result]
    (answer,) = api.run(pallasite.parse(text), [values], form=form, results=[((size,), kind)])
    return answer.astype(np.float32)


def agree(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(one, other)
    numbers = ~np.isnan(one)
    np.testing.assert_array_equal(np.signbit(one[numbers]), np.signbit(other[numbers]))


def all_of(element: str) -> Any:
    kind = DTYPES[element]
    size = 16 if element == "f4E2M1FN" else 1 << 8 * np.dtype(kind).itemsize
    return np.arange(size, dtype=f"<u{np.dtype(kind).itemsize}").view(kind)


@pytest.mark.parametrize("element", READ)
def test_every_number_is_read(element: str) -> None:
    values = all_of(element)[:: 1 if element != "bf16" else 89]
    with np.errstate(all="ignore"):
        agree(converted(values, element, "f32", "vreg"), values.astype(np.float32))


@pytest.mark.parametrize("element", WRITTEN)
def test_every_number_and_what_lies_between_is_written(element: str) -> None:
    """Numbers, the halves between neighbours and what is next to both; infinities and NaNs."""
    with np.errstate(all="ignore"):
        numbers = all_of(element)[:: 1 if np.dtype(DTYPES[element]).itemsize == 1 else 89]
        sorted_ = np.sort(numbers.astype(np.float32)[np.isfinite(numbers.astype(np.float32))])
        halves = (sorted_[1:] / 2 + sorted_[:-1] / 2).astype(np.float32)
        exact = np.concatenate(
            [sorted_, halves, np.array([1e30, -1e30, 65519.9, 65520, 1e-30], np.float32)]
        )
        near = [np.nextafter(exact, np.float32(s * np.inf)) for s in (1, -1)]
        bits = np.array([0x7F800001, 0xFF800000, 0x7F800000, 0xFFC00000], "<u4").view(np.float32)
        values = np.concatenate([exact, *near, bits, -exact]).astype(np.float32)
        if element == "f4E2M1FN":
            values = values[~np.isnan(values)]  # which it has not
        wanted = values.astype(DTYPES[element]).astype(np.float32)
        agree(converted(values, "f32", element, "vreg"), wanted)
