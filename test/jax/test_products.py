"""Products of two element types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax


@pytest.mark.parametrize(
    ("left", "right", "total", "target"),
    [
        ("bfloat16", "int8", "float32", "v5e"),
        ("int4", "float8_e4m3fn", "float32", "v6e"),
        ("int8", "int4", "int32", "v7x"),
        ("int8", "int8", "float32", "v7x"),
    ],
)
@pytest.mark.parametrize("form", ["pallas", "mosaic", "tiles", "vreg"])
def test_factors_of_different_types(
    left: str, right: str, total: str, target: str, form: str
) -> None:
    def body(x: Any, y: Any, o: Any) -> None:
        o[...] = jnp.dot(x[...], y[...], preferred_element_type=jnp.dtype(total))

    random = np.random.default_rng(0)
    x = random.integers(-8, 8, (32, 128))
    y = random.integers(-8, 8, (128, 128))
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((32, 128), total))
    with simulate(target, form=form):
        result = call(jnp.asarray(x).astype(left), jnp.asarray(y).astype(right))
    np.testing.assert_array_equal(result, x @ y)


@pytest.mark.parametrize("contracted", [0, 1])
def test_sums_of_more_products_than_float32_holds(contracted: int) -> None:
    """The matrix unit of v7x adds in float32: longer sums are sums of words."""

    def body(x: Any, y: Any, start: Any, o: Any) -> None:
        numbers = (((1,), (contracted,)), ((), ()))
        o[...] = start[...] + jax.lax.dot_general(
            x[...], y[...], numbers, preferred_element_type=jnp.int32
        )

    draw = np.random.default_rng(0)
    x = draw.integers(-128, -120, (32, 2432)).astype(np.int8)
    y = draw.integers(-128, -120, (2432, 128)).astype(np.int8)
    start = np.full((32, 128), 2**31 - 5, np.int32)
    exact = x.astype(np.int64) @ y.astype(np.int64)
    assert exact.min() > 2**25 and (exact % 4).any()
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((32, 128), "int32"))
    for form in ("mosaic", "tiles", "vreg"):
        with simulate("v7x", form=form):
            result = call(x, y if contracted == 0 else y.T, start)
        np.testing.assert_array_equal(result, (exact + start).astype(np.int32))
