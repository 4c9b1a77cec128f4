"""Kernels of a SparseCore that start a transfer for a later one to wait for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.experimental.pallas import tpu_sc as plsc  # noqa: E402

from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.feature("Y16")]

f32, bf16 = jnp.float32, jnp.bfloat16


def copied(cores: int) -> Callable[..., Any]:
    """Makes a semaphore, starts a copy that counts on it, and waits for that, in three kernels.

    JAX 0.10.2 has such semaphores for scalar subcores only.
    """

    def call(x: Any) -> Any:
        mesh = plsc.ScalarSubcoreMesh(axis_name="c", num_cores=cores)
        made = pl.kernel(lambda _: None, out_type=pltpu.SemaphoreType.DMA(()), mesh=mesh)()
        done = jax.new_ref(made, memory_space=pltpu.SEMAPHORE)
        y = pl.empty_ref_like(pltpu.HBM(x.shape, x.dtype))
        source = jax.new_ref(x)

        @pl.core_map(mesh)
        def _() -> None:
            pltpu.make_async_copy(source, y, done).start()

        @pl.core_map(mesh)
        def _() -> None:
            pltpu.make_async_copy(source, y, done).wait()

        return y[...]

    return call


@pytest.mark.parametrize("target", ["v5p", "v6e", "v7x"])
@pytest.mark.parametrize("dtype", [f32, bf16])
def test_a_copy_over_three_kernels(target: str, dtype: Any) -> None:
    x = jnp.arange(math.prod((8, 256))).astype(dtype).reshape(8, 256)
    with simulate(target=target, checks=("race", "init", "sync")):
        np.testing.assert_array_equal(jax.jit(copied(1))(x), x)


def test_one_counter_is_not_for_several_subcores() -> None:
    with simulate(target="v7x"), pytest.raises(Unsupported, match="is one counter, but"):
        jax.jit(copied(2))(jnp.arange(128.0))
