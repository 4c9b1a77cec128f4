"""Reshapes and transposes in a row move data once, and what they make stays right."""

from __future__ import annotations

import random
from collections.abc import Sequence
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
Shape = Sequence[int]
TYPES: dict[str, Any] = {
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "i32": np.int32,
    "i8": np.int8,
}
SPLIT = """%h = vector.shape_cast %v : vector<64x256x{t}> to vector<64x4x64x{t}>
        %r = tpu.transpose %h, [1, 0, 2] : vector<64x4x64x{t}> -> vector<4x64x64x{t}>"""


def vector(shape: Shape, element: str) -> str:
    return f"vector<{'x'.join(map(str, shape))}x{element}>"


def body(source: Shape, result: Shape, element: str, text: str) -> str:
    """A kernel that loads `%v`, computes `%r` by `text` and stores it."""
    places = [", ".join(["%z"] * len(shape)) for shape in (source, result)]
    return f"""%v = vector.load %a[{places[0]}] : A, {vector(source, element)}
        {text}
        tpu.vector_store %b[{places[1]}], %r {{strides = array<i32>}} : B,
          {vector(result, element)},"""


def moves(module: ModuleOp, target: str, inputs: Array, expected: Array) -> int:
    """Operations on registers but loads and stores; the answer is checked."""
    lowered = pallasite.lower(module, form="vreg", target=target, allow_beyond_reference=True)
    (actual,) = pallasite.run(lowered, [inputs], form="vreg", target=target)
    assert np.array_equal(actual, expected)
    text = str(lowered)
    kinds = ("dynamic_rotate", "dynamic_gather", "sublane_shuffle", "arith.select", "pack_sub")
    return sum(text.count(kind) for kind in (*kinds, "unpack_sub", "tpu.transpose"))


def array(shape: Shape, element: str) -> Array:
    values = np.arange(prod(shape)) % 251 - 125
    return values.reshape(tuple(shape)).astype(TYPES[element])


@pytest.mark.parametrize("target", ["v4", "v5e", "v6e"])
@pytest.mark.parametrize(("element", "most"), [("f32", 16), ("bf16", 8), ("i8", 4)])
def test_heads_are_split_by_rotations(element: str, most: int, target: str):
    text = SPLIT.format(t=element)
    module = kernel(
        [f"64x256x{element}", f"4x64x64x{element}"],
        body((64, 256), (4, 64, 64), element, text),
    )
    value = array((64, 256), element)
    expected = value.reshape(64, 4, 64).transpose(1, 0, 2)
    assert moves(module, target, value, expected) <= most


def test_heads_of_whole_registers_are_renamed():
    text = """%h = vector.shape_cast %v : vector<32x512xbf16> to vector<32x4x128xbf16>
        %u = vector.shape_cast %h : vector<32x4x128xbf16> to vector<1x32x4x128xbf16>
        %r = tpu.transpose %u, [0, 2, 1, 3] : vector<1x32x4x128xbf16> -> vector<1x4x32x128xbf16>"""
    module = kernel(
        ["32x512xbf16", "1x4x32x128xbf16"], body((32, 512), (1, 4, 32, 128), "bf16", text)
    )
    value = array((32, 512), "bf16")
    expected = value.reshape(1, 32, 4, 128).transpose(0, 2, 1, 3)
    assert moves(module, "v5e", value, expected) == 0


def test_what_is_needed_otherwise_is_still_made():
    text = f"""{SPLIT.format(t="f32").replace("%r", "%m")}
        %w = tpu.transpose %m, [1, 0, 2] : vector<4x64x64xf32> -> vector<64x4x64xf32>
        %s = arith.addf %w, %h : vector<64x4x64xf32>
        %r = tpu.transpose %s, [1, 0, 2] : vector<64x4x64xf32> -> vector<4x64x64xf32>"""
    module = kernel(["64x256xf32", "4x64x64xf32"], body((64, 256), (4, 64, 64), "f32", text))
    value = array((64, 256), "f32")
    moves(module, "v5e", value, 2 * value.reshape(64, 4, 64).transpose(1, 0, 2))


def test_loops_repeat_no_more():
    text = """%h = vector.shape_cast %v : vector<64x256xf32> to vector<64x4x64xf32>
        %n = arith.constant dense<0.0> : vector<4x64x64xf32>
        %i0 = arith.constant 0 : i32
        %i1 = arith.constant 1 : i32
        %i3 = arith.constant 3 : i32
        %r = scf.for %i = %i0 to %i3 step %i1 iter_args(%c = %n) -> (vector<4x64x64xf32>) : i32 {
          %t = tpu.transpose %h, [1, 0, 2] : vector<64x4x64xf32> -> vector<4x64x64xf32>
          %s = arith.addf %c, %t : vector<4x64x64xf32>
          scf.yield %s : vector<4x64x64xf32>
        }"""
    module = kernel(["64x256xf32", "4x64x64xf32"], body((64, 256), (4, 64, 64), "f32", text))
    value = array((64, 256), "f32")
    moves(module, "v5e", value, 3 * value.reshape(64, 4, 64).transpose(1, 0, 2))


def factors(rng: random.Random, total: int) -> tuple[int, int]:
    first = rng.choice([d for d in range(2, total) if total % d == 0])
    return first, total // first


@pytest.mark.parametrize("seed", range(24))
def test_any_chain(seed: int):
    rng = random.Random(seed)
    element = rng.choice(tuple(TYPES))
    rows, columns = rng.choice((8, 16, 24, 40, 60)), rng.choice((48, 96, 120, 128, 256, 384))
    split = factors(rng, columns) if rng.random() < 0.7 else (columns,)
    middle = (*(factors(rng, rows) if len(split) == 1 else (rows,)), *split)
    order = list(range(len(middle)))
    rng.shuffle(order)
    turned = tuple(middle[d] for d in order)
    result = turned if rng.random() < 0.5 else (turned[0] * turned[1], turned[2])
    chain = [(rows, columns), middle, turned, result]
    kinds = [vector(shape, element) for shape in chain]
    text = f"""%h = vector.shape_cast %v : {kinds[0]} to {kinds[1]}
        %t = tpu.transpose %h, {order} : {kinds[1]} -> {kinds[2]}
        %r = vector.shape_cast %t : {kinds[2]} to {kinds[3]}"""
    names = [f"{'x'.join(map(str, shape))}x{element}" for shape in (chain[0], result)]
    module = kernel(names, body(chain[0], result, element, text))
    value = array(chain[0], element)
    expected = value.reshape(middle).transpose(order).reshape(result)
    moves(module, rng.choice(("v4", "v5e", "v6e")), value, expected)
