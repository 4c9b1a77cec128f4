"""Rotations whose amount grows along another dimension, against their definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax

SHAPE = (4, 3, 16, 256)


@pytest.mark.parametrize(("dim", "along"), [(0, 1), (1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_strided_roll(dim: int, along: int) -> None:
    amount, stride = 7, 5

    def body(n: Any, x: Any, o: Any) -> None:
        # What differs from row to row is known when the kernel is compiled.
        shift = amount if along == 2 else n[0]
        o[...] = pltpu.roll(x[...], shift, dim, stride=stride, stride_axis=along)

    x = np.arange(np.prod(SHAPE), dtype=np.int32).reshape(SHAPE)
    with simulate():
        y = call(body)(jnp.array([amount]), x)
    slices = np.split(x, SHAPE[along], along)
    rolled = [np.roll(part, amount + k * stride, dim) for k, part in enumerate(slices)]
    np.testing.assert_array_equal(y, np.concatenate(rolled, along))


UNKNOWN = [
    ((8, 128), 1), ((5, 130), 1), ((16, 256), 1), ((8, 384), 1), ((3, 24, 128), 1), ((37, 100), 0),
    ((5, 8, 128), 0), ((4, 20, 100), 2),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "dim"), UNKNOWN)
@pytest.mark.parametrize("dtype", [jnp.int32, jnp.bfloat16])
def test_any_amount_known_at_run_time(shape: tuple[int, ...], dim: int, dtype: Any) -> None:
    """Negative ones go round the other way, and whole turns change nothing."""

    def body(n: Any, x: Any, o: Any) -> None:
        o[...] = pltpu.roll(x[...] + jnp.ones(shape, dtype), n[0], dim)

    x = (np.arange(np.prod(shape), dtype=np.int32) % 200).reshape(shape).astype(dtype)
    with simulate():
        f = jax.jit(call(body, shape, dtype))
        for amount in (-3, -shape[dim], -shape[dim] - 1, -300, 0, 5, 2 * shape[dim] + 1):
            y = f(jnp.array([amount]), x)
            wanted = np.roll(x + np.array(1, dtype), amount, dim)
            np.testing.assert_array_equal(y, wanted, str(amount))


def test_negative_amount_that_grows() -> None:
    def body(n: Any, x: Any, o: Any) -> None:
        o[...] = pltpu.roll(x[...], n[0], 2, stride=5, stride_axis=0)

    x = np.arange(np.prod(SHAPE), dtype=np.int32).reshape(SHAPE)
    with simulate():
        y = call(body)(jnp.array([-9]), x)
    np.testing.assert_array_equal(y, np.stack([np.roll(x[k], 5 * k - 9, 1) for k in range(4)]))


@pytest.mark.parametrize(("shape", "dim", "along"), [((1, 200), 0, 1), ((2, 1, 128), 1, 2)])
def test_one_element_stays(shape: tuple[int, ...], dim: int, along: int) -> None:
    def body(n: Any, x: Any, o: Any) -> None:
        o[...] = pltpu.roll(x[...], n[0], dim, stride=8, stride_axis=along)

    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    with simulate():
        np.testing.assert_array_equal(call(body, shape)(jnp.array([3]), x), x)


def test_what_no_chip_rotates_is_refused() -> None:
    def body(n: Any, x: Any, o: Any) -> None:
        o[...] = pltpu.roll(x[...], n[0], 3, stride=1, stride_axis=2)

    with simulate(), pytest.raises(Unsupported, match="known at run time"):
        call(body)(jnp.array([1]), np.zeros(SHAPE, np.int32))


def by_powers_of_two(x: Any, amount: int, axis: int, stride: int, stride_axis: int) -> Any:
    """As it is advised."""
    n = x.shape[axis]
    amounts = (amount + stride * lax.broadcasted_iota(jnp.int32, x.shape, stride_axis)) % n
    for b in range((n - 1).bit_length()):
        x = jnp.where((amounts >> b) & 1 == 1, pltpu.roll(x, 1 << b, axis), x)
    return x


REFUSED = [
    # target, shape, axis, stride axis, stride
    ("v4", (16, 128), 1, 0, 5), ("v5e", (32, 256), 0, 1, 5), ("v7x", (3, 16, 128), 0, 2, 1),
    ("v6e", (3, 16, 128), 0, 1, 1), ("v5e", (4, 20, 100), 2, 0, 5), ("v5e", (16, 128), 1, 0, 50),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize(("target", "shape", "axis", "along", "stride"), REFUSED)
def test_refused_rolls_as_they_are_advised(
    target: str, shape: tuple[int, ...], axis: int, along: int, stride: int, dtype: Any
) -> None:
    x = jnp.arange(np.prod(shape)).reshape(shape).astype(dtype)

    def run(roll: Any, form: str) -> Any:
        def body(x: Any, o: Any) -> None:
            o[...] = roll(x[...])

        with simulate(target, form):
            return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(shape, dtype))(x)

    def strided(x: Any) -> Any:
        return pltpu.roll(x, 7, axis, stride=stride, stride_axis=along)

    for form in ("pallas", "mosaic", "vreg"):
        with pytest.raises(Unsupported) as caught:
            run(strided, form)
        assert caught.value.code == "rotate-stride"
        assert "pltpu.roll(x, 1 << b, axis)" in str(caught.value)
    slices = [np.asarray(part) for part in jnp.split(x, shape[along], along)]
    rolled = [np.roll(part, 7 + k * stride, axis) for k, part in enumerate(slices)]
    advised = run(lambda x: by_powers_of_two(x, 7, axis, stride, along), "vreg")
    np.testing.assert_array_equal(advised, np.concatenate(rolled, along))


def call(body: Any, shape: tuple[int, ...] = SHAPE, dtype: Any = jnp.int32) -> Any:
    grid_spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1)
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(shape, dtype), grid_spec=grid_spec)
