"""Comparisons of floats that vector units lack and the TPU compiler refuses, of numbers and NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pallasite

from .memory_kernels import kernel


def unordered(a: Any, b: Any) -> Any:
    return (a != a) | (b != b)


PREDICATES: dict[str, Callable[[Any, Any], Any]] = {
    "false": lambda a, b: np.zeros_like(a, bool),
    "ord": lambda a, b: ~unordered(a, b),
    "ueq": lambda a, b: (a == b) | unordered(a, b),
    "ugt": lambda a, b: (a > b) | unordered(a, b),
    "uge": lambda a, b: (a >= b) | unordered(a, b),
    "ult": lambda a, b: (a < b) | unordered(a, b),
    "ule": lambda a, b: (a <= b) | unordered(a, b),
    "une": lambda a, b: (a != b) | unordered(a, b),
    "uno": unordered,
    "true": lambda a, b: np.ones_like(a, bool),
}


@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("predicate", PREDICATES)
def test_of_numbers_and_nan(predicate: str, element: str) -> None:
    kind, mask, words = (f"vector<8x128x{e}>" for e in (element, "i1", "i32"))
    module = kernel(
        [f"8x128x{element}", f"8x128x{element}", "8x128xi32"],
        f"""%x = vector.load %a[%z, %z] : A, {kind}
        %y = vector.load %b[%z, %z] : B, {kind}
        %m = arith.cmpf {predicate}, %x, %y : {kind}
        %one = arith.constant dense<1> : {words}
        %zero = arith.constant dense<0> : {words}
        %r = arith.select %m, %one, %zero : {mask}, {words}
        tpu.vector_store %c[%z, %z], %r {{strides = array<i32>}} : C, {words},""",
    )
    given = np.array([np.nan, -np.inf, -1, -0.0, 0.0, 1, 2, np.inf], np.float32)
    left, right = np.broadcast_to(given[:, None], (8, 128)), np.resize(given, (8, 128))
    expected = PREDICATES[predicate](left, right)
    dtype = np.float32 if element == "f32" else ml_dtypes.bfloat16
    for form in ("mosaic", "vreg"):
        (actual,) = pallasite.run(
            module, [left.astype(dtype), right.astype(dtype)], form=form, target="v6e",
            allow_beyond_reference=True,
        )  # fmt: skip
        assert np.array_equal(np.asarray(actual), expected), form
