"""How the tests of SparseCores run a kernel: as it is, in both drivers, with every check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

from pallasite.api import simulate as run
from pallasite.jax import kernels, simulate

CHECKS = ("race", "init", "bounds", "sync")
TARGET = "v7x"
LANES = 16
LINEAR = pltpu.CompilerParams(use_tc_tiling_on_sc=False)
"""Rows need not be those of a TensorCore's tiles: gathered ones may be of any size."""


def typed(*shape: int, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


def vector_kernel(
    body: Callable[..., None],
    out: Any,
    scratch: Any = (),
    cores: int = 2,
    subcores: int = 16,
    **options: Any,
) -> Callable[..., Any]:
    """`body` on the vector subcores of a mesh with axes `c` and `s`; made inside a simulation."""

    def call(*args: Any) -> Any:
        mesh = plsc.VectorSubcoreMesh(
            core_axis_name="c", subcore_axis_name="s", num_cores=cores, num_subcores=subcores
        )
        return pl.kernel(body, out_type=out, mesh=mesh, scratch_types=scratch, **options)(*args)

    return call


def one_subcore(
    body: Callable[..., None], out: Any, scratch: Any = (), **options: Any
) -> Callable[..., Any]:
    """`body` on a single vector subcore."""
    return vector_kernel(body, out, scratch, 1, 1, **options)


def scalar_kernel(
    body: Callable[..., None], out: Any, scratch: Any = (), cores: int = 2
) -> Callable[..., Any]:
    """`body` on the scalar subcores of a mesh with axis `c`."""

    def call(*args: Any) -> Any:
        mesh = plsc.ScalarSubcoreMesh(axis_name="c", num_cores=cores)
        return pl.kernel(body, out_type=out, mesh=mesh, scratch_types=scratch)(*args)

    return call


def worker() -> Any:
    """The number of a vector subcore on its device."""
    return jax.lax.axis_index("c") * 16 + jax.lax.axis_index("s")


def results(call: Callable[..., Any], *args: Any, target: str = TARGET) -> list[Any]:
    """What `call` computes as a JAX program, which both drivers compute, too, in any order."""
    with simulate(target=target, form="vreg", checks=CHECKS):
        found = [np.asarray(x) for x in jax.tree.leaves(jax.jit(call)(*args))]
    (module,) = kernels(call, *args, target=target, form="mosaic")
    for driver, seed in (("reference", 0), ("compiled", 1), ("compiled", 2)):
        inputs = [np.asarray(x) for x in args]
        outcome = run(
            module, inputs, form="tiles", target=target, checks=CHECKS, driver=driver, seed=seed
        )
        assert not outcome.findings, outcome.findings[0]
        for ours, known in zip(outcome.outputs[0], found, strict=True):
            np.testing.assert_array_equal(ours, known)
    return found


def check(call: Callable[..., Any], *args: Any, want: Any, target: str = TARGET) -> None:
    """`call` gives the array, or arrays, `want`."""
    wanted = want if isinstance(want, tuple | list) else [want]
    for got, expected in zip(results(call, *args, target=target), wanted, strict=True):
        np.testing.assert_array_equal(got, np.asarray(expected))
