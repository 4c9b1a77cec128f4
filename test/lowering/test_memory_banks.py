"""Rows at a distance are loaded and stored at once, unless they would wait for one another."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

import pallasite
from pallasite.targets import get_target

from .memory_kernels import kernel

Array = NDArray[Any]
TYPES: dict[str, Any] = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}


@pytest.mark.parametrize(
    ("target", "times"),
    [("v4", [1, 1, 1, 2, 4, 8, 1, 4, 8]), ("v5e", [1, 1, 1, 1, 2, 4, 1, 2, 8])],
)
def test_accesses(target: str, times: list[int]):
    strides = (0, 1, 2, 4, 8, 16, 31, 24, 64)
    assert [get_target(target).row_accesses(stride) for stride in strides] == times


def strides(module: ModuleOp, kind: str) -> set[int]:
    """The distances of rows that operations of a kind have; 1 where none is written."""
    lines = [line for line in str(module).splitlines() if f"tpu.{kind} " in line]
    found = [re.search(r"sublane_stride (\d+)", line) for line in lines]
    return {int(match[1]) if match else 1 for match in found}


def transposed(shape: tuple[int, int, int], target: str, element: str = "f32") -> ModuleOp:
    """Lowers the exchange of the first two dimensions, and checks what it computes."""
    a, b, n = shape
    before, after = f"{a}x{b}x{n}x{element}", f"{b}x{a}x{n}x{element}"
    module = kernel(
        [before, after],
        f"""%v = vector.load %a[%z, %z, %z] : A, vector<{before}>
        %r = tpu.transpose %v, [1, 0, 2] : vector<{before}> -> vector<{after}>
        tpu.vector_store %b[%z, %z, %z], %r {{strides = array<i32>}} : B, vector<{after}>,""",
    )
    return checked(module, shape, target, lambda x: x.transpose(1, 0, 2), TYPES[element])


def checked(
    module: ModuleOp, shape: tuple[int, ...], target: str, answer: Any, kind: Any = np.float32
) -> ModuleOp:
    value = np.random.default_rng(0).normal(size=shape).astype(kind)
    lowered = pallasite.lower(module, form="vreg", target=target)
    (actual,) = pallasite.run(lowered, [value], form="vreg", target=target)
    assert np.array_equal(actual, answer(value))
    return lowered


@pytest.mark.parametrize(
    ("shape", "loads", "stores"),
    [
        # Eight of four rows each lie in banks of their own.
        ((4, 16, 128), {1}, {4}),
        # Matrices of an even number of rows begin an odd number apart.
        ((16, 24, 128), {25}, {1}),
        ((32, 32, 128), {33}, {1}),
    ],
)
def test_transposes_access_memory_where_that_is_fast(
    shape: tuple[int, int, int], loads: set[int], stores: set[int]
):
    lowered = transposed(shape, "v5e")
    assert (strides(lowered, "load"), strides(lowered, "store")) == (loads, stores)


@pytest.mark.parametrize(
    ("shape", "loads"),
    [
        ((8, 16, 128), {9}),
        ((6, 40, 128), {21}),
        ((16, 32, 256), {17}),
        ((12, 20, 256), {11}),
    ],
)
def test_words_of_transposes_are_loaded_where_that_is_fast(
    shape: tuple[int, int, int], loads: set[int]
):
    assert strides(transposed(shape, "v5e", "bf16"), "load") == loads


@pytest.mark.parametrize("target", ["v4", "v5e", "v6e"])
@pytest.mark.parametrize("shape", [(8, 8, 128), (12, 20, 256), (7, 9, 200)])
def test_transposes_are_right(shape: tuple[int, int, int], target: str):
    transposed(shape, target)


@pytest.mark.parametrize("times", [4, 24, 32])
def test_broadcast_rows_are_stored_apart(times: int):
    result = f"8x{times}x256xf32"
    module = kernel(
        ["8x256xf32", result],
        f"""%v = vector.load %a[%z, %z] : A, vector<8x256xf32>
        %m = vector.shape_cast %v : vector<8x256xf32> to vector<8x1x256xf32>
        %r = vector.broadcast %m : vector<8x1x256xf32> to vector<{result}>
        tpu.vector_store %b[%z, %z, %z], %r {{strides = array<i32>}} : B, vector<{result}>,""",
    )
    lowered = checked(module, (8, 256), "v5e", lambda x: np.repeat(x[:, None], times, axis=1))
    assert (strides(lowered, "load"), strides(lowered, "store")) == ({1}, {times + 1})
