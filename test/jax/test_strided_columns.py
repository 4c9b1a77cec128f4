"""Columns at a distance are refused with what to write instead, which works on each target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

from .support import told  # noqa: E402

pytestmark = pytest.mark.jax


def gathered(x: Any, stride: int) -> Any:
    size, last = x.shape[-1], x.ndim - 1
    k = lax.broadcasted_iota(jnp.int32, x.shape, last)
    found = jnp.take_along_axis(x, stride * k % size, last, mode="promise_in_bounds")
    return found[..., : -(-size // stride)]


def multiplied(x: Any, stride: int) -> Any:
    size = x.shape[-1]
    shape = (size, -(-size // stride))
    i, j = (lax.broadcasted_iota(jnp.int32, shape, dim) for dim in range(2))
    return jnp.dot(x, (i == stride * j).astype(jnp.float32), precision=lax.Precision.HIGHEST)


def split(x: Any, stride: int) -> Any:
    return x.reshape(*x.shape[:-1], -1, stride)[..., 0]


CASES: list[tuple[str, tuple[int, ...], int, str, Callable[[Any, int], Any]]] = [
    ("v4", (16, 128), 2, "jnp.take_along_axis(", gathered),
    ("v4", (16, 100), 3, "jnp.take_along_axis(", gathered),
    ("v4", (2, 16, 128), 2, "[..., :64]", gathered),
    ("v4", (16, 128), 2, "jnp.dot(", multiplied),
    ("v4", (16, 384), 3, "jnp.dot(", multiplied),
    ("v5e", (16, 128), 2, ".reshape(16, 64, 2)[:, :, 0]", split),
    ("v7x", (16, 256), 4, ".reshape(16, 64, 4)[:, :, 0]", split),
]


def run(target: str, form: str, x: Any, shape: tuple[int, ...], body: Callable[..., None]) -> Any:
    with simulate(target, form):
        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(shape, x.dtype))(x)


@pytest.mark.parametrize("of_value", [False, True])
@pytest.mark.parametrize(("target", "shape", "stride", "advice", "instead"), CASES)
def test_columns_at_a_distance(
    target: str, shape: tuple[int, ...], stride: int, advice: str, instead: Any, of_value: bool
) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    expected = x[..., ::stride]

    def strided(x: Any, o: Any) -> None:
        o[...] = x[...][..., ::stride] if of_value else x[..., ::stride]

    def advised(x: Any, o: Any) -> None:
        o[...] = instead(x[...], stride)

    for form in ("pallas", "tiles"):
        with pytest.raises(Exception) as caught:
            run(target, form, x, expected.shape, strided)
        assert advice in told(caught.value)
        np.testing.assert_array_equal(run(target, form, x, expected.shape, advised), expected)


def gathered_from_one(x: Any) -> Any:
    k = lax.broadcasted_iota(jnp.int32, x.shape, 1)
    return jnp.take_along_axis(x, (1 + 2 * k) % 128, 1, mode="promise_in_bounds")[..., :64]


def multiplied_from_two(x: Any) -> Any:
    i, j = (lax.broadcasted_iota(jnp.int32, (384, 100), dim) for dim in range(2))
    return jnp.dot(x, (i == 3 * j + 2).astype(jnp.float32), precision=lax.Precision.HIGHEST)


MIDST: list[tuple[str, tuple[int, ...], tuple[slice, ...], str, Callable[[Any], Any]]] = [
    (
        "v5e", (16, 16), (slice(1, 14, 2), slice(2, 13, 4)),
        ".reshape(8, 2, 4, 4)[0:7, 1, 0:3, 2]",
        lambda x: x.reshape(8, 2, 4, 4)[0:7, 1, 0:3, 2],
    ),
    (
        "v6e", (16, 256), (slice(4, 12), slice(5, None, 4)), ".reshape(16, 64, 4)[4:12, 1:64, 1]",
        lambda x: x.reshape(16, 64, 4)[4:12, 1:64, 1],
    ),
    (
        "v4", (16, 128), (slice(None), slice(1, None, 2)), "(1 + 2 * k) % 128, 1,",
        gathered_from_one,
    ),
    (
        "v4", (16, 384), (slice(None), slice(2, 300, 3)), "(i == 3 * j + 2)",
        multiplied_from_two,
    ),
]  # fmt: skip


@pytest.mark.parametrize("of_value", [False, True])
@pytest.mark.parametrize(("target", "shape", "taken", "advice", "instead"), MIDST)
def test_columns_from_the_midst(
    target: str, shape: tuple[int, ...], taken: tuple[slice, ...], advice: str, instead: Any,
    of_value: bool,
) -> None:  # fmt: skip
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    expected = x[taken]

    def strided(x: Any, o: Any) -> None:
        o[...] = x[...][taken] if of_value else x[taken]

    def advised(x: Any, o: Any) -> None:
        o[...] = instead(x[...])

    with pytest.raises(Exception) as caught:
        run(target, "tiles", x, expected.shape, strided)
    assert advice in told(caught.value)
    np.testing.assert_array_equal(run(target, "tiles", x, expected.shape, advised), expected)


def test_rows_from_a_place_known_at_run_time() -> None:
    x = np.arange(16 * 256, dtype=np.float32).reshape(16, 256)

    def strided(i: Any, x: Any, o: Any) -> None:
        o[...] = x[pl.ds(pl.multiple_of(i[0], 8), 4, stride=2), :]

    specs = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)]
    out = jax.ShapeDtypeStruct((4, 256), x.dtype)
    with simulate("v5e"), pytest.raises(Exception) as caught:
        pl.pallas_call(strided, out_shape=out, in_specs=specs)(np.array([8], np.int32), x)
    assert "load the rows one by one, ref[pl.ds(i, 1), :]" in told(caught.value)
    assert "reshape" not in told(caught.value)


@pytest.mark.parametrize("target", ["v4", "v5e"])
def test_stores_to_columns_at_a_distance(target: str) -> None:
    x = np.arange(16 * 128, dtype=np.float32).reshape(16, 128)

    def strided(x: Any, o: Any) -> None:
        o[...] = x[...]
        o[:, ::2] = -x[:, :64]

    def advised(x: Any, o: Any) -> None:
        o[...] = x[...]
        k = lax.broadcasted_iota(jnp.int32, o.shape, 1)
        o[...] = jnp.where(k % 2 == 0, jnp.repeat(-x[:, :64], 2, 1), o[...])

    expected = x.copy()
    expected[:, ::2] = -x[:, :64]
    with pytest.raises(Exception, match="strides") as caught:
        run(target, "tiles", x, x.shape, strided)
    assert "jnp.where(k % 2 == 0, jnp.repeat(value, 2, 1), ref[...])" in told(caught.value)
    np.testing.assert_array_equal(run(target, "vreg", x, x.shape, advised), expected)


@pytest.mark.parametrize("start", [0, 1, 3])
def test_stores_to_columns_from_another_than_the_first(start: int) -> None:
    x = np.arange(16 * 128, dtype=np.float32).reshape(16, 128)

    def strided(x: Any, o: Any) -> None:
        o[...] = x[...]
        o[:, start::4] = -x[:, :32]

    def advised(x: Any, o: Any) -> None:
        o[...] = x[...]
        k = lax.broadcasted_iota(jnp.int32, o.shape, 1)
        o[...] = jnp.where(k % 4 == start, jnp.repeat(-x[:, :32], 4, 1), o[...])

    expected = x.copy()
    expected[:, start::4] = -x[:, :32]
    with pytest.raises(Exception, match="strides") as caught:
        run("v5e", "tiles", x, x.shape, strided)
    assert f"jnp.where(k % 4 == {start}, jnp.repeat(value, 4, 1), ref[...])" in told(caught.value)
    np.testing.assert_array_equal(run("v5e", "tiles", x, x.shape, advised), expected)


def test_stores_to_some_columns_at_a_distance() -> None:
    x = np.arange(16 * 128, dtype=np.float32).reshape(16, 128)

    def strided(x: Any, o: Any) -> None:
        o[...] = x[...]
        o[:, 2:6:2] = -x[:, :2]

    def advised(x: Any, o: Any) -> None:
        o[...] = x[...]
        o[:, 2:3] = -x[:, 0:1]
        o[:, 4:5] = -x[:, 1:2]

    expected = x.copy()
    expected[:, 2:6:2] = -x[:, :2]
    with pytest.raises(Exception, match="strides") as caught:
        run("v5e", "tiles", x, x.shape, strided)
    assert "store the columns one by one, ref[:, 2:3] = value[:, 1:2]" in told(caught.value)
    np.testing.assert_array_equal(run("v5e", "tiles", x, x.shape, advised), expected)
