"""Rotations whose amount grows along another dimension, against their definition."""

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

SHAPE = (4, 3, 16, 256)


@pytest.mark.parametrize(
    ("dim", "along"), [(0, 1), (1, 0), (0, 2), (1, 2), (2, 0), (2, 1), (3, 0), (3, 2)]
)
def test_strided_roll(dim: int, along: int) -> None:
    amount, stride = 7, 5

    def body(n: Any, x: Any, o: Any) -> None:
        o[...] = pltpu.roll(x[...], n[0], dim, stride=stride, stride_axis=along)

    x = np.arange(np.prod(SHAPE), dtype=np.int32).reshape(SHAPE)
    grid_spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1)
    call = pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct(SHAPE, jnp.int32), grid_spec=grid_spec
    )
    with simulate():
        y = call(jnp.array([amount]), x)
    slices = np.split(x, SHAPE[along], along)
    rolled = [np.roll(part, amount + k * stride, dim) for k, part in enumerate(slices)]
    np.testing.assert_array_equal(y, np.concatenate(rolled, along))
