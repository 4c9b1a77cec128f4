"""Matrix products (spec/pallas_semantics.md sections 4.6 and 8.6)."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from .support import S, apply, equal, jax, jnp, noise, refusal, run, whole

pytestmark = pytest.mark.jax
feature = pytest.mark.feature
F32 = jnp.float32


def dot(x: Any, y: Any, **options: Any) -> Any:
    return jnp.dot(x, y, preferred_element_type=F32, **options)


def exact(x: Any, y: Any) -> Any:
    return np.asarray(x, np.float64) @ np.asarray(y, np.float64)


@feature("W01")
def test_default_precision_rounds_operands() -> None:
    x, y = noise(64, 128), noise(128, 128, seed=1)
    rounded = exact(x.astype(jnp.bfloat16), y.astype(jnp.bfloat16))
    result = apply(dot, x, y)
    np.testing.assert_allclose(result, rounded, rtol=1e-5, atol=1e-4)
    assert np.abs(result - exact(x, y)).max() > 1e-3


@feature("W02")
def test_highest_precision() -> None:
    x, y = noise(64, 128), noise(128, 128, seed=1)
    result = apply(lambda x, y: dot(x, y, precision=jax.lax.Precision.HIGHEST), x, y)
    np.testing.assert_allclose(result, exact(x, y), rtol=1e-5, atol=1e-5)


@feature("W04")
def test_precision_of_the_context() -> None:
    x, y = noise(64, 128), noise(128, 128, seed=1)
    with jax.default_matmul_precision("highest"):
        result = apply(dot, x, y)
    np.testing.assert_allclose(result, exact(x, y), rtol=1e-5, atol=1e-5)


@feature("W05")
def test_bfloat16() -> None:
    x, y = noise(64, 256, dtype=jnp.bfloat16), noise(256, 128, dtype=jnp.bfloat16, seed=1)
    result = apply(dot, x, y)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, exact(x, y), rtol=1e-5, atol=1e-4)


@feature("W06")
def test_int8_is_exact() -> None:
    rng = np.random.default_rng(0)
    x, y = (jnp.asarray(rng.integers(-128, 128, (128, 128)), jnp.int8) for _ in range(2))
    result = apply(lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.int32), x, y)
    equal(result, np.asarray(x, np.int32) @ np.asarray(y, np.int32))


def transposed(side: str) -> Any:
    numbers = {"right": ((1,), (1,)), "left": ((0,), (0,))}[side]

    def function(x: Any, y: Any) -> Any:
        return jax.lax.dot_general(x, y, (numbers, ((), ())), preferred_element_type=F32)

    return function


@feature("W08")
@pytest.mark.parametrize("side", ["left", "right"])
def test_transposed_operands(side: str) -> None:
    from pallasite.jax import trace

    x, y = noise(128, 128, dtype=jnp.bfloat16), noise(128, 128, dtype=jnp.bfloat16, seed=1)
    a, b = (x.T, y) if side == "left" else (x, y.T)
    result = apply(transposed(side), x, y)
    np.testing.assert_allclose(result, exact(a, b), rtol=1e-5, atol=1e-4)
    module = trace(whole(transposed(side), x, y), x, y)
    assert sum(op.name in ("tpu.matmul", "pallas.dot") for op in module.walk()) == 1


@feature("W09")
@pytest.mark.parametrize(
    ("equation", "left", "right"),
    [("bij,bjk->bik", (3, 16, 128), (3, 128, 256)), ("ijk,jkl->il", (16, 8, 128), (8, 128, 128))],
)
def test_batches_and_several_contracted_dimensions(
    equation: str, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    x, y = noise(*left, dtype=jnp.bfloat16), noise(*right, dtype=jnp.bfloat16, seed=1)
    expected = np.einsum(equation, np.asarray(x, np.float64), np.asarray(y, np.float64))

    def function(x: Any, y: Any) -> Any:
        return jnp.einsum(equation, x, y, preferred_element_type=F32)

    if equation.startswith("b"):
        np.testing.assert_allclose(apply(function, x, y), expected, rtol=1e-5, atol=1e-3)
    else:  # the compiler takes one contracted dimension; the message says so
        assert "contract" in refusal(whole(function, x, y), x, y).lower()


@feature("W11")
@pytest.mark.parametrize(
    ("dtype", "accepted"),
    [
        (jnp.int8, {"v4": False, "v5e": True, "v6e": True, "v7x": True}),
        (ml_dtypes.float8_e5m2, {"v5e": True, "v6e": True, "v7x": True}),
    ],
)
def test_types_of_each_generation(dtype: Any, accepted: dict[str, bool]) -> None:
    out = jnp.int32 if dtype == jnp.int8 else F32
    x = jnp.asarray(np.random.default_rng(0).integers(-3, 4, (128, 128))).astype(dtype)

    def function(x: Any) -> Any:
        return jnp.dot(x, x, preferred_element_type=out)

    for target, legal in accepted.items():
        if legal:
            equal(run(whole(function, x), x, target=target), exact(x, x))
        else:
            assert "i8" in refusal(whole(function, x), x, target=target)


def test_results_have_the_shape_that_jax_says() -> None:
    assert jax.eval_shape(dot, S(8, 16), S(16, 4)).shape == (8, 4)
