"""Kernels with `interpret=` inside a simulation are JAX's own business, whatever the form."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import KernelWarning  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .support import line_of  # noqa: E402

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


def test_only_interpreted_kernels_are_warned_of() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + 1.0

    def program(x: Any, interpret: Any) -> Any:
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(body, out_shape=shape, interpret=interpret)(x)  # the call

    x = np.ones((8, 128), np.float32)
    mark = f"{Path(__file__).name}:{line_of(__file__, 'the call')}:"
    for interpret in (True, pltpu.InterpretParams()):
        with pytest.warns(KernelWarning, match=r"\[interpreted\]") as told, simulate():
            program(x, interpret)
        assert mark in str(told[0].message) and "jax.default_backend()" in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with simulate():
            program(x, True)
            program(x, False)
        with simulate():
            x + 1
        program(x, True)
        run = jax.jit(program, static_argnums=1)
        with simulate():
            run(x, False)
        with simulate():  # What was compiled before runs here, too.
            run(x, False)
            program(x, True)
