"""Results of few narrow rows are stored two in a register; whose rows lie elsewhere are moved."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pallasite

from .memory_kernels import kernel

OUTER, ROWS = 12, 5


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("spread", ["rows", "outer"])
def test_sums_of_what_is_spread(spread: str, target: str) -> None:
    """`rows` is the same for all outer places, and `outer` for all rows."""
    whole = f"{OUTER}x{ROWS}x128"
    text = f"""%x = vector.load %a[%z, %z] : A, vector<{OUTER}x128xbf16>
    %y = vector.load %b[%z, %z] : B, vector<{ROWS}x128xbf16>
    %x1 = vector.shape_cast %x : vector<{OUTER}x128xbf16> to vector<{OUTER}x1x128xbf16>
    %y1 = vector.shape_cast %y : vector<{ROWS}x128xbf16> to vector<1x{ROWS}x128xbf16>
    %v = vector.broadcast %x1 : vector<{OUTER}x1x128xbf16> to vector<{whole}xbf16>
    %w = vector.broadcast %y1 : vector<1x{ROWS}x128xbf16> to vector<{whole}xbf16>
    %r = arith.addf %{"v, %w" if spread == "rows" else "v, %v"} : vector<{whole}xbf16>
    tpu.vector_store %c[%z, %z, %z], %r {{strides = array<i32>}} : C, vector<{whole}xbf16>,"""
    refs = [f"{OUTER}x128xbf16", f"{ROWS}x128xbf16", f"{whole}xbf16"]
    x, y = (np.arange(n * 128).reshape(n, 128) % 31 - n for n in (OUTER, ROWS))
    given: list[Any] = [v.astype(ml_dtypes.bfloat16) for v in (x, y)]
    lowered = pallasite.lower(kernel(refs, text), form="vreg", target=target)
    (actual,) = pallasite.run(lowered, given, form="vreg", target=target)
    other = y[None] if spread == "rows" else x[:, None]
    assert np.array_equal(actual.astype(int), np.broadcast_to(x[:, None] + other, actual.shape))
