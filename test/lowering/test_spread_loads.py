"""Rows of loaded registers that are only wanted in all sublanes are loaded so."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import pallasite

from .memory_kernels import kernel


def columns(shape: tuple[int, int], target: str, compute: str = "") -> Counter[str]:
    """What a kernel consists of that puts every element into all lanes of a row of its own, once
    `compute` is done to it, which leaves the positive numbers of the input as they are."""
    rows, width = shape
    before, apart, after = (f"{rows}x{width}{more}xf32" for more in ("", "x1", "x128"))
    work = f"%w = {compute} %v : vector<{before}>" if compute else ""
    module = kernel(
        [before, after],
        f"""%v = vector.load %a[%z, %z] : A, vector<{before}>
        {work}
        %m = vector.shape_cast %{"w" if compute else "v"} : vector<{before}> to vector<{apart}>
        %r = vector.broadcast %m : vector<{apart}> to vector<{after}>
        tpu.vector_store %b[%z, %z, %z], %r {{strides = array<i32>}} : B, vector<{after}>,""",
    )
    lowered = pallasite.lower(module, form="vreg", target=target)
    value = np.random.default_rng(0).random(size=shape).astype(np.float32)
    (actual,) = pallasite.run(lowered, [value], form="vreg", target=target)
    assert np.array_equal(actual, np.broadcast_to(value[:, :, None], actual.shape))
    return Counter(op.name for op in lowered.walk())


@pytest.mark.parametrize("target", ["v4", "v5e", "v6e"])
@pytest.mark.parametrize("shape", [(4, 16), (2, 24), (8, 40), (24, 16), (24, 40)])
def test_rows_are_loaded_where_they_are_wanted(shape: tuple[int, int], target: str):
    counts = columns(shape, target)
    assert counts["tpu.load"] == shape[0]
    assert not counts["tpu.sublane_shuffle"]


@pytest.mark.parametrize("shape", [(3, 16), (20, 16), (13, 130)])
def test_registers_that_memory_does_not_fill(shape: tuple[int, int]):
    """Rows behind the last one are not loaded, wherever the tile ends."""
    columns(shape, "v5e")


def test_other_values_are_spread_as_before():
    """Only what memory holds can be loaded again."""
    counts = columns((8, 16), "v5e", "math.absf")
    assert (counts["tpu.load"], counts["tpu.sublane_shuffle"]) == (1, 8)
