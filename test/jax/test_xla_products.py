"""Products of XLA outside of kernels: those of the CPU, or rounded as a TPU rounds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

from pallasite.diagnostics import UsageError  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax

_RANDOM = np.random.default_rng(0)
X = _RANDOM.standard_normal((128, 256)).astype(np.float32)
Y = _RANDOM.standard_normal((256, 128)).astype(np.float32)


def rounded(x: Any) -> Any:
    return np.asarray(x).astype(jnp.bfloat16).astype(np.float32)


def near(one: Any, other: Any) -> None:
    """Equal but for the order of sums."""
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)


def body(x: Any, y: Any, o: Any) -> None:
    o[...] = x[...] @ y[...]


KERNEL = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((128, 128), jnp.float32))


def test_products_are_those_of_the_cpu_unless_asked_for() -> None:
    with simulate():
        near(jnp.dot(X, Y), X @ Y)


def test_kernels_and_xla_agree_in_a_whole_program() -> None:
    with simulate(products="tpu"):
        near(KERNEL(X, Y), jnp.dot(X, Y))
        near(jax.jit(jnp.dot)(X, Y), rounded(X) @ rounded(Y))
    near(jnp.dot(X, Y), X @ Y)


def test_a_program_compiled_before_is_compiled_again() -> None:
    f = jax.jit(lambda x, y: x @ y)
    near(f(X, Y), X @ Y)
    with simulate(products="tpu"):
        near(f(X, Y), rounded(X) @ rounded(Y))
    with simulate():
        near(f(X, Y), X @ Y)


@pytest.mark.parametrize("precision", ["highest", "high", "float32"])
def test_what_asks_for_precision_is_exact(precision: str) -> None:
    with simulate(products="tpu"):
        near(jnp.dot(X, Y, precision=precision), X @ Y)
        with jax.default_matmul_precision(precision):
            near(jnp.dot(X, Y), X @ Y)


def test_other_types_are_what_they_were() -> None:
    x, y = X.astype(jnp.bfloat16), (Y * 10).astype(np.int32)
    with simulate(products="tpu"):
        np.testing.assert_array_equal(jnp.dot(y, y.T), y @ y.T)
        mixed = jax.lax.dot(x, Y, preferred_element_type=jnp.float32)
        near(mixed, rounded(X) @ rounded(Y))


def test_batches_gradients_and_convolutions_round_too() -> None:
    stack = np.stack([X, X + 1])
    weights = _RANDOM.integers(-8, 8, (128, 128)).astype(np.float32)
    with simulate(products="tpu"):
        batched = jax.vmap(jnp.dot, (0, None))(stack, Y)
        near(batched, np.stack([rounded(s) @ rounded(Y) for s in stack]))
        gradient = jax.grad(lambda y: jnp.sum(jnp.dot(X, y) * weights))(Y)
        near(gradient, rounded(X).T @ weights)
        image, kernel = X.reshape(1, 1, 128, 256), np.full((1, 1, 1, 1), 1.001, np.float32)
        found = jax.lax.conv(image, kernel, (1, 1), "SAME")
    near(found[0, 0], rounded(X) * rounded(np.float32(1.001)))


def test_the_type_of_the_result_does_not_matter() -> None:
    with simulate(products="tpu"):
        small = jax.lax.dot(X, Y, preferred_element_type=jnp.bfloat16)
        preset = jax.lax.dot(X, Y, precision=jax.lax.DotAlgorithmPreset.DEFAULT)
    np.testing.assert_array_equal(small, (rounded(X) @ rounded(Y)).astype(jnp.bfloat16))
    near(preset, rounded(X) @ rounded(Y))


def test_a_simulation_takes_the_products_of_the_one_around_it() -> None:
    with simulate(products="tpu"), simulate("v6e"):
        near(jnp.dot(X, Y), rounded(X) @ rounded(Y))
    with simulate(products="tpu"), simulate("v6e", products="cpu"):
        near(jnp.dot(X, Y), X @ Y)


def test_nobody_else_multiplies() -> None:
    with pytest.raises(UsageError, match="expected products of cpu or tpu, got 'gpu'"):
        simulate(products="gpu")
