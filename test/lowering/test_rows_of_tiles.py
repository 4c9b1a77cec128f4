"""Packed rows that begin and end with the tiles of HBM are registers where memory is tiled so."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pallasite import api
from pallasite.frontend.aot import Compiler, compile_ahead_of_time
from pallasite.interpreter.options import Options
from pallasite.interpreter.run import execute
from pallasite.targets import get_target

from .memory_kernels import kernel
from .test_small_tiles import counted, ref, vector

TYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "i16": np.int16, "i8": np.int8}
PARTS = [
    ("bf16", (64, 256), 8, 16, 2), ("bf16", (64, 512), 8, 16, 4), ("bf16", (48, 200), 8, 24, 3),
    ("i16", (60, 256), 24, 24, 3), ("i8", (64, 512), 8, 16, 2), ("i8", (96, 256), 8, 48, 3),
]  # fmt: skip
"""Element, shape of an array, the rows taken of it, and the registers that hold them."""


def cut(shape: tuple[int, ...], first: int, rows: int, element: str) -> str:
    return (
        f"%p = vector.extract_strided_slice %x {{offsets = [{first}, 0], "
        f"sizes = [{rows}, {shape[1]}], strides = [1, 1]}} : {vector(shape, element)} to "
        f"{vector((rows, shape[1]), element)}"
    )


def taken(element: str, shape: tuple[int, ...], first: int, rows: int) -> ModuleOp:
    """Some rows of an array."""
    body = f"""%x = vector.load %a[%z, %z] : A, {vector(shape, element)}
    {cut(shape, first, rows, element)}
    vector.store %p, %b[%z, %z] : B, {vector((rows, shape[1]), element)}"""
    return kernel([ref(shape, element), ref((rows, shape[1]), element)], body)


def put(element: str, shape: tuple[int, ...], first: int, rows: int) -> ModuleOp:
    """Some rows of ones."""
    part = (rows, shape[1])
    one = "1.0" if element == "bf16" else "1"
    body = f"""%o = arith.constant dense<{one}> : {vector(shape, element)}
    vector.store %o, %b[%z, %z] : B, {vector(shape, element)}
    %x = vector.load %a[%z, %z] : A, {vector(part, element)}
    %r = arith.constant {first} : index
    vector.store %x, %b[%r, %z] : B, {vector(part, element)}"""
    return kernel([ref(part, element), ref(shape, element)], body)


def reshaped(element: str, old: tuple[int, ...], new: tuple[int, ...]) -> ModuleOp:
    body = f"""%x = vector.load %a[{", ".join(["%z"] * len(old))}] : A, {vector(old, element)}
    %y = vector.shape_cast %x : {vector(old, element)} to {vector(new, element)}
    vector.store %y, %b[{", ".join(["%z"] * len(new))}] : B, {vector(new, element)}"""
    return kernel([ref(old, element), ref(new, element)], body)


def gives(module: ModuleOp, target: str, x: Any, expected: Any) -> None:
    """Every form gives what is expected, whatever memory holds before."""
    for form in ("mosaic", "tiles", "vreg"):
        lowered = api.lower(module, form, target)
        for poison in (0, 1):
            ran = execute(lowered, [[x]], Options(poison=poison), target=get_target(target))
            np.testing.assert_array_equal(ran.outputs[0][0], expected)


def numbers(element: str, shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(5).integers(-99, 99, shape).astype(TYPES[element])


def moved(counts: Counter[str]) -> tuple[int, int, int]:
    """Loads, stores and shuffles."""
    return counts["tpu.load"], counts["tpu.store"], counts["tpu.sublane_shuffle"]


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize(("element", "shape", "first", "rows", "registers"), PARTS, ids=str)
def test_rows_are_taken(
    element: str, shape: tuple[int, ...], first: int, rows: int, registers: int, target: str
) -> None:
    module = taken(element, shape, first, rows)
    assert moved(counted(module, target)) == (registers, registers, 0)
    x = numbers(element, shape)
    gives(module, target, x, x[first : first + rows])


@pytest.mark.parametrize(("element", "shape", "first", "rows", "registers"), PARTS, ids=str)
def test_rows_are_put(
    element: str, shape: tuple[int, ...], first: int, rows: int, registers: int
) -> None:
    module = put(element, shape, first, rows)
    loads, _, shuffles = moved(counted(module, "v6e"))
    assert (loads, shuffles) == (registers, 0)
    x = numbers(element, (rows, shape[1]))
    expected = np.ones(shape, x.dtype)
    expected[first : first + rows] = x
    gives(module, "v6e", x, expected)


@pytest.mark.parametrize(
    ("element", "matrices"),
    [("bf16", (4, 8, 256)), ("bf16", (3, 8, 384)), ("i8", (4, 8, 256)), ("i8", (3, 16, 512)),
     ("i16", (2, 24, 256))],
    ids=str,
)  # fmt: skip
def test_matrices_become_rows_and_back(element: str, matrices: tuple[int, ...]) -> None:
    flat = (matrices[0] * matrices[1], matrices[2])
    for old, new in ((matrices, flat), (flat, matrices)):
        module, x = reshaped(element, old, new), numbers(element, old)
        loads, stores, shuffles = moved(counted(module, "v6e"))
        assert (loads, shuffles) == (stores, 0)
        gives(module, "v6e", x, x.reshape(new))


@pytest.mark.parametrize(
    ("element", "matrices"),
    [("bf16", (4, 8, 256)), ("bf16", (3, 8, 200)), ("i8", (5, 8, 128)), ("i16", (2, 24, 256))],
    ids=str,
)  # fmt: skip
def test_rows_are_reshaped_where_they_fill_registers(
    element: str, matrices: tuple[int, ...]
) -> None:
    """Rows of 32 bits are registers as they are."""
    flat = (matrices[0] * matrices[1], matrices[2])
    widen = "extf" if element == "bf16" else "sitofp"
    for old, new in ((matrices, flat), (flat, matrices)):
        begin, end = ", ".join(["%z"] * len(old)), ", ".join(["%z"] * len(new))
        body = f"""%x = vector.load %a[{begin}] : A, {vector(old, element)}
        %y = vector.shape_cast %x : {vector(old, element)} to {vector(new, element)}
        %w = arith.{widen} %y : {vector(new, element)} to {vector(new, "f32")}
        %s = arith.mulf %w, %w : {vector(new, "f32")}
        vector.store %s, %b[{end}] : B, {vector(new, "f32")}"""
        module, x = kernel([ref(old, element), ref(new, "f32")], body), numbers(element, old)
        assert not counted(module, "v6e")["tpu.sublane_shuffle"]
        gives(module, "v6e", x, np.square(x.astype(np.float32)).reshape(new))


@pytest.mark.parametrize(("first", "rows"), [(4, 16), (8, 20), (40, 20)])
def test_parts_of_tiles_are_none(first: int, rows: int) -> None:
    """They begin or end within a tile, be it the last one."""
    module, x = taken("bf16", (60, 256), first, rows), numbers("bf16", (60, 256))
    assert counted(module, "v5e")["tpu.sublane_shuffle"]
    gives(module, "v5e", x, x[first : first + rows])


@pytest.mark.aot
@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_the_compiler_takes_them(target: str, compiler: Compiler) -> None:
    for module in (
        taken("bf16", (48, 200), 8, 24), put("i8", (96, 256), 8, 48), put("bf16", (79, 256), 56, 23)
    ):  # fmt: skip
        lowered = api.lower(module, "vreg", target)
        topology = get_target(target).topology
        verdict = compile_ahead_of_time(
            lowered, topology=topology, layout_passes=False, compiler=compiler
        )
        assert verdict.accepted, verdict.message
