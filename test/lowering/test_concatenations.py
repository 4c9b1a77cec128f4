"""Slices of concatenations take the operands; equal rows and columns are broadcast."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

import pallasite

from .memory_kernels import kernel

TYPES: dict[str, Any] = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "i8": np.int8}


def checked(module: ModuleOp, arrays: list[NDArray[Any]], expected: NDArray[Any]) -> str:
    """The registers on v5e, which must compute what is expected on all targets."""
    for target in ("v4", "v5e", "v6e"):
        lowered = pallasite.lower(module, form="vreg", target=target)
        (actual,) = pallasite.run(lowered, arrays, form="vreg", target=target)
        assert np.array_equal(actual, expected)
    return str(pallasite.lower(module, form="vreg", target="v5e"))


def values(shape: tuple[int, ...], element: str) -> NDArray[Any]:
    return np.random.default_rng(2).integers(-99, 99, shape).astype(TYPES[element])


def sliced(
    shapes: list[tuple[int, ...]], dim: int, offsets: list[int], sizes: list[int], element: str
) -> tuple[ModuleOp, list[NDArray[Any]], NDArray[Any]]:
    """A slice of the concatenation of arrays, the arrays, and what it is."""
    kinds = ["x".join(map(str, s)) + f"x{element}" for s in shapes]
    arrays = [values(s, element) for s in shapes]
    joined = np.concatenate(arrays, dim)
    whole = "x".join(map(str, joined.shape)) + f"x{element}"
    part = "x".join(map(str, sizes)) + f"x{element}"
    names = "abc"[: len(shapes)]
    loads = "".join(
        f"%v{n} = vector.load %{n}[%z, %z] : {n.upper()}, vector<{k}>\n"
        for n, k in zip(names, kinds, strict=True)
    )
    last = "abcd"[len(shapes)]
    module = kernel(
        [*kinds, part],
        f"""{loads}
        %joined = tpu.concatenate {", ".join(f"%v{n}" for n in names)} in {dim}
            : {", ".join(f"vector<{k}>" for k in kinds)} -> vector<{whole}>
        %s = vector.extract_strided_slice %joined {{offsets = {offsets}, sizes = {sizes},
            strides = [1, 1]}} : vector<{whole}> to vector<{part}>
        tpu.vector_store %{last}[%z, %z], %s {{strides = array<i32>}} : {last.upper()},
            vector<{part}>,""",
    )
    box = tuple(slice(o, o + n) for o, n in zip(offsets, sizes, strict=True))
    return module, arrays, joined[box]


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize(
    ("shapes", "dim", "offsets", "sizes"),
    [
        ([(4, 128), (4, 2)], 1, [0, 0], [4, 128]),
        ([(16, 128), (16, 40)], 1, [0, 130], [16, 30]),
        ([(8, 200), (5, 200)], 0, [2, 3], [6, 100]),
        ([(8, 200), (5, 200), (9, 200)], 0, [3, 0], [9, 200]),
        ([(8, 200), (5, 200), (9, 200)], 0, [10, 0], [11, 200]),
        ([(8, 200), (5, 200), (9, 200)], 0, [1, 7], [20, 130]),
        ([(8, 100), (8, 57), (8, 131)], 1, [2, 99], [5, 3]),
    ],
)
def test_slices_take_parts(
    shapes: list[tuple[int, ...]], dim: int, offsets: list[int], sizes: list[int], element: str
):
    checked(*sliced(shapes, dim, offsets, sizes, element))


def test_a_slice_of_one_operand_puts_nothing_together():
    registers = checked(*sliced([(4, 128), (4, 2)], 1, [0, 0], [4, 128], "f32"))
    assert "arith.select" not in registers and "rotate" not in registers


@pytest.mark.parametrize("times", [2, 3, 128, 200])
@pytest.mark.parametrize(("dim", "kept"), [(1, "32"), (0, "32")])
def test_equal_columns_and_rows_are_broadcast(dim: int, kept: str, times: int):
    one, many = ("32x1", f"32x{times}") if dim else ("1x32", f"{times}x32")
    module = kernel(
        ["32x32xf32", f"{many}xf32"],
        f"""%v = vector.load %a[%z, %z] : A, vector<32x32xf32>
        %i = arith.constant dense<0.0> : vector<{kept}xf32>
        %r = vector.multi_reduction <add>, %v, %i [{dim}] : vector<32x32xf32> to vector<{kept}xf32>
        %k = vector.shape_cast %r : vector<{kept}xf32> to vector<{one}xf32>
        %joined = tpu.concatenate {", ".join(["%k"] * times)} in {dim}
            : {", ".join([f"vector<{one}xf32>"] * times)} -> vector<{many}xf32>
        tpu.vector_store %b[%z, %z], %joined {{strides = array<i32>}} : B, vector<{many}xf32>,""",
    )
    value = values((32, 32), "f32")
    expected = np.repeat(value.sum(dim, keepdims=True), times, dim)
    registers = checked(module, [value], expected)
    assert "dynamic_gather" not in registers and "rotate" not in registers
