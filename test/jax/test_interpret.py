"""Kernels with `interpret=` inside a simulation are JAX's own business, whatever the form."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax

ANY = pl.BlockSpec(memory_space=pl.ANY)


def pipelined(x: Any, y: Any, o: Any) -> None:
    def add(x: Any, y: Any, o: Any) -> None:
        o[...] = x[...] + y[...]

    rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
    pltpu.emit_pipeline(add, grid=(2,), in_specs=[rows, rows], out_specs=[rows])(x, y, o)


def added(x: Any, interpret: Any) -> Any:
    call = pl.pallas_call(
        pipelined, out_shape=x, in_specs=[ANY, ANY], out_specs=ANY, interpret=interpret
    )
    return jax.jit(call)(x, x)


@pytest.mark.parametrize("interpret", [True, pltpu.InterpretParams()])
def test_a_pipeline(interpret: Any) -> None:
    x = jnp.arange(16 * 128.0).reshape(16, 128)
    with simulate(form="pallas"):
        np.testing.assert_array_equal(added(x, interpret), 2 * x)
        np.testing.assert_array_equal(added(x, False), 2 * x)


def test_a_mesh_kernel_and_the_mode_of_the_configuration() -> None:
    x = jnp.arange(16 * 128.0).reshape(16, 128)
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)
    with simulate(form="pallas"):
        for mode in (pltpu.force_tpu_interpret_mode(), nullcontext()):
            with mode:
                kernel = pl.kernel(pipelined, out_type=x, mesh=mesh)
                np.testing.assert_array_equal(jax.jit(kernel)(x, x), 2 * x)
