"""What moves along the rows and along the lanes does so one after the other, if that is less."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pallasite
from pallasite.dialects.walking import operations

from .memory_kernels import kernel

_MOVES = ("tpu.dynamic_rotate", "tpu.sublane_shuffle", "arith.select")
TYPES: dict[str, Any] = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "i8": np.int8}


@pytest.mark.parametrize(
    "element,shape,place,most",
    [
        ("bf16", (16, 188), (8, 23), 6),
        ("f32", (8, 188), (4, 23), 6),
        ("f32", (16, 188), (4, 23), 13),
        ("i8", (32, 200), (8, 100), 7),
        # Only one of the two.
        ("f32", (8, 188), (0, 23), 3),
        ("f32", (8, 188), (4, 0), 2),
    ],
)
@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_stores_at_odd_places(
    element: str, shape: tuple[int, int], place: tuple[int, int], most: int, target: str
) -> None:
    whole = tuple(n + 40 + p for n, p in zip(shape, place, strict=True))
    part, all_ = (f"{'x'.join(map(str, s))}x{element}" for s in (shape, whole))
    zero = "0" if element.startswith("i") else "0.0"
    module = kernel(
        [part, all_],
        f"""%i = arith.constant {place[0]} : index
        %j = arith.constant {place[1]} : index
        %k = arith.constant dense<{zero}> : vector<{all_}>
        tpu.vector_store %b[%z, %z], %k {{strides = array<i32>}} : B, vector<{all_}>,
        %x = vector.load %a[%z, %z] : A, vector<{part}>
        tpu.vector_store %b[%i, %j], %x {{strides = array<i32>}} : B, vector<{part}>,""",
    )
    lowered = pallasite.lower(module, form="vreg", target=target)
    x = (np.arange(np.prod(shape)).reshape(shape) % 101 - 50).astype(TYPES[element])
    (actual,) = pallasite.run(lowered, [x], form="vreg", target=target)
    expected = np.zeros(whole, x.dtype)
    expected[tuple(slice(p, p + n) for p, n in zip(place, shape, strict=True))] = x
    assert np.array_equal(actual, expected)
    kinds = Counter(op.name for op in operations(lowered))
    assert sum(kinds[name] for name in _MOVES) <= most
