"""Whole arrays of which a kernel without a grid does not see all dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite  # noqa: E402
from pallasite.jax import simulate, trace  # noqa: E402

from .support import equal, ramp  # noqa: E402

pytestmark = pytest.mark.jax
FORMS = ["pallas", "mosaic", "vreg"]
X = ramp(1, 8, 128)


def leading(space: Any = None) -> Any:
    return pl.BlockSpec((pl.squeezed, 8, 128), lambda: (0, 0, 0), memory_space=space)


def doubled() -> Callable[[Any], Any]:
    """Twice the rows of an array whose leading dimension is left out, the result's middle one."""

    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + x[...]

    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((8, 1, 128), jnp.float32),
        in_specs=[leading()],
        out_specs=pl.BlockSpec((8, pl.squeezed, 128), lambda: (0, 0, 0)),
    )


@pytest.mark.parametrize("form", FORMS)
def test_rows(form: Any) -> None:
    with simulate(form=form, checks="all"):
        equal(doubled()(X), 2 * X.reshape(8, 1, 128))


@pytest.mark.parametrize("form", ["pallas", "mosaic", "dma", "tiles", "vreg"])
def test_the_lowering_of_what_is_traced(form: Any) -> None:
    (result,) = pallasite.run(trace(doubled(), X), [X], form=form)
    equal(result, 2 * X.reshape(8, 1, 128))


@pytest.mark.parametrize("form", FORMS)
def test_a_number(form: Any) -> None:
    def body(n: Any, x: Any, o: Any) -> None:
        o[...] = x[...] * n[...].astype(jnp.float32)

    number = pl.BlockSpec((pl.squeezed,), lambda: (0,), memory_space=pltpu.SMEM)
    call = pl.pallas_call(body, out_shape=X[0], in_specs=[number, leading()])
    with simulate(form=form, checks="all"):
        equal(call(jnp.asarray([3]), X), 3 * X[0])


@pytest.mark.parametrize("form", FORMS)
def test_a_random_key(form: Any) -> None:
    def body(key: Any, o: Any) -> None:
        o[...] = jax.random.uniform(key[...], shape=o.shape)

    def drawn(spec: Any, key: Any) -> Any:
        return pl.pallas_call(body, out_shape=X[0], in_specs=[spec])(key)

    key = pltpu.to_pallas_key(jax.random.key(3, impl="rbg"))
    number = pl.BlockSpec((pl.squeezed,), lambda: (0,), memory_space=pltpu.SMEM)
    with simulate(form=form):
        whole = drawn(pl.BlockSpec(memory_space=pltpu.SMEM), key)
        equal(drawn(number, key[None]), whole)


@pytest.mark.parametrize("form", FORMS)
def test_memory_that_is_shared(form: Any) -> None:
    def body(x: Any, o: Any) -> None:
        o[0:4] = x[4:8]

    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(X.shape, jnp.float32),
        in_specs=[leading()],
        out_specs=leading(),
        input_output_aliases={0: 0},
    )
    with simulate(form=form):
        equal(call(X), X.at[0, 0:4].set(X[0, 4:8]))
