"""Reductions, broadcasts and movement of data (spec/pallas_semantics.md section 8.6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .counting import operations
from .support import S, apply, call, equal, jax, jnp, noise, pltpu, ramp, run, whole

pytestmark = pytest.mark.jax
feature = pytest.mark.feature


def cost(function: Any, *inputs: Any) -> int:
    """Operations on registers beyond loads and stores."""
    counted = operations(whole(function, *inputs), *inputs)
    return sum(n for name, n in counted.items() if name not in ("tpu.load", "tpu.store"))


@feature("N01")
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_reductions(name: str, axis: int) -> None:
    x = ramp(4, 16, 256) % 97
    equal(apply(lambda x: getattr(jnp, name)(x, axis=axis), x), getattr(np, name)(x, axis=axis))


@feature("N04")
@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_reductions_to_a_scalar(name: str) -> None:
    x = ramp(16, 200) % 97
    result = apply(lambda x: jnp.full((8, 128), getattr(jnp, name)(x)), x)
    equal(result, np.full((8, 128), getattr(np, name)(x)))


@feature("N05")
@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize("axis", [0, 1])
def test_booleans_are_reduced(name: str, axis: int) -> None:
    x = ramp(16, 128) % 11

    def function(x: Any) -> Any:
        limit = x > 9 if name == "any" else x < 10
        return getattr(jnp, name)(limit, axis=axis).astype(jnp.int32)

    equal(apply(function, x), function(x))


@feature("N06")
@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_places_of_extrema(name: str, axis: int) -> None:
    x = ramp(16, 256) % 7  # every extremum occurs many times: the first one counts
    equal(apply(lambda x: getattr(jnp, name)(x, axis=axis), x), getattr(np, name)(x, axis=axis))


@feature("B01", "B02", "B03")
def test_broadcasts() -> None:
    leading, rows, lanes = noise(1, 8, 128), noise(8, 1, 128), noise(8, 8, 1)
    shape = (8, 8, 128)
    for x in (leading, rows, lanes):
        equal(apply(lambda x: jnp.broadcast_to(x, shape) * 2, x), np.broadcast_to(x, shape) * 2)
    costs = [cost(lambda x: jnp.broadcast_to(x, (8, 8, 128)), x) for x in (leading, rows, lanes)]
    assert costs[0] == 0 and costs[0] <= costs[1] <= costs[2]


@feature("B04", "H03")
def test_a_removed_dimension_comes_back() -> None:
    def function(x: Any) -> Any:
        top = jax.lax.broadcast_in_dim(jnp.max(x, axis=1), (16, 1), (0,))
        return x - top

    x = noise(16, 256)
    equal(apply(function, x), x - np.max(x, axis=1, keepdims=True))


@feature("H01", "H02")
@pytest.mark.parametrize("shape", [(6, 8, 128), (2, 3, 1, 8, 128), (48, 128), (2, 24, 128)])
def test_leading_dimensions_are_free_to_reshape(shape: tuple[int, ...]) -> None:
    x = noise(2, 3, 8, 128)
    equal(apply(lambda x: x.reshape(shape), x), x.reshape(shape))
    assert cost(lambda x: x.reshape(shape), x) == 0


@feature("H04")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((8, 1024), (8, 8, 128)), ((8, 8, 128), (8, 1024)), ((16, 256), (32, 128)),
        ((32, 128), (16, 256)), ((4, 24), (96,)), ((96,), (4, 24)), ((12, 5, 7), (12, 35)),
        ((8, 128), (1024,)), ((1024,), (8, 128)), ((8, 40), (40, 8)),
    ],
)  # fmt: skip
def test_other_reshapes(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    x = noise(*before)
    equal(apply(lambda x: x.reshape(after), x), x.reshape(after))


@feature("H05")
@pytest.mark.parametrize("shape", [(128, 128), (16, 256), (40, 24), (3, 16, 128)])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_transposes(shape: tuple[int, ...], dtype: Any) -> None:
    x = noise(*shape, dtype=dtype)
    equal(apply(lambda x: jnp.swapaxes(x, -1, -2), x), np.swapaxes(np.asarray(x), -1, -2))


@feature("H07")
@pytest.mark.parametrize(
    ("shape", "order", "dtype"),
    [((4, 8, 128), (2, 1, 0), "int8"), ((3, 5, 7), (2, 0, 1), "float32"),
     ((2, 4, 8, 16), (3, 2, 1, 0), "int4")],
)  # fmt: skip
def test_no_transpose_is_refused(shape: Any, order: Any, dtype: Any) -> None:
    """The compiler accepts any order of the dimensions, and so do we."""
    x = (ramp(*shape) % 7).astype(dtype)

    def body(x: Any, o: Any) -> None:
        o[...] = jnp.transpose(x[...], order)

    expected = jnp.transpose(x, order)
    equal(run(call(body, S(*expected.shape, dtype=x.dtype)), x), expected)


@feature("H06")
def test_leading_dimensions_are_free_to_permute() -> None:
    x = noise(2, 3, 4, 8, 128)
    equal(apply(lambda x: x.transpose(2, 0, 1, 3, 4), x), x.transpose(2, 0, 1, 3, 4))
    assert cost(lambda x: x.transpose(2, 0, 1, 3, 4), x) == 0


MOVES: dict[str, Any] = {
    "concatenate": lambda x: jnp.concatenate([x, x[:, :100]], axis=1),
    "stack": lambda x: jnp.stack([x, x + 1]),
    "split": lambda x: jnp.split(x, 2, axis=0)[1],
    "tile": lambda x: jnp.tile(x, (2, 1)),
    "slice": lambda x: x[3:11, 5:200],
    "pad": lambda x: jnp.pad(x, ((3, 5), (0, 60))),
}


@feature("H08")
@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str) -> None:
    x = noise(16, 256)
    equal(apply(MOVES[name], x), MOVES[name](x))


@feature("H08")
@pytest.mark.parametrize(("axis", "shift"), [(0, 3), (1, 5), (1, 200)])
def test_rolls(axis: int, shift: int) -> None:
    x = noise(16, 256)
    equal(apply(lambda x: pltpu.roll(x, shift, axis), x), np.roll(x, shift, axis))


@feature("H08")
@pytest.mark.parametrize("axis", [0, 1])
def test_gathers(axis: int) -> None:
    x = noise(8, 128)
    index = jnp.asarray(np.random.default_rng(0).integers(0, (8, 128)[axis], (8, 128)), jnp.int32)

    def function(x: Any, index: Any) -> Any:
        return jnp.take_along_axis(x, index, axis=axis, mode="promise_in_bounds")

    equal(apply(function, x, index), np.take_along_axis(np.asarray(x), np.asarray(index), axis))


@feature("H09")
def test_unit_minor_dimensions_take_a_register_each() -> None:
    from .counting import outcome

    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + 1

    thin = outcome(call(body, S(64, 1, 1)), ramp(64, 1, 1))
    wide = outcome(call(body, S(8, 8)), ramp(8, 8))
    registers = [ran.memory["vmem_peak_bytes"] // 4096 for ran in (thin, wide)]
    assert registers[1] == 2
    thin_ops, wide_ops = (
        operations(call(body, S(*shape)), ramp(*shape)) for shape in [(64, 1, 1), (8, 8)]
    )
    assert thin_ops["arith.addf"] > wide_ops["arith.addf"]
    assert run(call(body, S(64, 1, 1)), ramp(64, 1, 1)).shape == (64, 1, 1)
