"""Packed arrays accessed at rows known at run time, which begin a row of words and no register."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pallasite

DTYPES = {"bf16": ml_dtypes.bfloat16, "i16": np.int16, "i8": np.int8}
REF = "#tpu.memory_space<vmem>"
ROW = """%i = pallas.load %t[0] : memref<1xi32, #tpu.memory_space<smem>>
  %row = tpu.assume_multiple %i, 8 : i32"""


def kernel(element: str, whole: str, part: str, *, store: bool) -> str:
    """Loads `part` rows of `whole` at the row in the table, or stores them there after zeros."""
    whole, part = f"{whole}x{element}", f"{part}x{element}"
    rows, given, out = part.split("x")[0], part if store else whole, whole if store else part
    zero = "0.0" if element == "bf16" else "0"
    target, some = f"memref<{out}, {REF}>", f"ds(%row, {rows}), :"
    body = [
        f"%v = pallas.load %x[{'...' if store else some}] : memref<{given}, {REF}>",
        f"pallas.store %v, %o[{some if store else '...'}] : {target}",
    ]
    if store:
        body[:0] = [
            f"%z = arith.constant dense<{zero}> : vector<{whole}>",
            f"pallas.store %z, %o[...] : {target}",
        ]
    lines = "\n  ".join(body)
    return f"""pallas.kernel @rows
  prefetch %t: tensor<1xi32>
  input %x: tensor<{given}> in vmem
  output %o: tensor<{out}> in vmem
{{
  {ROW}
  {lines}
}}"""


def run(text: str, *inputs: Any, target: str) -> Any:
    return pallasite.run(pallasite.parse(text), list(inputs), form="vreg", target=target)[0]


@pytest.mark.parametrize("target", ["v4", "v5e", "v6e"])
@pytest.mark.parametrize(
    ("element", "whole", "rows"),
    [
        ("bf16", (32, 256), 8), ("bf16", (24, 200), 3), ("i16", (40, 128), 16),
        ("i8", (24, 256), 8), ("i8", (40, 384), 1),
    ],
)  # fmt: skip
def test_rows_of_words(element: str, whole: tuple[int, int], rows: int, target: str) -> None:
    shapes = f"{whole[0]}x{whole[1]}", f"{rows}x{whole[1]}"
    rng = np.random.default_rng(3)
    array = rng.integers(-100, 100, whole).astype(DTYPES[element])
    for start in (8, whole[0] - 8 - rows // 9 * 8):
        table = np.array([start], np.int32)
        loaded = run(kernel(element, *shapes, store=False), table, array, target=target)
        expected = array[start : start + rows]
        np.testing.assert_array_equal(loaded, expected)
        stored = run(kernel(element, *shapes, store=True), table, expected, target=target)
        zeros = np.zeros_like(array)
        zeros[start : start + rows] = expected
        np.testing.assert_array_equal(stored, zeros)
