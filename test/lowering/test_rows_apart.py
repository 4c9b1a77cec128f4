"""Rows that come from several registers are stored from each of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

import pallasite
from pallasite.frontend.aot import compile_ahead_of_time

from .memory_kernels import kernel

Array = NDArray[Any]
TYPES: dict[str, Any] = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "i32": np.int32}
SHAPES = [(4, 16, 256), (3, 8, 128), (7, 5, 130), (12, 24, 100)]


def largest(shape: tuple[int, ...], element: str, axis: int) -> ModuleOp:
    """The maxima along `axis` of an array of three dimensions."""
    kept = [n for d, n in enumerate(shape) if d != axis]
    whole, part = ("x".join(map(str, s)) + "x" + element for s in (shape, kept))
    kind, neutral = ("maxsi", "-2147483648") if element == "i32" else ("maximumf", None)
    neutral = neutral or {"f32": "0xFF800000", "bf16": "0xFF80"}[element]
    return kernel([whole, part], f"""
    %v = vector.load %a[%z, %z, %z] : A, vector<{whole}>
    %n = arith.constant dense<{neutral}> : vector<{part}>
    %r = vector.multi_reduction <{kind}>, %v, %n [{axis}] : vector<{whole}> to vector<{part}>
    tpu.vector_store %b[%z, %z], %r {{strides = array<i32>}} : B, vector<{part}>,
    """)  # fmt: skip


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("element", ["f32", "bf16", "i32"])
@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_reductions_are_right(shape: tuple[int, ...], axis: int, element: str, target: str) -> None:
    module = largest(shape, element, axis)
    rows = np.random.default_rng(7).integers(-99, 99, shape).astype(TYPES[element])
    for form in ("mosaic", "dma", "tiles", "vreg"):
        lowered = pallasite.lower(module.clone(), form=form, target=target)
        (actual,) = pallasite.run(lowered, [rows], form=form, target=target)
        assert np.array_equal(actual, rows.max(axis)), form


@pytest.mark.parametrize("axis", [1, 2])
def test_nothing_chooses_between_rows(axis: int) -> None:
    """Four rows take a store each, not three masks, three choices and a store."""
    lowered = pallasite.lower(largest((4, 16, 128), "f32", axis), form="vreg", target="v5e")
    kinds = Counter(op.name for op in lowered.walk())
    assert kinds["tpu.store"] == 4
    assert kinds["arith.select"] == (0 if axis == 1 else 4)
    # A gather takes its indices modulo the sublanes: an iota along the lanes is all it needs.
    assert not kinds["arith.andi"]


@pytest.mark.aot
@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("axis", [1, 2])
def test_the_compiler_takes_such_stores(axis: int, target: str, compiler: Any) -> None:
    lowered = pallasite.lower(largest((4, 16, 128), "f32", axis), form="vreg", target=target)
    verdict = compile_ahead_of_time(
        lowered, topology=f"{target}:2x2", layout_passes=False, compiler=compiler
    )
    assert verdict.accepted, verdict.message
