"""Rotations whose amount grows along another dimension, against their definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax

SHAPE = (4, 3, 16, 256)


@pytest.mark.parametrize(("dim", "along"), [(0, 1), (1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_strided_roll(dim: int, along: int) -> None:
    amount, stride = 7, 5

    def body(n: Any, x: Any, o: Any) -> None:
        # What differs from row to row is known when the kernel is compiled.
        shift = amount if along == 2 else n[0]
        o[...] = pltpu.roll(x[...], shift, dim, stride=stride, stride_axis=along)

    x = np.arange(np.prod(SHAPE), dtype=np.int32).reshape(SHAPE)
    with simulate():
        y = call(body)(jnp.array([amount]), x)
    slices = np.split(x, SHAPE[along], along)
    rolled = [np.roll(part, amount + k * stride, dim) for k, part in enumerate(slices)]
    np.testing.assert_array_equal(y, np.concatenate(rolled, along))


def test_what_no_chip_rotates_is_refused() -> None:
    def body(n: Any, x: Any, o: Any) -> None:
        o[...] = pltpu.roll(x[...], n[0], 3, stride=1, stride_axis=2)

    with simulate(), pytest.raises(Unsupported, match="known at run time"):
        call(body)(jnp.array([1]), np.zeros(SHAPE, np.int32))


def call(body: Any) -> Any:
    grid_spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1)
    return pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct(SHAPE, jnp.int32), grid_spec=grid_spec
    )
