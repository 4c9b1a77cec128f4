"""Denormal numbers are kept, in every form, also on the threads of XLA, which flush them."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

import pallasite.jax  # noqa: E402
from pallasite.interpreter.values import quiet  # noqa: E402

pytestmark = pytest.mark.jax

SMALL = np.resize(np.array([1e-40, -3e-39, 1e-38, 0.0, 1.0], np.float32), (8, 128))


def scaled(x_ref, o_ref):
    half = x_ref[...] * 0.5
    o_ref[...] = jnp.where(half != 0, half + x_ref[...], 2.0)


@pytest.mark.parametrize("form", ["pallas", "mosaic", "dma", "tiles", "vreg"])
def test_denormal_numbers_are_kept(form: str) -> None:
    f = pl.pallas_call(scaled, out_shape=jax.ShapeDtypeStruct(SMALL.shape, jnp.float32))
    expected = np.where(SMALL != 0, SMALL * np.float32(0.5) + SMALL, np.float32(2))
    (alone,) = pallasite.run(pallasite.jax.trace(f, SMALL), [SMALL], form=form)
    with pallasite.jax.simulate(target="v5e", form=form):
        within = np.asarray(jax.jit(f)(SMALL))
    for answer in (alone, within):
        np.testing.assert_array_equal(answer.view(np.int32), expected.view(np.int32))


def test_threads_of_others_stay_as_they_are() -> None:
    def keeps_denormals() -> bool:
        return bool(np.float32(2e-38) * np.float32(0.5) != 0)

    def asks(x):
        before = keeps_denormals()
        with quiet():
            within = keeps_denormals()
        assert within and before == keeps_denormals()
        return x

    shape = jax.ShapeDtypeStruct((), jnp.float32)
    jax.jit(lambda x: jax.pure_callback(asks, shape, x))(jnp.float32(1)).block_until_ready()
