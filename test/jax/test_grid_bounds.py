"""Grids of a size known at run time: which numbers count steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax

ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
HBM = pl.BlockSpec(memory_space=pl.ANY)
NUMBERS = pl.BlockSpec(memory_space=pltpu.SMEM)
X = np.arange(32 * 128, dtype=np.float32).reshape(32, 128)
Steps = Callable[[Any], Any]


def doubled(x: Any, o: Any) -> None:
    o[...] = 2 * x[...]


def by_a_grid(steps: Steps) -> Any:
    def call(n: Any, x: Any) -> Any:
        return pl.pallas_call(
            doubled, out_shape=x, grid=(steps(n),), in_specs=[ROWS], out_specs=ROWS
        )(x)

    return jax.jit(call)(32, X)


def by_a_pipeline(steps: Steps) -> Any:
    def body(n: Any, x: Any, o: Any) -> None:
        pltpu.emit_pipeline(doubled, grid=(steps(n[0]),), in_specs=[ROWS], out_specs=[ROWS])(x, o)

    return pl.pallas_call(body, out_shape=X, in_specs=[NUMBERS, HBM], out_specs=HBM)(
        jnp.array([32]), X
    )


@pytest.mark.parametrize("form", ["pallas", "tiles"])
@pytest.mark.parametrize("call", [by_a_grid, by_a_pipeline])
@pytest.mark.parametrize(
    "steps", [lambda n: n / 8, lambda n: jnp.ceil(n / 8), lambda n: (n // 8).astype(jnp.int16)]
)
def test_other_numbers_are_refused(steps: Steps, call: Callable[[Steps], Any], form: str) -> None:
    with simulate(form=form), pytest.raises(Exception) as refused:
        call(steps)
    told = "\n".join([str(refused.value), *getattr(refused.value, "__notes__", ())])
    assert "write n // 2 instead of n / 2, or n.astype(jnp.int32)" in told
    assert f"{Path(__file__).name}:" in told


@pytest.mark.parametrize("form", ["pallas", "tiles"])
@pytest.mark.parametrize("call", [by_a_grid, by_a_pipeline])
@pytest.mark.parametrize("steps", [lambda n: n // 8, lambda n: (n / 8).astype(jnp.int32)])
def test_rewrites(steps: Steps, call: Callable[[Steps], Any], form: str) -> None:
    with simulate(form=form):
        np.testing.assert_array_equal(call(steps), 2 * X)


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_other_words_count_steps(form: str) -> None:
    with simulate(form=form):
        np.testing.assert_array_equal(by_a_grid(lambda n: jnp.uint32(n) // 8), 2 * X)
        np.testing.assert_array_equal(by_a_grid(lambda n: n > 0)[:8], 2 * X[:8])
