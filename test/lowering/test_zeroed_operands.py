"""Behind the ends of products' operands are zeros, chosen as elements where masks govern those."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pallasite
from pallasite.dialects.walking import operations

from .memory_kernels import kernel

TYPES: dict[str, Any] = {
    "f32": np.float32, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "f8E5M2": ml_dtypes.float8_e5m2,
}  # fmt: skip
PAIRS = [
    (target, element)
    for target in ("v4", "v5e", "v6e", "v7x")
    for element in TYPES
    if target != "v4" or element in ("f32", "bf16")  # v4 multiplies no bytes.
]


@pytest.mark.parametrize("target,element", PAIRS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("m,k,n", [(16, 100, 128), (32, 67, 128), (8, 33, 40)])
def test_products_of_odd_depth(
    m: int, k: int, n: int, turned: bool, element: str, target: str
) -> None:
    second, sum_ = (n, k) if turned else (k, n), "i32" if element == "i8" else "f32"
    refs = [f"{m}x{k}x{element}", f"{second[0]}x{second[1]}x{element}", f"{m}x{n}x{sum_}"]
    x, y, z = (f"vector<{ref}>" for ref in refs)
    dims = f"[1], [{1 if turned else 0}], [0], [{0 if turned else 1}]"
    order = f"[0, 0, 1, {0 if turned else 1}], [], []"
    module = kernel(
        refs,
        f"""%x = vector.load %a[%z, %z] : A, {x}
        %y = vector.load %b[%z, %z] : B, {y}
        %s = arith.constant dense<{"0" if element == "i8" else "0.0"}> : {z}
        %p = tpu.matmul %x, %y, %s {{
            dimension_numbers = #tpu.dot_dimension_numbers<{dims}, {order}>,
            transpose_lhs_hint = false}} : {x}, {y}, {z} -> {z}
        tpu.vector_store %c[%z, %z], %p {{strides = array<i32>}} : C, {z},""",
    )
    lowered = pallasite.lower(module, form="vreg", target=target)
    random = np.random.default_rng(0)
    left, right = (random.integers(-3, 4, s).astype(TYPES[element]) for s in ((m, k), second))
    (actual,) = pallasite.run(lowered, [left, right], form="vreg", target=target)
    wide = right.astype(float)
    assert np.array_equal(actual, left.astype(float) @ (wide.T if turned else wide))
    kinds = Counter(op.name for op in operations(lowered))
    assert kinds["tpu.bitcast_vreg"] == 0 or (target == "v5e" and element not in ("f32", "bf16"))
