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


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("spread", [False, True])
def test_columns_that_are_only_stored_are_not_spread(spread: bool, target: str) -> None:
    """A loaded column meets sums, which are in all lanes: only what is spread again must be so."""
    wide = """%w = vector.broadcast %u : vector<16x1xf32> to vector<16x128xf32>
        %v = arith.addf %x, %w : vector<16x128xf32>
        tpu.vector_store %a[%z, %z], %v {strides = array<i32>} : A, vector<16x128xf32>,"""
    module = kernel(
        ["16x128xf32", "16x1xf32", "16x1xf32"],
        f"""%x = vector.load %a[%z, %z] : A, vector<16x128xf32>
        %y = vector.load %b[%z, %z] : B, vector<16x1xf32>
        %zero = arith.constant dense<0.0> : vector<16xf32>
        %t = vector.multi_reduction <add>, %x, %zero [1] : vector<16x128xf32> to vector<16xf32>
        %s = vector.shape_cast %t : vector<16xf32> to vector<16x1xf32>
        %u = arith.addf %s, %y : vector<16x1xf32>
        {wide if spread else ""}
        %n = arith.negf %u : vector<16x1xf32>
        tpu.vector_store %c[%z, %z], %n {{strides = array<i32>}} : C, vector<16x1xf32>,""",
    )
    lowered = pallasite.lower(module, form="vreg", target=target)
    x = values(16, 128)[0]
    y = np.arange(16, dtype=np.float32)[:, None]
    (actual,) = pallasite.run(lowered, [x, y], form="vreg", target=target)
    assert np.array_equal(actual, -(x.sum(1, keepdims=True) + y))
    gathers = sum(isinstance(op, DynamicGatherOp) for op in lowered.walk())
    assert gathers == (2 if spread else 0)
