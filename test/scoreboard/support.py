"""Short ways to run a kernel on the modelled TPU, for the tests of the feature list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import Diagnostic  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from ..jax.support import equal, ramp  # noqa: E402

__all__ = [
    "DMA", "S", "apply", "call", "equal", "jax", "jnp", "noise", "numbered", "pl", "pltpu", "ramp",
    "refusal", "run", "whole",
]  # fmt: skip

ALL_CHECKS = ("race", "init", "bounds", "sync")
DMA = pltpu.SemaphoreType.DMA


def S(*shape: int, dtype: Any = jnp.float32) -> Any:
    """The shape and type of a result."""
    return jax.ShapeDtypeStruct(shape, dtype)


def run(
    function: Callable[..., Any],
    *inputs: Any,
    form: str = "tiles",
    target: str = "v5e",
    checks: Sequence[str] = ALL_CHECKS,
    seed: int = 0,
) -> Any:
    """`jit(function)(*inputs)` on the modelled TPU, as NumPy arrays."""
    with simulate(target=target, form=form, checks=checks, seed=seed):
        return jax.tree.map(np.asarray, jax.jit(function)(*inputs))


def call(body: Callable[..., None], out: Any, **options: Any) -> Callable[..., Any]:
    """A kernel call with the result `out`."""
    return pl.pallas_call(body, out_shape=out, **options)


def whole(function: Callable[..., Any], *inputs: Any) -> Callable[..., Any]:
    """A kernel call that computes `function` of whole arrays like `inputs`."""
    out = jax.eval_shape(function, *inputs)

    def body(*refs: Any) -> None:
        *sources, o = refs
        o[...] = function(*(x[...] for x in sources))

    return call(body, S(*out.shape, dtype=out.dtype))


def apply(function: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    """`function` of whole arrays, computed in a kernel."""
    return run(whole(function, *inputs), *inputs, **options)


def numbered(body: Callable[..., None], out: Any, **options: Any) -> Callable[..., Any]:
    """A kernel of both cores of a chip, numbered along the axis `core`."""
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)
    return pl.kernel(body, out_type=out, mesh=mesh, **options)


def refusal(function: Callable[..., Any], *inputs: Any, **options: Any) -> str:
    """What is said when `function` is refused, by JAX or by us; fails if it is not."""
    try:
        run(function, *inputs, **options)
    except (Diagnostic, Exception) as error:
        assert not isinstance(error, AssertionError)
        if isinstance(error, Diagnostic):
            assert error.code != "internal-error", error
        return str(error)
    raise AssertionError("the kernel was accepted")


def noise(*shape: int, dtype: Any = jnp.float32, seed: int = 0) -> Any:
    """Seeded normal noise."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)
