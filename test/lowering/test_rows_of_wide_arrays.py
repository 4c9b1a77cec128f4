"""A row of an array of several columns of tiles fills registers: it is accessed at the distance of
tiles."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

import pallasite

from .memory_kernels import kernel

TYPES: dict[str, tuple[Any, str]] = {
    "f32": (np.float32, "arith.addf"), "bf16": (ml_dtypes.bfloat16, "arith.addf"),
    "i32": (np.int32, "arith.addi"), "i16": (np.int16, "arith.addi"),
}  # fmt: skip


def values(shape: tuple[int, ...], element: str) -> NDArray[Any]:
    return np.random.default_rng(3).integers(-60, 60, shape).astype(TYPES[element][0])


def in_place(shape: tuple[int, int], row: int, rows: int, element: str) -> ModuleOp:
    """Copies `a` to the result, and adds `b` to `rows` of its rows."""
    whole, part = f"{shape[0]}x{shape[1]}x{element}", f"{rows}x{shape[1]}x{element}"
    return kernel(
        [whole, part, whole],
        f"""%v = vector.load %a[%z, %z] : A, vector<{whole}>
        tpu.vector_store %c[%z, %z], %v {{strides = array<i32>}} : C, vector<{whole}>,
        %r = arith.constant {row} : index
        %w = vector.load %c[%r, %z] : C, vector<{part}>
        %y = vector.load %b[%z, %z] : B, vector<{part}>
        %s = {TYPES[element][1]} %w, %y : vector<{part}>
        tpu.vector_store %c[%r, %z], %s {{strides = array<i32>}} : C, vector<{part}>,""",
    )


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("shape", [(24, 512), (4, 384), (16, 1100), (40, 200), (8, 128)])
@pytest.mark.parametrize(("row", "rows"), [(0, 1), (3, 1), (2, 2), (1, 2)])
@pytest.mark.parametrize("target", ["v4", "v6e"])
def test_rows_in_place(shape: tuple[int, int], row: int, rows: int, element: str, target: str):
    a, b = values(shape, element), values((rows, shape[1]), element)
    module = in_place(shape, row, rows, element)
    lowered = pallasite.lower(module, form="vreg", target=target)
    (actual,) = pallasite.run(lowered, [a, b], form="vreg", target=target)
    expected = a.copy()
    expected[row : row + rows] += b
    assert np.array_equal(actual, expected)


def test_four_tiles_of_a_row_share_a_register():
    lowered = str(pallasite.lower(in_place((24, 512), 0, 1, "f32"), form="vreg", target="v5e"))
    # Twelve registers are copied; the rows take one register each.
    assert (lowered.count("tpu.load "), lowered.count("tpu.store ")) == (14, 13)
    assert lowered.count("arith.addf ") == 1


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("row", [0, 5, 6])
def test_rows_of_three_dimensions(row: int, element: str):
    value = values((3, 16, 640), element)
    module = kernel(
        [f"3x16x640x{element}", f"3x1x640x{element}"],
        f"""%r = arith.constant {row} : index
        %v = vector.load %a[%z, %r, %z] : A, vector<3x1x640x{element}>
        %s = {TYPES[element][1]} %v, %v : vector<3x1x640x{element}>
        tpu.vector_store %b[%z, %z, %z], %s {{strides = array<i32>}} : B,
            vector<3x1x640x{element}>,""",
    )
    for target in ("v4", "v5e", "v6e"):
        lowered = pallasite.lower(module, form="vreg", target=target)
        (actual,) = pallasite.run(lowered, [value], form="vreg", target=target)
        assert np.array_equal(actual, value[:, row : row + 1] * 2)
