"""Reductions whose accumulator counts: it is folded in wherever the reduction leaves its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pallasite

from .memory_kernels import kernel

FOLDS: dict[str, Callable[..., Any]] = {
    "add": lambda x, dims, acc: x.sum(dims, keepdims=True) + acc,
    "maximumf": lambda x, dims, acc: np.maximum(x.max(dims, keepdims=True), acc),
    "minsi": lambda x, dims, acc: np.minimum(x.min(dims, keepdims=True), acc),
}


def vector_of(shape: tuple[int, ...], element: str) -> str:
    return f"vector<{'x'.join(map(str, shape))}x{element}>"


@pytest.mark.parametrize(
    "shape, dims", [((16, 200), (1,)), ((20, 128), (0,)), ((3, 9, 200), (0, 2))]
)
@pytest.mark.parametrize(
    "kind, element, acc",
    [
        ("add", "f32", "5.0"),
        ("maximumf", "f32", "60.0"),
        ("minsi", "i32", "-60"),
        ("add", "i32", "3"),
    ],
)
def test_accumulators_count(
    kind: str, element: str, acc: str, shape: tuple[int, ...], dims: tuple[int, ...]
) -> None:
    kept = tuple(1 if d in dims else n for d, n in enumerate(shape))
    whole, least = vector_of(shape, element), vector_of(kept, element)
    result = vector_of(tuple(n for d, n in enumerate(shape) if d not in dims), element)
    zeros = ", ".join(["%z"] * len(shape))
    body = f"""%x = vector.load %a[{zeros}] : A, {whole}
        %acc = arith.constant dense<{acc}> : {result}
        %r = vector.multi_reduction <{kind}>, %x, %acc {list(dims)} : {whole} to {result}
        %k = vector.shape_cast %r : {result} to {least}
        tpu.vector_store %b[{zeros}], %k {{strides = array<i32>}} : B, {least},"""
    module = kernel(
        [kind.removeprefix("vector<").removesuffix(">") for kind in (whole, least)], body
    )
    dtype = np.float32 if element == "f32" else np.int32
    value = np.random.default_rng(0).integers(-50, 50, shape).astype(dtype)
    expected = FOLDS[kind](value, dims, dtype(float(acc)))
    for form in ("mosaic", "vreg"):
        (actual,) = pallasite.run(module, [value], form=form, target="v5e")
        assert np.array_equal(np.asarray(actual), expected), form


@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("n, turns", [(77, 0), (128, 0), (130, 3)])
def test_one_row_of_a_flat_vector_is_added_up_in_its_place(
    element: str, n: int, turns: int
) -> None:
    body = f"""%x = vector.load %a[%z] : A, vector<{n}x{element}>
        %w = {"arith.extf %x" if element == "bf16" else "arith.negf %x"} : vector<{n}x{element}>
          {f"to vector<{n}xf32>" if element == "bf16" else ""}
        %k = vector.shape_cast %w : vector<{n}xf32> to vector<1x{n}xf32>
        %acc = arith.constant dense<0.0> : vector<1xf32>
        %r = vector.multi_reduction <add>, %k, %acc [1] : vector<1x{n}xf32> to vector<1xf32>
        %o = vector.shape_cast %r : vector<1xf32> to vector<1x1xf32>
        tpu.vector_store %b[%z, %z], %o {{strides = array<i32>}} : B, vector<1x1xf32>,"""
    module = kernel([f"{n}x{element}", "1x1xf32"], body)
    x = np.arange(n) % 5 - 1
    value = x.astype(np.float32 if element == "f32" else ml_dtypes.bfloat16)
    lowered = pallasite.lower(module, form="vreg", target="v5e")
    (actual,) = pallasite.run(lowered, [value], form="vreg", target="v5e")
    assert actual[0, 0] == (x.sum() if element == "bf16" else -x.sum())
    assert str(lowered).count("tpu.sublane_shuffle") == turns


@pytest.mark.parametrize("kind, acc", [("maximumf", "0xFF80"), ("maximumf", "3.0")])
def test_maxima_over_registers_stay_packed(kind: str, acc: str) -> None:
    body = f"""%x = vector.load %a[%z, %z, %z] : A, vector<3x32x200xbf16>
        %acc = arith.constant dense<{acc}> : vector<32x200xbf16>
        %r = vector.multi_reduction <{kind}>, %x, %acc [0]
          : vector<3x32x200xbf16> to vector<32x200xbf16>
        tpu.vector_store %b[%z, %z], %r {{strides = array<i32>}} : B, vector<32x200xbf16>,"""
    module = kernel(["3x32x200xbf16", "32x200xbf16"], body)
    x = (np.arange(3 * 32 * 200).reshape(3, 32, 200) * 7 % 255 - 127).astype(ml_dtypes.bfloat16)
    lowered = pallasite.lower(module, form="vreg", target="v6e")
    (actual,) = pallasite.run(lowered, [x], form="vreg", target="v6e")
    expected = x.astype(np.float32).max(0)
    assert np.array_equal(actual, np.maximum(expected, 3) if acc == "3.0" else expected)
    assert "pack_subelements" not in str(lowered)
