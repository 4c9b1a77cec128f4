"""How the tests of SparseCores run a kernel: as it is, in both drivers, with every check."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.pallas import mpmd
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc
from xdsl.dialects.builtin import ModuleOp

from pallasite.api import parse
from pallasite.api import simulate as run
from pallasite.dialects import make_context
from pallasite.frontend.aot import kernel_bytecode
from pallasite.interpreter.run import Driver
from pallasite.jax import kernels, simulate
from pallasite.lowering.pallas_to_mosaic import LowerToMosaicPass

from ..conftest import Jaxlib
from .same_module import canonical, described
from .since import is_at_least

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


def handed_over(x: Any) -> Any:
    """Scalar subcores tell the vector subcores of their core when its part of `x` is there.

    A kernel of both kinds of subcores: the rows of `x`, f32[16, 16], once for each of two cores.
    """

    def scalar(x: Any, o: Any, table: Any, ready: Any) -> None:
        pltpu.sync_copy(x, table)

        @pl.loop(0, 16)
        def _(i: Any) -> None:
            pl.semaphore_signal(ready, 1, device_id={"s": i})

    def vector(x: Any, o: Any, table: Any, ready: Any) -> None:
        core, number = jax.lax.axis_index("c"), jax.lax.axis_index("s")
        pl.semaphore_wait(ready, 1)
        pltpu.sync_copy(table.at[number], o.at[core * 16 + number])

    scalars = plsc.ScalarSubcoreMesh(axis_name="c", num_cores=2)
    vectors = plsc.VectorSubcoreMesh(core_axis_name="c", subcore_axis_name="s")
    return mpmd.mpmd_map(
        [(scalars, scalar), (vectors, vector)], typed(32, 16),
        scratch_types=[
            pltpu.VMEM_SHARED((16, 16), jnp.float32), pltpu.SemaphoreType.REGULAR @ vectors
        ],
    )(x)  # fmt: skip


def worker() -> Any:
    """The number of a vector subcore on its device."""
    return jax.lax.axis_index("c") * 16 + jax.lax.axis_index("s")


def results(call: Callable[..., Any], *args: Any, target: str = TARGET) -> list[Any]:
    """What `call` computes as a JAX program, which both drivers compute, too, in any order, from
    the module that JAX lowers and from its `pallas` form."""
    with simulate(target=target, form="vreg", checks=CHECKS):
        found = [np.asarray(x) for x in jax.tree.leaves(jax.jit(call)(*args))]
    (lowered,) = kernels(call, *args, target=target, form="mosaic")
    (traced,) = kernels(call, *args, target=target)
    # An older jaxlib does not read the version of Mosaic that we write.
    if is_at_least("0.10.2"):
        same_as_lowered(traced, lowered)
    runs: tuple[tuple[Driver, int, ModuleOp, str], ...] = (
        ("reference", 0, lowered, "tiles"), ("compiled", 1, lowered, "tiles"),
        ("compiled", 2, traced, "pallas"),
    )  # fmt: skip
    for driver, seed, module, form in runs:
        inputs = [np.asarray(x) for x in args]
        outcome = run(
            module, inputs, form=form, target=target, checks=CHECKS, driver=driver, seed=seed
        )
        assert not outcome.findings, outcome.findings[0]
        for ours, known in zip(outcome.outputs[0], found, strict=True):
            np.testing.assert_array_equal(ours, known)
    return found


@cache
def _jaxlib() -> Jaxlib:
    return Jaxlib()


def same_as_lowered(traced: ModuleOp, lowered: ModuleOp) -> None:
    """`traced`, of form `pallas`, reads back as it was, and lowers to the module of JAX's own."""
    text = str(traced)
    assert str(parse(text)) == text
    ours = traced.clone()
    LowerToMosaicPass().apply(make_context(), ours)
    mine, theirs = (
        described(canonical(_jaxlib(), _jaxlib().deserialize(kernel_bytecode(module))))
        for module in (ours, lowered)
    )
    assert mine == theirs


def check(call: Callable[..., Any], *args: Any, want: Any, target: str = TARGET) -> None:
    """`call` gives the array, or arrays, `want`."""
    wanted = want if isinstance(want, tuple | list) else [want]
    for got, expected in zip(results(call, *args, target=target), wanted, strict=True):
        np.testing.assert_array_equal(got, np.asarray(expected))
