"""Masks of words and of packed data meet in the width of the data that they choose."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pallasite
from pallasite.frontend.aot import Compiler, compile_ahead_of_time
from pallasite.targets import get_target

from .memory_kernels import kernel

TYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "i16": np.int16, "i8": np.int8}
LOGIC = {"andi": np.logical_and, "ori": np.logical_or, "xori": np.logical_xor}


def made(element: str, logic: str, shape: str, chosen: str) -> Any:
    """`where(LOGIC(x > y, w > 3), x, y)` of packed `x` and `y` and words `w`, or with `w` and 3."""
    kind, words, mask = (f"vector<{shape}x{name}>" for name in (element, "i32", "i1"))
    compared = "arith.cmpf ogt" if element == "bf16" else "arith.cmpi sgt"
    zeros = ", ".join(["%z"] * (shape.count("x") + 1))
    packed = chosen == element
    x, y = ("%x", "%y") if packed else ("%w", "%three")
    result = kind if packed else words
    return kernel(
        [f"{shape}x{element}", f"{shape}x{element}", f"{shape}xi32",
         f"{shape}x{chosen}"],
        f"""%x = vector.load %a[{zeros}] : A, {kind}
        %y = vector.load %b[{zeros}] : B, {kind}
        %w = vector.load %c[{zeros}] : C, {words}
        %three = arith.constant dense<3> : {words}
        %p = {compared}, %x, %y : {kind}
        %q = arith.cmpi sgt, %w, %three : {words}
        %m = arith.{logic} %p, %q : {mask}
        %r = arith.select %m, {x}, {y} : {mask}, {result}
        tpu.vector_store %d[{zeros}], %r {{strides = array<i32>}} : D, {result},""",
    )  # fmt: skip


def counts(module: Any) -> Counter[str]:
    return Counter(op.name for op in pallasite.lower(module, "vreg", "v6e").walk())


@pytest.mark.parametrize("chosen", ["packed", "words"])
@pytest.mark.parametrize("shape", ["32x256", "13x200", "3x2x46"])
@pytest.mark.parametrize("logic", LOGIC)
@pytest.mark.parametrize("element", TYPES)
def test_what_they_choose(element: str, logic: str, shape: str, chosen: str) -> None:
    module = made(element, logic, shape, element if chosen == "packed" else "i32")
    numbers, sizes = np.random.default_rng(0), [int(n) for n in shape.split("x")]
    x, y = (numbers.integers(-9, 9, sizes).astype(TYPES[element]) for _ in range(2))
    w = numbers.integers(-9, 9, sizes).astype(np.int32)
    mask = LOGIC[logic](x > y, w > 3)
    expected = np.where(mask, x, y) if chosen == "packed" else np.where(mask, w, 3)
    for form in ("mosaic", "vreg"):
        (found,) = pallasite.run(module, [x, y, w], form=form, target="v6e")
        np.testing.assert_array_equal(np.asarray(found), expected)


def test_a_packed_mask_stays_packed() -> None:
    """Masks of words are packed; the mask of packed data is not unpacked to be packed again. (v6e
    compares packed integers as words.)"""
    assert not counts(made("bf16", "andi", "32x256", "bf16"))["tpu.unpack_subelements"]
    assert counts(made("bf16", "andi", "32x256", "i32"))["tpu.unpack_subelements"]


@pytest.mark.aot
@pytest.mark.parametrize("shape", ["32x256", "3x2x46"])
@pytest.mark.parametrize("element", TYPES)
def test_the_compiler_takes_them(element: str, shape: str, compiler: Compiler) -> None:
    module = pallasite.lower(made(element, "andi", shape, element), "vreg", "v6e")
    topology = get_target("v6e").topology
    verdict = compile_ahead_of_time(
        module, topology=topology, layout_passes=False, compiler=compiler
    )
    assert verdict.accepted, verdict.message


def of_halves(shape: str) -> Any:
    """`where(x > y, u, v)` of bytes by half words."""
    halves, data, mask = (f"vector<{shape}x{name}>" for name in ("bf16", "i8", "i1"))
    zeros = ", ".join(["%z"] * (shape.count("x") + 1))
    return kernel(
        [f"{shape}xbf16", f"{shape}xbf16", f"{shape}xi8", f"{shape}xi8", f"{shape}xi8"],
        f"""%x = vector.load %a[{zeros}] : A, {halves}
        %y = vector.load %b[{zeros}] : B, {halves}
        %u = vector.load %c[{zeros}] : C, {data}
        %v = vector.load %d[{zeros}] : D, {data}
        %m = arith.cmpf ogt, %x, %y : {halves}
        %r = arith.select %m, %u, %v : {mask}, {data}
        tpu.vector_store %e[{zeros}], %r {{strides = array<i32>}} : E, {data},""",
    )


@pytest.mark.parametrize("shape", ["64x256", "32x128", "13x200", "3x2x46", "5x1x130"])
@pytest.mark.parametrize("target", ["v4", "v5e", "v6e", "v7x"])
def test_masks_of_half_words_choose_bytes(shape: str, target: str) -> None:
    numbers, sizes = np.random.default_rng(0), [int(n) for n in shape.split("x")]
    x, y = (numbers.integers(-3, 3, sizes).astype(TYPES["bf16"]) for _ in range(2))
    u, v = (numbers.integers(-128, 128, sizes).astype(np.int8) for _ in range(2))
    for form in ("mosaic", "tiles", "vreg"):
        (found,) = pallasite.run(of_halves(shape), [x, y, u, v], form=form, target=target)
        np.testing.assert_array_equal(np.asarray(found), np.where(x > y, u, v))


@pytest.mark.aot
@pytest.mark.parametrize("shape", ["64x256", "13x200", "3x2x46"])
def test_the_compiler_takes_masks_of_half_words(shape: str, compiler: Compiler) -> None:
    module, topology = pallasite.lower(of_halves(shape), "vreg", "v6e"), get_target("v6e").topology
    verdict = compile_ahead_of_time(
        module, topology=topology, layout_passes=False, compiler=compiler
    )
    assert verdict.accepted, verdict.message
