"""`cost_analysis()` counts what kernels say that they cost."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax

COSTS = ("flops", "transcendentals", "bytes accessed")
ESTIMATE = pl.CostEstimate(flops=1234, transcendentals=21, bytes_accessed=12345)


def copy(x: Any, o: Any) -> None:
    o[...] = x[...]


def costs(program: Any, *args: Any) -> list[float]:
    with simulate():
        analysis = jax.jit(program).lower(*args).compile().cost_analysis()
    return [analysis[name] for name in COSTS]


def test_estimates_are_counted() -> None:
    shape = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    kernel = pl.pallas_call(copy, out_shape=shape, cost_estimate=ESTIMATE)
    x = jnp.zeros((8, 128))
    assert costs(kernel, x) == [1234, 21, 12345]
    assert costs(jax.vmap(kernel), jnp.stack([x] * 3)) == [3 * 1234, 3 * 21, 3 * 12345]

    def twice(x: Any) -> Any:
        return kernel(jnp.exp(kernel(x))) * 2.0

    flops, exponentials, _ = costs(twice, x)
    assert (flops, exponentials) == (2 * 1234 + 1024, 2 * 21 + 1024)


def test_a_program_without_kernels_is_counted_as_ever() -> None:
    def program(x: Any) -> Any:
        return x * 2.0

    x = jnp.zeros((8, 128))
    analysis = jax.jit(program).lower(x).compile().cost_analysis()
    with simulate():
        assert jax.jit(program).lower(x).compile().cost_analysis() == analysis
