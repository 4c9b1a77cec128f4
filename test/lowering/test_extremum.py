"""argmax and argmin over several registers: the first of equal elements, and of NaNs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pallasite

from .memory_kernels import kernel


def folded(count: int, kind: str = "arg_max", integers: bool = False) -> ModuleOp:
    """A kernel that folds `count` registers, of floats or of integers as such."""
    element = "i32" if integers else "f32"
    shape = f"vector<{count}x8x128xf32>"
    cast = f"arith.sitofp %v : vector<{count}x8x128xi32> to {shape}"
    return kernel(
        [f"{count}x8x128x{element}", "8x128xi32"],
        f"""%v = vector.load %a[%z, %z, %z] : A, vector<{count}x8x128x{element}>
        %x = {cast if integers else f"arith.negf %v : {shape}"}
        %i = tpu.reduce_index %x {{axis = 0 : i32, kind = #tpu.reduction_kind<{kind}>}}
            : {shape} -> vector<8x128xi32>
        tpu.vector_store %b[%z, %z], %i {{strides = array<i32>}} : B, vector<8x128xi32>,""",
    )


def operations(module: ModuleOp, prefix: str) -> Counter[str]:
    return Counter(op.name for op in module.walk() if op.name.startswith(prefix))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 9, 13, 16])
@pytest.mark.parametrize("kind", ["arg_max", "arg_min"])
def test_the_first_one(count: int, kind: str) -> None:
    draw = np.random.default_rng(count)
    x = draw.choice(np.array([-np.inf, -0.0, 0.0, 1, np.inf, np.nan], np.float32), (count, 8, 128))
    x = np.where(draw.random(x.shape) < 0.5, np.float32(1), x)
    x[:, 0] = np.inf if kind == "arg_max" else -np.inf
    lowered = pallasite.lower(folded(count, kind), "vreg", "v5e")
    (found,) = pallasite.run(lowered, [x], form="vreg", target="v5e")
    expected = (np.argmax if kind == "arg_max" else np.argmin)(-x, axis=0)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("axis,shape", [(0, (37, 100)), (1, (12, 700))])
def test_within_registers(axis: int, shape: tuple[int, int]) -> None:
    left = shape[1 - axis]
    vector = f"vector<{shape[0]}x{shape[1]}xf32>"
    module = kernel(
        [f"{shape[0]}x{shape[1]}xf32", f"1x{left}xi32"],
        f"""%x = vector.load %a[%z, %z] : A, {vector}
        %i = tpu.reduce_index %x {{axis = {axis} : i32, kind = #tpu.reduction_kind<arg_min>}}
            : {vector} -> vector<{left}xi32>
        %j = vector.shape_cast %i : vector<{left}xi32> to vector<1x{left}xi32>
        tpu.vector_store %b[%z, %z], %j {{strides = array<i32>}} : B, vector<1x{left}xi32>,""",
    )
    draw = np.random.default_rng(0)
    x = draw.integers(0, 30, shape).astype(np.float32)
    x[draw.random(shape) < 0.002] = np.nan
    x = np.moveaxis(x, axis, 0)
    x[:, 3] = np.inf
    x[3:, 4], x[:3, 4] = -np.inf, 0
    x = np.moveaxis(x, 0, axis)
    (found,) = pallasite.run(pallasite.lower(module, "vreg", "v5e"), [x], form="vreg", target="v5e")
    assert np.array_equal(found[0], np.argmin(x, axis))


def test_comparisons_grow_with_the_levels() -> None:
    counts = [operations(pallasite.lower(folded(n), "vreg", "v5e"), "arith.") for n in (32, 64)]
    assert [n["arith.cmpf"] for n in counts] == [2 * 5, 2 * 6]
    assert [n["arith.maximumf"] for n in counts] == [31, 63]
    assert [n["arith.select"] for n in counts] == [31, 63]
    tiles = [operations(pallasite.lower(folded(n), "tiles", "v5e"), "") for n in (2, 1024)]
    assert tiles[0] == tiles[1]


def test_integers_are_no_nan() -> None:
    lowered = pallasite.lower(folded(4, integers=True), "vreg", "v5e")
    found = operations(lowered, "arith.")
    assert found["arith.cmpf"] == 3 and found["arith.xori"] == 0
    x = np.random.default_rng(0).integers(0, 3, (4, 8, 128)).astype(np.int32)
    (places,) = pallasite.run(lowered, [x], form="vreg", target="v5e")
    assert np.array_equal(places, np.argmax(x, 0))
