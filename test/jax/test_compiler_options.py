"""Options of the TPU compiler, which programs carry and the CPU's does not know."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")

from jax.experimental import pallas as pl  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

from .support import equal, ramp  # noqa: E402

pytestmark = pytest.mark.jax


def add_body(x: Any, y: Any, o: Any) -> None:
    o[...] = x[...] + y[...]


def add(x: Any, y: Any) -> Any:
    return pl.pallas_call(add_body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)


def test_options_of_the_tpu_compiler() -> None:
    options = {"xla_tpu_scoped_vmem_limit_kib": "65536"}
    x = ramp(8, 128)
    with simulate():
        equal(jax.jit(add, compiler_options=options)(x, x), 2 * x)
        equal(jax.jit(add).lower(x, x).compile(options)(x, x), 2 * x)


@pytest.mark.parametrize(
    "name", ["xla_tpu_x", "xla_sc_assert_level", "xla_enable_async_all_gather"]
)
def test_options_that_only_the_tpu_compiler_knows(name: str) -> None:
    """Programs of a simulation carry them, also those without a kernel; others do not."""
    x = ramp(8, 128)
    plain = jax.jit(lambda x: x + 1, compiler_options={name: "true"})
    with simulate():
        equal(jax.jit(add, compiler_options={name: "true"})(x, x), 2 * x)
        equal(plain(x), x + 1)
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"No such compile option: '{name}'"):
        plain.lower(x).compile()


@pytest.mark.parametrize("name", ["xla_cpu_enable_fastmath", "vmem_limit"])
def test_options_that_are_misspelt(name: str) -> None:
    x = ramp(8, 128)
    with simulate(), pytest.raises(jax.errors.JaxRuntimeError, match=f"option: '{name}'"):
        jax.jit(add, compiler_options={name: "true"})(x, x)
