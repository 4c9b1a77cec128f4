"""Positions compared with constants are boxes, and argmax finds the first of equal values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pallasite

from .memory_kernels import kernel

SHAPE = (20, 400)
COMPARE = {
    "slt": np.less, "sle": np.less_equal, "sgt": np.greater, "sge": np.greater_equal,
    "eq": np.equal,
}  # fmt: skip


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("dim,bound", [(0, 13), (1, 130), (1, -2), (0, 99)])
@pytest.mark.parametrize("predicate", COMPARE)
def test_boxes(predicate: str, dim: int, bound: int, swapped: bool) -> None:
    operands = "%k, %i" if swapped else "%i, %k"
    module = kernel(
        ["20x400xi32", "20x400xi32"],
        f"""%i = tpu.iota {{dimensions = array<i32: {dim}>}} : vector<20x400xi32>
        %k = arith.constant dense<{bound}> : vector<20x400xi32>
        %m = arith.cmpi {predicate}, {operands} : vector<20x400xi32>
        %x = vector.load %a[%z, %z] : A, vector<20x400xi32>
        %y = arith.select %m, %x, %k : vector<20x400xi1>, vector<20x400xi32>
        tpu.vector_store %b[%z, %z], %y {{strides = array<i32>}} : B, vector<20x400xi32>,""",
    )
    x = np.arange(np.prod(SHAPE), dtype=np.int32).reshape(SHAPE)
    position = np.indices(SHAPE)[dim]
    sides = (bound, position) if swapped else (position, bound)
    lowered = pallasite.lower(module, form="vreg", target="v5e")
    (actual,) = pallasite.run(lowered, [x], form="vreg", target="v5e")
    assert np.array_equal(actual, np.where(COMPARE[predicate](*sides), x, bound))
    assert "cmpi" not in str(lowered)


@pytest.mark.parametrize("kind", ["arg_max", "arg_min"])
@pytest.mark.parametrize("offset,columns", [(0, 128), (0, 256), (100, 100), (20, 200), (3, 400)])
@pytest.mark.parametrize("axis", [0, 1])
def test_first_extremum(kind: str, offset: int, columns: int, axis: int) -> None:
    left = columns if axis == 0 else 8
    module = kernel(
        ["16x512xf32", f"1x{left}xi32"],
        f"""%x = vector.load %a[%z, %z] : A, vector<16x512xf32>
        %y = vector.extract_strided_slice %x {{offsets = [3, {offset}], sizes = [8, {columns}],
            strides = [1, 1]}} : vector<16x512xf32> to vector<8x{columns}xf32>
        %i = tpu.reduce_index %y {{axis = {axis} : i32, kind = #tpu.reduction_kind<{kind}>}}
            : vector<8x{columns}xf32> -> vector<{left}xi32>
        %j = vector.shape_cast %i : vector<{left}xi32> to vector<1x{left}xi32>
        tpu.vector_store %b[%z, %z], %j {{strides = array<i32>}} : B, vector<1x{left}xi32>,""",
    )
    x = np.random.default_rng(0).integers(0, 4, (16, 512)).astype(np.float32)
    part = x[3:11, offset : offset + columns]
    expected = (part.argmax if kind == "arg_max" else part.argmin)(axis)
    (actual,) = pallasite.run(
        pallasite.lower(module, form="vreg", target="v5e"), [x], form="vreg", target="v5e"
    )
    assert np.array_equal(actual[0], expected)


NANS = [[], [0], [5, 3], [-1], [140, 131], [133, 5], [131, 7], [-1, 140, 5], [-1, -2]]
"""Where along the axis NaN is, line by line: in no, the first, a middle and the last block."""


@pytest.mark.parametrize("form", ["mosaic", "vreg"])
@pytest.mark.parametrize("kind", ["arg_max", "arg_min"])
@pytest.mark.parametrize(
    "shape,axis",
    [((9, 128), 1), ((9, 200), 1), ((9, 256), 1), ((9, 400), 1), ((8, 128), 0), ((24, 130), 0),
     ((5, 9, 130), 0), ((2, 9, 200), 2)],
)  # fmt: skip
def test_the_first_nan_is_the_extremum(
    shape: tuple[int, ...], axis: int, kind: str, form: str
) -> None:
    kept = tuple(n for d, n in enumerate(shape) if d != axis)
    stored = (1,) * (2 - len(kept)) + kept
    source, found, result = ("x".join(map(str, dims)) for dims in (shape, kept, stored))
    module = kernel(
        [f"{source}xf32", f"{result}xi32"],
        f"""%x = vector.load %a[{", ".join(["%z"] * len(shape))}] : A, vector<{source}xf32>
        %i = tpu.reduce_index %x {{axis = {axis} : i32, kind = #tpu.reduction_kind<{kind}>}}
            : vector<{source}xf32> -> vector<{found}xi32>
        %j = vector.shape_cast %i : vector<{found}xi32> to vector<{result}xi32>
        tpu.vector_store %b[%z, %z], %j {{strides = array<i32>}} : B, vector<{result}xi32>,""",
    )
    x = np.random.default_rng(0).integers(-2, 3, shape).astype(np.float32)
    x[x == 2] = np.inf
    lines = np.moveaxis(x, axis, -1)
    for where, places in zip(np.ndindex(kept), itertools.cycle(NANS)):
        lines[where][[p % shape[axis] for p in places]] = np.nan
    expected = (x.argmax if kind == "arg_max" else x.argmin)(axis)
    lowered = pallasite.lower(module, form=form, target="v5e")
    (actual,) = pallasite.run(lowered, [x], form=form, target="v5e")
    assert np.array_equal(actual.reshape(kept), expected)
