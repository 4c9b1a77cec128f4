"""Operations, types and products of the second tier (spec/pallas_semantics.md section 8.6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .support import S, call, equal, jax, jnp, noise, pl, pltpu, ramp, refusal, run

pytestmark = pytest.mark.jax
feature = pytest.mark.feature
INT = jnp.int32


def applied(f: Any, *inputs: Any, **options: Any) -> Any:
    """`f` of values in VMEM."""
    out = jax.eval_shape(f, *inputs)

    def body(*refs: Any) -> None:
        refs[-1][...] = f(*(ref[...] for ref in refs[:-1]))

    return run(call(body, out), *inputs, **options)


@feature("T04", "T07", "T08")
@pytest.mark.parametrize("dtype", ["int16", "uint16", "uint8"])
def test_narrow_integers(dtype: str) -> None:
    x = (ramp(32, 128, dtype=INT) * 37 % 251).astype(dtype)
    equal(applied(lambda x: (x.astype(INT) + 5).astype(dtype), x), x + np.array(5, dtype))
    equal(applied(lambda x: x, x), x)


@feature("T11")
@pytest.mark.parametrize("dtype", ["int2", "uint2"])
def test_two_bits(dtype: str) -> None:
    x = (ramp(64, 128, dtype=INT) % 4 - (2 if dtype == "int2" else 0)).astype(dtype)
    equal(applied(lambda x: x.astype(INT), x, target="v6e"), x.astype(INT))


@feature("O19")
def test_inverse_error_function_and_next_number() -> None:
    x = jnp.clip(noise(8, 128) / 4, -0.99, 0.99)
    np.testing.assert_allclose(applied(jax.lax.erf_inv, x), jax.lax.erf_inv(x), rtol=1e-5)
    equal(applied(jnp.nextafter, x, -x), jnp.nextafter(x, -x))


@feature("O20")
def test_roundings() -> None:
    x = jnp.concatenate([jnp.array([0.5, 1.5, 2.5, -0.5, -1.5]), noise(123) * 9])[None]
    modes = jax.lax.RoundingMethod
    for f in (
        jnp.floor, jnp.ceil, lambda x: jax.lax.round(x, modes.AWAY_FROM_ZERO),
        lambda x: jax.lax.round(x, modes.TO_NEAREST_EVEN),
    ):  # fmt: skip
        equal(applied(f, x, form="mosaic"), f(x))


@feature("O21")
def test_bits_signs_and_limits() -> None:
    n = ramp(8, 128, dtype=INT) * 77777 - 400000
    for f in (jax.lax.clz, jax.lax.population_count, jnp.sign, lambda n: jnp.clip(n, -9, 9)):
        equal(applied(f, n, form="mosaic"), f(n))
    x = jnp.where(ramp(8, 128) % 3 == 0, jnp.inf, ramp(8, 128) - 300)
    for f in (jnp.sign, lambda x: jax.lax.clamp(-1.5, x, 2.5)):
        equal(applied(f, x), f(x))
    equal(applied(lambda x: jnp.where(jnp.isfinite(x), x, 0), x), jnp.where(jnp.isfinite(x), x, 0))


@feature("O22")
@pytest.mark.parametrize("options", [{}, {"approx": True}, {"full_range": True}])
def test_reciprocals(options: Any) -> None:
    x = noise(8, 128) + 3
    tolerance = 1e-2 if options.get("approx") else 1e-6
    result = applied(lambda x: pl.reciprocal(x, **options), x, target="v6e")
    np.testing.assert_allclose(result, 1 / np.asarray(x), rtol=tolerance)


@feature("A02")
def test_numbers_of_places() -> None:
    for axis in (0, 1):
        equal(
            applied(lambda x, axis=axis: x + jax.lax.broadcasted_iota(INT, x.shape, axis),
                    ramp(16, 200, dtype=INT)),
            ramp(16, 200, dtype=INT) + jax.lax.broadcasted_iota(INT, (16, 200), axis),
        )  # fmt: skip


@feature("N02", "N08")
@pytest.mark.parametrize("dtype", ["bfloat16", "int32"])
def test_reductions_of_other_types(dtype: str) -> None:
    x = (ramp(4, 16, 128) % 7).astype(dtype)
    for axes in (2, (0, 1)):
        for f in (jnp.sum, jnp.max):
            expected = f(x.astype("float32"), axis=axes, keepdims=True)
            if dtype == "bfloat16" and f is jnp.sum:
                continue  # rounds between steps
            equal(applied(lambda x, f=f, axes=axes: f(x, axis=axes, keepdims=True), x,
                          form="mosaic", target="v6e"), expected)  # fmt: skip
    whole = applied(lambda x: jnp.max(x, axis=(1, 2), keepdims=True), x, target="v6e")
    equal(whole.ravel(), [6] * 4)


@feature("N03")
def test_reductions_without_signs() -> None:
    x = ramp(8, 128, dtype=jnp.uint32)

    def body(x: Any, o: Any) -> None:
        o[...] = jnp.max(x[...], axis=0, keepdims=True)

    assert refusal(call(body, S(1, 128, dtype=x.dtype)), x)


@feature("W03")
def test_high_precision() -> None:
    x, y = noise(64, 64), noise(64, 64, seed=1)

    def product(x: Any, y: Any) -> Any:
        return jnp.dot(x, y, precision=jax.lax.Precision.HIGH)

    exact = np.asarray(x, np.float64) @ np.asarray(y, np.float64)
    try:
        error = np.abs(applied(product, x, y, form="mosaic") - exact).max()
    except Exception as refused:  # JAX 0.10.2 lowers DEFAULT and HIGHEST only
        assert "recision" in str(refused)
    else:
        assert error < 1e-3


@feature("W07")
def test_products_without_signs() -> None:
    x = ramp(128, 128, dtype=jnp.uint8)

    def body(x: Any, o: Any) -> None:
        o[...] = jnp.dot(x[...], x[...], preferred_element_type=jnp.uint32)

    assert "nsigned" in refusal(call(body, S(128, 128, dtype=jnp.uint32)), x)


@feature("W10")
def test_a_matrix_and_a_vector() -> None:
    x, y = noise(64, 128, dtype=jnp.bfloat16), noise(128, 1, dtype=jnp.bfloat16, seed=1)

    def product(x: Any, y: Any) -> Any:
        return jnp.dot(x, y, preferred_element_type=jnp.float32)

    expected = np.asarray(x, np.float32) @ np.asarray(y, np.float32)
    np.testing.assert_allclose(applied(product, x, y), expected, rtol=1e-5, atol=1e-4)


@feature("W12")
@pytest.mark.parametrize("form", ["pallas", "mosaic", "dma", "tiles", "vreg"])
def test_steps_of_the_matrix_unit(form: str) -> None:
    """Two products into sums that overlap by half, popped in two parts, the first transposed."""
    x, y = noise(128, 256, dtype=jnp.bfloat16), noise(256, 256, dtype=jnp.bfloat16, seed=1)

    def body(x: Any, y: Any, o: Any) -> None:
        pltpu.matmul_push_rhs(y[...], staging_register=0, mxu_index=1, transpose=True)
        pltpu.matmul_push_rhs(y[...], staging_register=1, mxu_index=1)
        pltpu.matmul_acc_lhs(0, x[...], mxu_index=1, load_staged_rhs=0)
        pltpu.matmul_acc_lhs(16, x[...], mxu_index=1, load_staged_rhs=1)
        o[:128] = pltpu.matmul_pop(0, (128, 256), jnp.float32, mxu_index=1)
        o[128:] = pltpu.matmul_pop(32, (64, 256), jnp.float32, mxu_index=1)

    result = run(call(body, S(192, 256)), x, y, target="v7x", form=form)
    left, right = (np.asarray(v, np.float32) for v in (x, y))
    expected = np.zeros((192, 256), np.float32)
    expected[:128] += left @ right.T
    expected[64:] += left @ right
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-3)
