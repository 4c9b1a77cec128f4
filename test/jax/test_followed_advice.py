"""What the refusal of an operation on narrow integers says to write gives the right numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from ..passes.checking import check, kernel, load, memref  # noqa: E402
from .support import told  # noqa: E402

pytestmark = pytest.mark.jax


@pytest.mark.parametrize("target", ["v4", "v7x"])
@pytest.mark.parametrize("dtype", [jnp.int32, jnp.int16, jnp.int8])
def test_trailing_zeros_as_they_are_advised(target: str, dtype: Any) -> None:
    """What the refusal of `math.cttz` says to write; JAX has no name for it."""
    bits = jnp.iinfo(dtype).bits
    with pytest.raises(Unsupported) as caught:
        shape = f"32x256xi{bits}"
        text = load("x", "a", shape) + f"%z = math.cttz %x : vector<{shape}>"
        check(kernel(f"%a: {memref(shape)}", text), target)
    wide = "" if bits == 32 else f" of n = x.astype(jnp.int32) | {1 << bits}"
    advice = f"ones below the last{wide}: lax.population_count((n & -n) - 1)"
    assert advice in told(caught.value)
    values = np.array([0, 1, 2, 6, 12, 40, 96, 1 << (bits - 2)] * 128)
    x = jnp.asarray(values.reshape(8, 128), dtype)

    def body(x: Any, o: Any) -> None:
        n = x[...] if bits == 32 else x[...].astype(jnp.int32) | (1 << bits)
        o[...] = lax.population_count((n & -n) - 1)

    out = jax.ShapeDtypeStruct(x.shape, jnp.int32)
    with simulate(target, "vreg"):
        found = pl.pallas_call(body, out_shape=out)(x)
    expected = [(n & -n).bit_length() - 1 if n else bits for n in values.tolist()]
    np.testing.assert_array_equal(np.asarray(found).ravel(), expected)


def wide(x: Any) -> Any:
    return x.astype(jnp.int32)


def masked(x: Any) -> Any:
    return wide(x) & (256**x.dtype.itemsize - 1)


Narrow = tuple[Callable[[Any, Any], Any], str, Callable[[Any, Any], Any]]
NARROW: dict[str, Narrow] = {
    "population count": (
        lambda x, n: lax.population_count(x),
        "lax.population_count(x.astype(jnp.int32) & {mask})",
        lambda x, n: lax.population_count(masked(x)).astype(x.dtype),
    ),
    "leading zeros": (
        lambda x, n: lax.clz(x),
        "lax.clz(x.astype(jnp.int32) & {mask}) - {rest}",
        lambda x, n: (lax.clz(masked(x)) - (32 - 8 * x.dtype.itemsize)).astype(x.dtype),
    ),
    "division": (
        lambda x, n: lax.div(x, n),
        "cast the operands to int32 first",
        lambda x, n: lax.div(wide(x), wide(n)).astype(x.dtype),
    ),
    "rest": (
        lambda x, n: lax.rem(x, n),
        "cast the operands to int32 first",
        lambda x, n: lax.rem(wide(x), wide(n)).astype(x.dtype),
    ),
}


@pytest.mark.parametrize("target", ["v4", "v7x"])
@pytest.mark.parametrize("dtype", [jnp.int8, jnp.uint8, jnp.int16])
@pytest.mark.parametrize("name", NARROW)
def test_narrow_integers_as_they_are_advised(name: str, dtype: Any, target: str) -> None:
    wrong, advice, right = NARROW[name]
    bits = jnp.iinfo(dtype).bits
    rng = np.random.default_rng(0)
    low, high = jnp.iinfo(dtype).min, jnp.iinfo(dtype).max
    x = jnp.asarray(rng.integers(low, high, (32, 128), endpoint=True), dtype)
    n = jnp.asarray(rng.integers(1, bits - 1, (32, 128)), dtype)

    def run(compute: Callable[[Any, Any], Any]) -> Any:
        def body(x: Any, n: Any, o: Any) -> None:
            o[...] = compute(x[...], n[...])

        with simulate(target, "vreg"):
            return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, dtype))(x, n)

    try:
        run(wrong)
    except Unsupported as refusal:
        assert advice.format(mask=(1 << bits) - 1, rest=32 - bits) in told(refusal)
    np.testing.assert_array_equal(run(right), wrong(x, n))


@pytest.mark.parametrize("dtype", [jnp.int8, jnp.uint8])
@pytest.mark.parametrize("shift", [lax.shift_right_logical, lax.shift_left])
def test_shifts_of_bytes_as_they_are_advised(shift: Any, dtype: Any) -> None:
    x = jnp.arange(-2048, 2048).reshape(32, 128).astype(dtype)
    n = jnp.asarray(np.arange(4096).reshape(32, 128) % 8, dtype)

    def run(widen: Callable[[Any], Any]) -> Any:
        def body(x: Any, n: Any, o: Any) -> None:
            o[...] = shift(widen(x[...]), widen(n[...])).astype(dtype)

        with simulate("v4", "vreg"):
            return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, dtype))(x, n)

    with pytest.raises(Unsupported) as caught:
        run(lambda x: x)
    logical = shift is lax.shift_right_logical
    advice = "x.astype(jnp.int32) & 255" if logical else "cast the operands to int32 first"
    assert advice in told(caught.value)
    np.testing.assert_array_equal(run(masked if logical else wide), shift(x, n))


def words(dtype: Any) -> Any:
    """Numbers that float32 does not tell apart, the greatest and the least twice."""
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max, (16, 256), dtype=dtype)
    x[[3, 9, 11], [7, 7, 90]] = limits.max
    x[4, 7] = limits.max - 1
    x[[2, 5, 6], [5, 5, 91]] = limits.min
    x[1, 5] = limits.min + 1
    return x


def turned(x: Any) -> Any:
    return x.astype(jnp.int32) ^ -(2**31)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["max", "min", "sum", "argmax", "argmin"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_reductions_of_words_as_they_are_advised(name: str, dtype: Any, axis: int) -> None:
    x = words(dtype)
    signed = dtype == np.int32

    def reduced(x: Any) -> Any:
        n = x if signed else turned(x)
        if name == "sum":
            return jnp.sum(x.astype(jnp.int32), axis).astype(dtype)
        found = getattr(jnp, name[-3:])(n, axis, keepdims=True)
        if not name.startswith("arg"):
            back = found if signed else (found ^ -(2**31)).astype(dtype)
            return back.reshape([s for d, s in enumerate(x.shape) if d != axis])
        places = lax.broadcasted_iota(jnp.int32, x.shape, axis)
        return jnp.min(jnp.where(n == found, places, x.shape[axis]), axis)

    expected = np.asarray(getattr(np, name)(x, axis))
    expected = expected.astype(np.int32 if name.startswith("arg") else dtype)
    out = jax.ShapeDtypeStruct(expected.shape, expected.dtype)

    def run(compute: Callable[[Any], Any]) -> Any:
        def body(x: Any, o: Any) -> None:
            o[...] = compute(x[...])

        with simulate("v5e", "vreg"):
            return pl.pallas_call(body, out_shape=out)(x)

    if name.startswith("arg") or not signed:
        with pytest.raises(NotImplementedError) as caught:
            run(lambda x: getattr(jnp, name)(x, axis))
        advice = "x.astype(jnp.int32)" if not signed else "jnp.min(jnp.where(x == jnp."
        assert advice in told(caught.value) and "float32 first" not in told(caught.value)
    np.testing.assert_array_equal(run(reduced), expected)
