"""Rows that are added, or of which the largest is sought, are folded as whole registers where one
load takes a row of each of several matrices."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pallasite

from .memory_kernels import kernel

Array = NDArray[Any]
TARGETS = ["v4", "v5e", "v6e"]


def counts(text: str) -> Counter[str]:
    """How often operations of each name occur."""
    kinds = ("tpu.load", "tpu.all_reduce", "tpu.store", "arith.addf", "arith.maximumf")
    return Counter({kind: text.count(f"{kind} ") for kind in kinds})


def reduced(shape: tuple[int, int, int], kind: str, target: str) -> Counter[str]:
    """Reduces over the rows of matrices, checks the result, and counts operations."""
    matrices, rows, columns = shape
    before, after = f"{matrices}x{rows}x{columns}xf32", f"{matrices}x{columns}xf32"
    neutral = "0.0" if kind == "add" else "0xFF800000"
    module = kernel(
        [before, after],
        f"""%v = vector.load %a[%z, %z, %z] : A, vector<{before}>
        %n = arith.constant dense<{neutral}> : vector<{after}>
        %r = vector.multi_reduction <{kind}>, %v, %n [1] : vector<{before}> to vector<{after}>
        tpu.vector_store %b[%z, %z], %r {{strides = array<i32>}} : B, vector<{after}>,""",
    )
    value = np.random.default_rng(0).integers(-99, 99, shape).astype(np.float32)
    lowered = pallasite.lower(module, form="vreg", target=target)
    (actual,) = pallasite.run(lowered, [value], form="vreg", target=target)
    assert np.array_equal(actual, value.sum(1) if kind == "add" else value.max(1))
    return counts(str(lowered))


@pytest.mark.parametrize("kind", ["add", "maximumf"])
@pytest.mark.parametrize(
    "shape", [(8, 8, 128), (32, 8, 128), (16, 3, 128), (16, 7, 128), (11, 5, 96), (8, 2, 256)]
)
def test_one_register_holds_a_row_of_each_matrix(shape: tuple[int, int, int], kind: str) -> None:
    matrices, rows, columns = shape
    blocks = -(-matrices // 8) * -(-columns // 128)
    for target in ("v5e", "v6e"):
        found = reduced(shape, kind, target)
        assert found["tpu.all_reduce"] == 0
        assert found["tpu.load"] == rows * blocks
        assert found["arith.addf"] + found["arith.maximumf"] == (rows - 1) * blocks
        assert found["tpu.store"] == blocks


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(16, 8, 256), (8, 16, 128), (3, 8, 128), (2, 40, 128)])
def test_rows_in_the_same_banks_are_reduced_within_registers(
    shape: tuple[int, int, int], target: str
) -> None:
    found = reduced(shape, "add", target)
    assert found["tpu.all_reduce"] == shape[0] * -(-shape[2] // 128)
    assert found["tpu.load"] == shape[0] * -(-shape[1] // 8) * -(-shape[2] // 128)


@pytest.mark.parametrize("target", TARGETS)
def test_a_value_that_is_used_again_is_loaded_once(target: str) -> None:
    kind = "8x8x128xf32"
    module = kernel(
        [kind, kind],
        f"""%v = vector.load %a[%z, %z, %z] : A, vector<{kind}>
        %n = arith.constant dense<0.0> : vector<8x128xf32>
        %r = vector.multi_reduction <add>, %v, %n [1] : vector<{kind}> to vector<8x128xf32>
        %s = vector.shape_cast %r : vector<8x128xf32> to vector<8x1x128xf32>
        %t = vector.broadcast %s : vector<8x1x128xf32> to vector<{kind}>
        %d = arith.subf %v, %t : vector<{kind}>
        tpu.vector_store %b[%z, %z, %z], %d {{strides = array<i32>}} : B, vector<{kind}>,""",
    )
    value = np.random.default_rng(0).integers(-9, 9, (8, 8, 128)).astype(np.float32)
    lowered = pallasite.lower(module, form="vreg", target=target)
    (actual,) = pallasite.run(lowered, [value], form="vreg", target=target)
    assert np.array_equal(actual, value - value.sum(1, keepdims=True))
    assert counts(str(lowered))["tpu.load"] == 8


@pytest.mark.parametrize("matrices,rows", [(8, 8), (16, 8), (32, 3), (13, 5), (4, 8)])
@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_meet_are_loaded_together(matrices: int, rows: int, target: str) -> None:
    before, row = f"{matrices}x{rows}x128xf32", f"{matrices}x1x128xf32"
    after = f"{matrices}x128xf32"
    body = "".join(
        f"""%i{k} = arith.constant {k} : index
        %v{k} = vector.load %a[%z, %i{k}, %z] : A, vector<{row}>
        %x{k} = vector.shape_cast %v{k} : vector<{row}> to vector<{after}>
        """
        for k in (0, 2)
    )
    module = kernel(
        [before, after],
        body
        + f"""%s = arith.addf %x0, %x2 : vector<{after}>
        tpu.vector_store %b[%z, %z], %s {{strides = array<i32>}} : B, vector<{after}>,""",
    )
    value = np.random.default_rng(0).normal(size=(matrices, rows, 128)).astype(np.float32)
    lowered = pallasite.lower(module, form="vreg", target=target)
    (actual,) = pallasite.run(lowered, [value], form="vreg", target=target)
    assert np.array_equal(actual, value[:, 0] + value[:, 2])
    if target != "v4":
        blocks = -(-matrices // 8)
        found = counts(str(lowered))
        assert (found["tpu.load"], found["arith.addf"]) == (2 * blocks, blocks)
