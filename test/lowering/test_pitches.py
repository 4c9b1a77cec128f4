"""Matrices begin an odd number of rows apart where a transpose puts these on the sublanes."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import pallasite
from pallasite.passes.infer_memref_layout.driver import InferMemrefLayoutPass

from .memory_kernels import kernel

Array = NDArray[Any]
TYPES: dict[str, Any] = {
    "f32": np.float32, "bf16": ml_dtypes.bfloat16, "i16": np.int16, "i8": np.int8,
}  # fmt: skip


def values(shape: tuple[int, ...], element: str) -> Array:
    drawn = np.random.default_rng(1).integers(-100, 100, shape)
    return drawn.astype(TYPES[element])


def permuted(shape: tuple[int, ...], order: tuple[int, ...], element: str, first: str) -> ModuleOp:
    """A kernel that applies the operation `first` to all elements (or none), and then permutes."""
    before = "x".join(map(str, shape)) + f"x{element}"
    after = "x".join(str(shape[d]) for d in order) + f"x{element}"
    zeros, value = ", ".join(["%z"] * len(shape)), "%w" if first else "%v"
    compute = f"%w = {first} %v, %v : vector<{before}>" if first else ""
    return kernel(
        [before, after],
        f"""%v = vector.load %a[{zeros}] : A, vector<{before}>
        {compute}
        %r = vector.transpose {value}, {list(order)} : vector<{before}> to vector<{after}>
        tpu.vector_store %b[{zeros}], %r {{strides = array<i32>}} : B, vector<{after}>,""",
    )


def checked(module: ModuleOp, operand: Array, expected: Array, target: str) -> ModuleOp:
    lowered = pallasite.lower(module, form="vreg", target=target)
    (actual,) = pallasite.run(lowered, [operand], form="vreg", target=target)
    assert np.array_equal(actual, expected)
    return lowered


def count(module: ModuleOp, *names: str) -> int:
    return sum(len(re.findall(rf"\b{name} ", str(module))) for name in names)


SHAPES = [(16, 32, 128), (3, 40, 200), (8, 8, 256), (12, 7, 130), (33, 4, 64), (2, 24, 128)]


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("target", ["v4", "v5e", "v6e"])
def test_exchanged_dimensions(shape: tuple[int, ...], element: str, target: str):
    value = values(shape, element)
    module = permuted(shape, (1, 0, 2), element, "")
    checked(module, value, value.transpose(1, 0, 2), target)


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (2, 0, 1, 3), (2, 1, 0, 3), (1, 2, 0, 3)])
@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
def test_four_dimensions(order: tuple[int, ...], element: str):
    value = values((4, 8, 16, 128), element)
    module = permuted(value.shape, order, element, "")
    lowered = checked(module, value, value.transpose(order), "v5e")
    assert count(lowered, "tpu.sublane_shuffle", "arith.select") == 0


@pytest.mark.parametrize("first", ["", "arith.addf"])
def test_words_are_only_loaded_and_stored(first: str):
    value = values((16, 32, 128), "f32")
    module = permuted(value.shape, (1, 0, 2), "f32", first)
    twice = value + value if first else value
    lowered = checked(module, twice if not first else value, twice.transpose(1, 0, 2), "v5e")
    assert (count(lowered, "tpu.load"), count(lowered, "tpu.store")) == (64, 64)
    assert count(lowered, "tpu.sublane_shuffle", "arith.select") == 0


@pytest.mark.parametrize(("element", "loads"), [("bf16", 32), ("i8", 16)])
def test_words_of_packed_rows_are_taken_apart(element: str, loads: int):
    value = values((16, 32, 128), element)
    module = permuted(value.shape, (1, 0, 2), element, "")
    lowered = checked(module, value, value.transpose(1, 0, 2), "v5e")
    packed = count(lowered, "tpu.pack_subelements")
    assert (count(lowered, "tpu.load"), packed, count(lowered, "tpu.store")) == (loads, 32, 32)
    assert count(lowered, "tpu.sublane_shuffle", "arith.select") == 0


def test_few_matrices_of_bytes_are_moved():
    # Taking all words apart would cost more than moving rows of both matrices.
    value = values((2, 64, 256), "i8")
    module = permuted(value.shape, (1, 0, 2), "i8", "")
    lowered = checked(module, value, value.transpose(1, 0, 2), "v5e")
    assert count(lowered, "tpu.pack_subelements") < 64


@pytest.mark.parametrize(
    ("matrices", "tile"), [(256, "(2,128)(2,1),[17,1,1]"), (640, "(16,128)(2,1),[2,1,1]")]
)
def test_buffers_that_fill_most_of_memory_stay_dense(matrices: int, tile: str):
    module = permuted((matrices, 32, 128), (1, 0, 2), "bf16", "")
    buffers = pallasite.lower(module, form="dma", target="v5e")
    InferMemrefLayoutPass(target="v5e").apply(Context(), buffers)
    found = re.search(r"%a_window = .*tiled<(.*?)>", str(buffers))
    assert found is not None and found[1] == tile


@pytest.mark.parametrize("heads", [2, 8, 16])
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_columns_become_heads(heads: int, element: str):
    value = values((24, heads * 128), element)
    before, after = f"24x{heads * 128}x{element}", f"24x{heads}x128x{element}"
    module = kernel(
        [before, after],
        f"""%v = vector.load %a[%z, %z] : A, vector<{before}>
        %r = vector.shape_cast %v : vector<{before}> to vector<{after}>
        tpu.vector_store %b[%z, %z, %z], %r {{strides = array<i32>}} : B, vector<{after}>,""",
    )
    checked(module, value, value.reshape(24, heads, 128), "v5e")
