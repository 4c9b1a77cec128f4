"""`jax.lax.platform_dependent` takes the branch for TPUs in a simulation, and there only."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

import pallasite.jax  # noqa: E402
from pallasite.diagnostics import KernelWarning  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .support import equal, ramp  # noqa: E402

pytestmark = pytest.mark.jax


def double_body(x: Any, o: Any) -> None:
    o[...] = x[...] * 2


def double(x: Any) -> Any:
    return pl.pallas_call(double_body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def chosen(x: Any) -> Any:
    return lax.platform_dependent(x, tpu=double, default=lambda x: x * 3)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_kernel_of_the_branch_for_tpus(wrap: Callable[..., Any]) -> None:
    x, f = ramp(8, 128), wrap(chosen)
    equal(f(x), 3 * x)
    with simulate():
        equal(f(x), 2 * x)
        equal(jax.vmap(f)(x[None]), 2 * x[None])
    equal(f(x), 3 * x)


def test_branches_of_several_platforms() -> None:
    x = ramp(8, 128)
    f = jax.jit(lambda x: lax.platform_dependent(x, cuda=jnp.negative, cpu=jnp.exp, tpu=double))
    with simulate():
        equal(f(x), 2 * x)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_branch_for_tpus_alone(wrap: Callable[..., Any]) -> None:
    x = ramp(8, 128)
    f = wrap(lambda x: lax.platform_dependent(x, tpu=double))
    with simulate():
        equal(f(x), 2 * x)
    with pytest.raises(NotImplementedError):
        f(x)


def test_branches_without_one_for_tpus() -> None:
    x = ramp(8, 128)
    f = jax.jit(lambda x: lax.platform_dependent(x, cuda=jnp.exp, default=lambda x: double(x) + 1))
    g = jax.jit(lambda n, x: lax.cond(n > 0, lambda x: double(x), lambda x: x, x))
    with simulate():
        equal(f(x), 2 * x + 1)
        equal(g(1, x), 2 * x)
        equal(g(0, x), x)


def test_derivatives_of_the_branch_for_tpus() -> None:
    kernel = jax.custom_jvp(double)
    kernel.defjvp(lambda x, t: (double(x[0]), double(t[0])))
    f = lambda x: lax.platform_dependent(x, tpu=kernel, default=lambda x: x * 3)  # noqa: E731
    with simulate():
        equal(jax.jit(lambda x: jax.jvp(f, (x,), (x,)))(ramp(8, 128))[1], 2 * ramp(8, 128))


def test_kernels_of_the_branch_are_traced() -> None:
    assert len(pallasite.jax.kernels(chosen, jax.ShapeDtypeStruct((8, 128), jnp.float32))) == 1


def test_programs_for_tpus_are_what_they_were() -> None:
    """JAX picks the branch itself where it writes for a TPU, or for several platforms."""
    x = ramp(8, 128)

    def written(*names: str) -> str:
        f = jax.jit(lambda x: lax.platform_dependent(x, tpu=jnp.negative, default=jnp.exp))
        return f.trace(x).lower(lowering_platforms=names).as_text()

    known = [written("tpu"), written("cpu", "tpu"), written("cpu")]
    with simulate():
        assert [written("tpu"), written("cpu", "tpu")] == known[:2]
        assert "negate" in written("cpu")
    assert written("cpu") == known[2]
    assert "negate" in known[0] and "exponential" not in known[0]


def by_backend(x: Any) -> Any:
    return double(x) if jax.default_backend() == "tpu" else x * 3


def test_programs_that_ask_for_the_backend_and_run_no_kernel() -> None:
    x = ramp(8, 128)
    with pytest.warns(KernelWarning, match="asked for JAX's backend") as told, simulate():
        equal(by_backend(x), 3 * x)
    (warning,) = told
    assert f"{Path(__file__).name}:{by_backend.__code__.co_firstlineno + 1}" in str(warning.message)


def test_programs_that_ask_for_the_backend_and_run_a_kernel() -> None:
    x = ramp(8, 128)
    jax.default_backend()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with simulate():
            equal(by_backend(x), 3 * x)
            equal(double(x), 2 * x)
        with simulate():
            equal(double(x), 2 * x)
