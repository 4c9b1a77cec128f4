"""Arrays stacked along the lanes are joined before they are turned; equal ones are moved once."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

import pallasite

from .memory_kernels import kernel

Array = NDArray[Any]
TYPES: dict[str, Any] = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "i8": np.int8}


def joined(shape: tuple[int, ...], element: str, order: str, unit: bool, dim: int) -> ModuleOp:
    """A kernel that concatenates its operands named in `order`, perhaps with a last dimension."""
    names = sorted(set(order))
    part = (*shape, 1) if unit else shape
    whole = (*part[:dim], part[dim] * len(order), *part[dim + 1 :])
    text = ["x".join(map(str, s)) + "x" + element for s in (shape, part, whole)]
    zeros = [", ".join(["%z"] * len(s)) for s in (shape, whole)]
    body = [f"%l{n} = vector.load %{n}[{zeros[0]}] : {n.upper()}, vector<{text[0]}>" for n in names]
    for number, name in enumerate(order):
        cast = f"vector.shape_cast %l{name} : vector<{text[0]}> to vector<{text[1]}>"
        body.append(f"%p{number} = {cast}")
    operands = ", ".join(f"%p{n}" for n in range(len(order)))
    types = ", ".join([f"vector<{text[1]}>"] * len(order))
    body.append(f"%r = tpu.concatenate {operands} in {dim} : {types} -> vector<{text[2]}>")
    result = chr(ord("a") + len(names))
    body.append(
        f"tpu.vector_store %{result}[{zeros[1]}], %r {{strides = array<i32>}} : "
        f"{result.upper()}, vector<{text[2]}>,"
    )
    return kernel([text[0]] * len(names) + [text[2]], "\n    ".join(body))


def moves(
    shape: tuple[int, ...], element: str, order: str, target: str, unit: bool = True, dim: int = -1
) -> Counter[str]:
    """What is done to registers, once the answer is checked."""
    dim = dim if dim >= 0 else len(shape) + unit - 1
    module = joined(shape, element, order, unit, dim)
    lowered = pallasite.lower(module, form="vreg", target=target, allow_beyond_reference=True)
    names = sorted(set(order))
    values: dict[str, Array] = {
        n: ((np.arange(prod(shape)) * 7 + 50 * i) % 251 - 125).reshape(shape).astype(TYPES[element])
        for i, n in enumerate(names)
    }
    (actual,) = pallasite.run(lowered, [values[n] for n in names], form="vreg", target=target)
    parts = [values[n][..., None] if unit else values[n] for n in order]
    assert np.array_equal(actual, np.concatenate(parts, dim))
    kinds = ("tpu.dynamic_rotate", "tpu.dynamic_gather", "tpu.broadcast_in_sublanes",
             "tpu.sublane_shuffle", "arith.select", "tpu.transpose")  # fmt: skip
    return Counter(op.name for op in lowered.walk() if op.name in kinds)


@pytest.mark.parametrize("target", ["v4", "v5e", "v6e"])
@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
@pytest.mark.parametrize("shape", [(3, 128), (7, 50), (100,), (2, 3, 64)])
def test_stacks_are_right(shape: tuple[int, ...], element: str, target: str):
    moves(shape, element, "abc", target)


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_rows_are_joined_before_they_become_columns(element: str, target: str):
    """Sixteen pairs of rows are transposed, not thirty-two rows; no column moves along lanes."""
    counts = moves((16, 128), element, "ab", target)
    assert counts["tpu.transpose"] == 16
    assert not counts["tpu.dynamic_rotate"] + counts["tpu.dynamic_gather"]
    assert counts.total() <= 16 + 2 * 16


@pytest.mark.parametrize(("shape", "count"), [((8, 64), 64), ((16, 16), 32)])
def test_short_columns_are_spread_where_they_are_joined(shape: tuple[int, ...], count: int):
    """Two columns per register of the result, and a choice between them."""
    counts = moves(shape, "f32", "ab", "v5e")
    spread = counts["tpu.broadcast_in_sublanes"] + counts["tpu.dynamic_gather"]
    assert not counts["tpu.dynamic_rotate"]
    assert spread + counts["arith.select"] <= 3 * count


@pytest.mark.parametrize("target", ["v4", "v5e", "v6e"])
@pytest.mark.parametrize("shape", [(8, 64), (24, 40), (200,)])
def test_equal_columns_are_moved_once(shape: tuple[int, ...], target: str):
    counts = moves(shape, "f32", "aaa", target)
    assert moves(shape, "f32", "aaaaa", target) == counts
    assert not counts["arith.select"]


@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
@pytest.mark.parametrize("shape", [(40, 50), (24, 40), (3, 40, 60)])
def test_copies_take_less_than_different_values(shape: tuple[int, ...], element: str):
    copies, others = (moves(shape, element, order, "v5e", unit=False) for order in ("aaaa", "abcd"))
    assert copies.total() < others.total()


@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
@pytest.mark.parametrize("shape", [(300,), (128,), (2, 3, 40)])
def test_copies_are_right(shape: tuple[int, ...], element: str):
    moves(shape, element, "aaa", "v5e", unit=False)


@pytest.mark.parametrize("shape", [(8, 2, 256), (8, 4, 384), (4, 4, 256), (16, 4, 256)])
@pytest.mark.parametrize("form", ["mosaic", "tiles", "vreg"])
def test_few_packed_rows_change_places_with_a_leading_dimension(
    shape: tuple[int, int, int], form: str
):
    """Several columns of them are packed into one register."""
    lead, rows, columns = shape
    source, result = (f"{a}x{b}x{columns}xbf16" for a, b in ((lead, rows), (rows, lead)))
    body = f"""%x = vector.load %a[%z, %z, %z] : A, vector<{source}>
        %y = tpu.transpose %x, [1, 0, 2] : vector<{source}> -> vector<{result}>
        tpu.vector_store %b[%z, %z, %z], %y {{strides = array<i32>}} : B, vector<{result}>,"""
    value = np.random.default_rng(0).standard_normal(shape).astype(TYPES["bf16"])
    (actual,) = pallasite.run(kernel([source, result], body), [value], form=form, target="v5e")
    assert np.array_equal(np.asarray(actual), value.transpose(1, 0, 2))
