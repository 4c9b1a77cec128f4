"""Whole tiles of matrices of few rows move among rows of 128; rows and columns are spread there."""

from __future__ import annotations

from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pallasite
from pallasite.dialects import tpu
from pallasite.frontend.aot import compile_ahead_of_time
from pallasite.targets import get_target

from .memory_kernels import kernel

TYPES: dict[str, Any] = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "i32": np.int32}
CASES = [
    ("f32", (2, 384), "none"), ("f32", (1, 256), "none"), ("f32", (3, 128), "none"),
    ("f32", (5, 2, 256), "row"), ("f32", (4, 2, 256), "column"), ("f32", (2, 4, 300), "column"),
    ("i32", (3, 2, 128), "number"), ("bf16", (8, 256), "column"), ("bf16", (3, 8, 256), "row"),
    ("bf16", (2, 4, 200), "number"), ("bf16", (3, 300), "none"), ("f32", (20, 256), "row"),
]  # fmt: skip
"""Element, shape of half of what is loaded, and what is spread over it."""


def halves(element: str, shape: tuple[int, ...], spread: str) -> tuple[ModuleOp, list[Any], Any]:
    """A kernel of both halves of the columns, its operands, and its result."""
    add = "arith.addi" if element == "i32" else "arith.addf"
    *outer, rows, columns = shape
    first = -(-columns // 128) * 128
    sizes = {"row": (1, columns), "column": (rows, 1), "number": (1, 1), "none": (1, 1)}
    other = (*[1] * len(outer), *sizes[spread])
    whole, joined = (*outer, rows, first + columns), (*outer, rows, first + columns)

    def kind(s: tuple[int, ...]) -> str:
        return f"vector<{'x'.join(map(str, s))}x{element}>"

    def part(name: str, start: int, size: int, old: tuple[int, ...]) -> str:
        begin, sizes = [0] * len(old), [*old[:-1], size]
        begin[-1] = start
        return (
            f"{name} = vector.extract_strided_slice %x {{offsets = {begin}, sizes = {sizes}, "
            f"strides = {[1] * len(old)}}} : {kind(old)} to {kind(tuple(sizes))}"
        )

    zeros = ", ".join(["%z"] * len(shape))
    lines = [
        f"%x = vector.load %a[{zeros}] : A, {kind(whole)}",
        part("%left", 0, first, whole), part("%cut", 0, columns, whole),
        part("%right", first, columns, whole),
        f"%y = {add} %cut, %right : {kind(shape)}",
    ]  # fmt: skip
    if spread != "none":
        lines += [
            f"%r = vector.load %b[{zeros}] : B, {kind(other)}",
            f"%s = vector.broadcast %r : {kind(other)} to {kind(shape)}",
            f"%w = {add} %y, %s : {kind(shape)}",
        ]
    last = "%w" if spread != "none" else "%y"
    wide = (*shape[:-1], first)
    lines += [
        f"%l = {add} %left, %left : {kind(wide)}",
        f"%j = tpu.concatenate %l, {last} in {len(shape) - 1} : {kind(wide)}, {kind(shape)} -> "
        f"{kind(joined)}",
        f"tpu.vector_store %c[{zeros}], %j {{strides = array<i32>}} : C, {kind(joined)},",
    ]
    x = (np.arange(prod(whole)).reshape(whole) * 7 % 11 - 5).astype(TYPES[element])
    r = (np.arange(prod(other)).reshape(other) * 3 % 5 - 2).astype(TYPES[element])
    y = x[..., :columns] + x[..., first:] + (r if spread != "none" else np.zeros_like(r))
    refs = ["x".join(map(str, s)) + f"x{element}" for s in (whole, other, joined)]
    result = np.concatenate([2 * x[..., :first].astype(x.dtype), y], -1)
    return kernel(refs, "\n    ".join(lines)), [x, r], result


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_tiles_are_where_they_belong(case: tuple[str, tuple[int, ...], str], target: str) -> None:
    module, operands, expected = halves(*case)
    lowered = pallasite.lower(module, form="vreg", target=target, allow_beyond_reference=True)
    (actual,) = pallasite.run(lowered, operands, form="vreg", target=target)
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize("case", [CASES[0], CASES[3], CASES[4]], ids=str)
def test_registers_are_full(case: tuple[str, tuple[int, ...], str]) -> None:
    lowered = pallasite.lower(halves(*case)[0], form="vreg", target="v6e")
    # A register may be stored from several: at one place, of which each takes some sublanes.
    places = {op.indices for op in lowered.walk() if isinstance(op, tpu.StoreOp)}
    *outer, rows, columns = case[1]
    assert len(places) == prod(outer) * -(-rows * 2 * columns // (8 * 128))


@pytest.mark.aot
@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("case", CASES[::3], ids=str)
def test_the_compiler_takes_them(
    case: tuple[str, tuple[int, ...], str], target: str, compiler: Any
) -> None:
    lowered = pallasite.lower(halves(*case)[0], form="vreg", target=target)
    topology = get_target(target).topology
    verdict = compile_ahead_of_time(
        lowered, topology=topology, layout_passes=False, compiler=compiler
    )
    assert verdict.accepted, verdict.message


def test_what_is_the_same_everywhere_repeats_no_row() -> None:
    kind = "vector<2x1x96xi32>"
    text = f"""%v = vector.load %a[%z, %z, %z] : A, vector<3x1x96xi32>
    %s = vector.extract_strided_slice %v {{offsets = [1], sizes = [2], strides = [1]}}
        : vector<3x1x96xi32> to {kind}
    %c = arith.constant dense<7> : {kind}
    %w = arith.maxsi %s, %c : {kind}
    %x = arith.minsi %w, %s : {kind}
    tpu.vector_store %b[%z, %z, %z], %x {{strides = array<i32>}} : B, {kind},"""
    module = kernel(["3x1x96xi32", "2x1x96xi32"], text)
    names = [op.name for op in pallasite.lower(module, form="vreg", target="v5e").walk()]
    assert names.count("tpu.load") == names.count("tpu.store") == 2
    assert "tpu.sublane_shuffle" not in names


SOURCES = [
    ("bf16", (24, 256), (1, 256)), ("bf16", (24, 256), (24, 1)), ("bf16", (2, 24, 256), (2, 24, 1)),
    ("bf16", (2, 24, 256), (1, 1, 256)), ("f32", (2, 200), (1, 200)),
]  # fmt: skip


@pytest.mark.parametrize(("element", "shape", "source"), SOURCES, ids=str)
def test_rows_and_columns_of_several_tiles_are_spread(
    element: str, shape: tuple[int, ...], source: tuple[int, ...]
) -> None:
    """Where rows of 128 are not rows of one tile, arrays keep their shape."""
    whole, part = ("x".join(map(str, s)) + f"x{element}" for s in (shape, source))
    zeros = ", ".join(["%z"] * len(shape))
    text = f"""%v = vector.load %a[{zeros}] : A, vector<{whole}>
    %r = vector.load %b[{zeros}] : B, vector<{part}>
    %s = vector.broadcast %r : vector<{part}> to vector<{whole}>
    %w = arith.addf %v, %s : vector<{whole}>
    tpu.vector_store %c[{zeros}], %w {{strides = array<i32>}} : C, vector<{whole}>,"""
    x, r = (np.arange(prod(s)).reshape(s) % 7 - 3 for s in (shape, source))
    inputs = [v.astype(TYPES[element]) for v in (x, r)]
    (actual,) = pallasite.run(kernel([whole, part, whole], text), inputs, form="vreg", target="v6e")
    assert np.array_equal(actual, x + r)


@pytest.mark.parametrize(
    ("element", "shape", "columns"),
    [("f32", (2, 328), 200), ("bf16", (2, 24, 384), 128), ("bf16", (24, 384), 256)],
    ids=str,
)
def test_columns_that_are_no_rows_are_concatenated(
    element: str, shape: tuple[int, ...], columns: int
) -> None:
    """Because they end within a tile, or there are several rows of tiles."""
    parts = [(*shape[:-1], columns), (*shape[:-1], shape[-1] - columns)]
    left, right, whole = (f"vector<{'x'.join(map(str, s))}x{element}>" for s in (*parts, shape))
    zeros = ", ".join(["%z"] * len(shape))
    text = f"""%v = vector.load %a[{zeros}] : A, {left}
    %w = vector.load %b[{zeros}] : B, {right}
    %x = arith.addf %v, %v : {left}
    %y = arith.addf %w, %w : {right}
    %j = tpu.concatenate %x, %y in {len(shape) - 1} : {left}, {right} -> {whole}
    %k = arith.addf %j, %j : {whole}
    tpu.vector_store %c[{zeros}], %k {{strides = array<i32>}} : C, {whole},"""
    inputs = [(np.arange(prod(s)).reshape(s) % 7 - 3).astype(TYPES[element]) for s in parts]
    refs = ["x".join(map(str, s)) + f"x{element}" for s in (*parts, shape)]
    (actual,) = pallasite.run(kernel(refs, text), inputs, form="vreg", target="v6e")
    assert np.array_equal(actual, 4 * np.concatenate(inputs, -1))
