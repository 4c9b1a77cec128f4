"""Bytes become half words in one step, and are compared as such for data of that width."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pallasite

from ..asking import asked
from .memory_kernels import kernel

TARGETS = ("v4", "v5e", "v5p", "v6e", "v7x")


def extended(op: str, rows: int) -> ModuleOp:
    text = f"""%v = vector.load %a[%z, %z] : A, vector<{rows}x200xi8>
    %r = arith.{op} %v : vector<{rows}x200xi8> to vector<{rows}x200xi16>
    tpu.vector_store %b[%z, %z], %r {{strides = array<i32>}} : B, vector<{rows}x200xi16>,"""
    return kernel([f"{rows}x200xi8", f"{rows}x200xi16"], text)


def chosen(predicate: str, rows: int) -> ModuleOp:
    """`b` where `a` compares with 10, else 0."""
    text = f"""%v = vector.load %a[%z, %z] : A, vector<{rows}x200xi8>
    %w = vector.load %b[%z, %z] : B, vector<{rows}x200xbf16>
    %ten = arith.constant dense<10> : vector<{rows}x200xi8>
    %none = arith.constant dense<0.0> : vector<{rows}x200xbf16>
    %m = arith.cmpi {predicate}, %v, %ten : vector<{rows}x200xi8>
    %r = arith.select %m, %w, %none : vector<{rows}x200xi1>, vector<{rows}x200xbf16>
    tpu.vector_store %c[%z, %z], %r {{strides = array<i32>}} : C, vector<{rows}x200xbf16>,"""
    return kernel([f"{rows}x200xi8", f"{rows}x200xbf16", f"{rows}x200xbf16"], text)


def bytes_of(rows: int) -> Any:
    return np.random.default_rng(rows).integers(-128, 128, (rows, 200)).astype(np.int8)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [64, 5])
@pytest.mark.parametrize("op", ["extsi", "extui"])
def test_bytes_extend_without_words(op: str, rows: int, target: str) -> None:
    x = bytes_of(rows)
    lowered = pallasite.lower(extended(op, rows), form="vreg", target=target)
    (actual,) = pallasite.run(lowered, [x], form="vreg", target=target)
    assert np.array_equal(actual, (x if op == "extsi" else x.view(np.uint8)).astype(np.int16))
    assert "pack_subelements %" not in str(lowered).replace("unpack_subelements", "")


@pytest.mark.parametrize("target", ["v5e", "v6e", "v7x"])
@pytest.mark.parametrize("rows", [32, 24])
@pytest.mark.parametrize("predicate", ["sgt", "ule"])
def test_masks_of_bytes_choose_between_half_words(predicate: str, rows: int, target: str) -> None:
    x = bytes_of(rows)
    y = (np.arange(rows * 200).reshape(rows, 200) % 256).astype(ml_dtypes.bfloat16)
    lowered = pallasite.lower(chosen(predicate, rows), form="vreg", target=target)
    (actual,) = pallasite.run(lowered, [x, y], form="vreg", target=target)
    mask = x > 10 if predicate == "sgt" else x.view(np.uint8) <= 10
    assert np.array_equal(actual, np.where(mask, y, 0).astype(y.dtype))
    assert "pack_vmsk" not in str(lowered)


@pytest.mark.jax
@pytest.mark.parametrize("target", TARGETS)
def test_the_compiler_takes_both(target: str, compiler: Any) -> None:
    for module in (extended("extsi", 64), extended("extui", 64)):
        assert asked(pallasite.lower(module, form="vreg", target=target), target, compiler).accepted
    if target in ("v5e", "v6e", "v7x"):
        lowered = pallasite.lower(chosen("sgt", 32), form="vreg", target=target)
        assert asked(lowered, target, compiler).accepted


CLIPPED = """%v = vector.load %a[%z, %z] : A, vector<32x128xf32>
    %low = arith.constant dense<-100.0> : vector<32x128xf32>
    %high = arith.constant dense<{high}> : vector<32x128xf32>
    %least = arith.maximumf %v, %low : vector<32x128xf32>
    %most = arith.minimumf %least, %high : vector<32x128xf32>
    %whole = math.roundeven %most : vector<32x128xf32>
    %r = arith.fptosi %whole : vector<32x128xf32> to vector<32x128xi8>
    tpu.vector_store %b[%z, %z], %r {{strides = array<i32>}} : B, vector<32x128xi8>,"""


@pytest.mark.parametrize(("high", "clips"), [("127.0", 1), ("127.25", 2)])
def test_what_is_clipped_is_not_clipped_again(high: str, clips: int) -> None:
    module = kernel(["32x128xf32", "32x128xi8"], CLIPPED.format(high=high))
    x = np.linspace(-300, 300, 4096, dtype=np.float32).reshape(32, 128)
    x[0, :3] = np.inf, -np.inf, 0.5
    lowered = pallasite.lower(module, form="vreg", target="v5e")
    (actual,) = pallasite.run(lowered, [x], form="vreg", target="v5e")
    assert np.array_equal(actual, np.clip(np.round(x), -100, 127).astype(np.int8))
    assert str(lowered).count("arith.minimumf") == 4 * clips
    assert str(lowered).count("arith.maximumf") == 4
