"""Operands that lie differently meet where that takes the fewest register operations."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pallasite
from pallasite.dialects.tpu import DynamicGatherOp

from .memory_kernels import kernel


def sums_as_row(rows: int, columns: int) -> ModuleOp:
    """The sums of `columns` rows, one after the other in a row, added to each row of a matrix."""
    return kernel(
        [f"{rows}x{columns}xf32", f"{columns}x128xf32", f"{rows}x{columns}xf32"],
        f"""%x = vector.load %a[%z, %z] : A, vector<{rows}x{columns}xf32>
        %y = vector.load %b[%z, %z] : B, vector<{columns}x128xf32>
        %zero = arith.constant dense<0.0> : vector<{columns}xf32>
        %t = vector.multi_reduction <add>, %y, %zero [1]
            : vector<{columns}x128xf32> to vector<{columns}xf32>
        %row = vector.shape_cast %t : vector<{columns}xf32> to vector<1x{columns}xf32>
        %all = vector.broadcast %row : vector<1x{columns}xf32> to vector<{rows}x{columns}xf32>
        %s = arith.addf %x, %all : vector<{rows}x{columns}xf32>
        tpu.vector_store %c[%z, %z], %s {{strides = array<i32>}}
            : C, vector<{rows}x{columns}xf32>,""",
    )


def values(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    shapes = ((rows, columns), (columns, 128))
    x, y = (random.integers(-9, 9, shape).astype(np.float32) for shape in shapes)
    return x, y


@pytest.mark.parametrize("rows,columns", [(16, 128), (16, 40), (4, 300), (1, 8)])
@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_sums_are_moved_before_they_are_copied(target: str, rows: int, columns: int) -> None:
    module = sums_as_row(rows, columns)
    x, y = values(rows, columns)
    lowered = pallasite.lower(module, form="vreg", target=target)
    (actual,) = pallasite.run(lowered, [x, y], form="vreg", target=target)
    assert np.array_equal(actual, x + y.sum(1))
    # One gather per register of the row, none per row of the matrix.
    gathers = sum(isinstance(op, DynamicGatherOp) for op in lowered.walk())
    assert gathers <= 16 * (-(-columns // 128))


@pytest.mark.parametrize("kind", ["arg_max", "arg_min"])
@pytest.mark.parametrize("rows,columns", [(16, 128), (16, 40), (4, 300), (8, 8)])
def test_places_are_counted_wherever_the_dimension_lies(kind: str, rows: int, columns: int) -> None:
    module = kernel(
        [f"{columns}x128xf32", f"{columns}x1xi32"],
        f"""%y = vector.load %a[%z, %z] : A, vector<{columns}x128xf32>
        %zero = arith.constant dense<0.0> : vector<{columns}xf32>
        %t = vector.multi_reduction <add>, %y, %zero [1]
            : vector<{columns}x128xf32> to vector<{columns}xf32>
        %row = vector.shape_cast %t : vector<{columns}xf32> to vector<1x{columns}xf32>
        %i = tpu.reduce_index %row {{axis = 1 : i32, kind = #tpu.reduction_kind<{kind}>}}
            : vector<1x{columns}xf32> -> vector<1xi32>
        %j = vector.shape_cast %i : vector<1xi32> to vector<1x1xi32>
        %k = vector.broadcast %j : vector<1x1xi32> to vector<{columns}x1xi32>
        tpu.vector_store %b[%z, %z], %k {{strides = array<i32>}} : B, vector<{columns}x1xi32>,""",
    )
    _, y = values(rows, columns)
    sums = y.sum(1)
    expected = sums.argmax() if kind == "arg_max" else sums.argmin()
    (actual,) = pallasite.run(module, [y], form="vreg", target="v5e")
    assert np.array_equal(actual, np.full((columns, 1), expected))
