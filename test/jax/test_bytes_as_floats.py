"""Bytes that kernels take for 8-bit floats are the same bytes afterwards, whatever they mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax

BYTES = np.tile(np.arange(256, dtype=np.uint8).view(np.int8), (32, 1))


def seen(x: Any, o: Any) -> None:
    o[...] = x.bitcast(o.dtype)[...]


def taken(x: Any, o: Any) -> None:
    o[...] = pltpu.bitcast(x[...], o.dtype)


def turned_and_back(x: Any, o: Any) -> None:
    floats = pltpu.bitcast(x[...], jnp.float8_e5m2)
    o[...] = pltpu.bitcast(pltpu.roll(pltpu.roll(floats, 3, 1), 253, 1), jnp.int8)


@pytest.mark.parametrize("form", ["pallas", "mosaic", "tiles", "vreg"])
@pytest.mark.parametrize(
    ("body", "dtype"),
    [(seen, jnp.float8_e5m2), (taken, jnp.float8_e5m2), (turned_and_back, jnp.int8)],
)
def test_every_byte_is_kept(body: Any, dtype: Any, form: Any) -> None:
    with simulate("v6e", form):
        out = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(BYTES.shape, dtype))(BYTES)
    assert np.array_equal(np.asarray(out).view(np.int8), BYTES)
