"""What goes wrong in a simulated kernel reaches the caller as a `pallasite.Diagnostic`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import (  # noqa: E402
    ExecutionError,
    KernelWarning,
    Unsupported,
    UsageError,
)
from pallasite.jax import simulate  # noqa: E402

from .support import line_of  # noqa: E402

pytestmark = pytest.mark.jax

HERE = Path(__file__).name


def at(diagnostic: pallasite.Diagnostic, mark: str) -> bool:
    where = diagnostic.location
    if where is None or Path(where.file).name != HERE:
        return False
    return where.line == line_of(__file__, mark)


def read_at(start: Any, x: Any) -> Any:
    def body(start: Any, x: Any, o: Any) -> None:
        o[...] = x[pl.ds(start[0], 8), :]  # the load

    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)],
    )(start, x)


@pytest.mark.parametrize("form", ["mosaic", "dma", "tiles", "vreg"])
def test_out_of_bounds(form: str) -> None:
    x = jnp.ones((16, 128))
    with simulate(form=form):
        f = jax.jit(read_at)
        np.testing.assert_array_equal(f(jnp.array([8]), x), np.ones((8, 128)))
        with pytest.raises(ExecutionError) as caught:
            f(jnp.array([12]), x)
        assert at(caught.value, "the load")
        # Nothing needs to be reset.
        np.testing.assert_array_equal(f(jnp.array([8]), x), np.ones((8, 128)))
    jax.effects_barrier()


def test_error_inside_a_loop_ends_it() -> None:
    x = jnp.ones((16, 128))

    def step(carry: Any, start: Any) -> Any:
        return carry, read_at(start[None], x)

    with simulate(), pytest.raises(ExecutionError):
        jax.lax.scan(step, 0.0, jnp.array([0, 99, 0]))


def test_refused_when_lowered() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + 1.0

    big = jax.ShapeDtypeStruct((8192, 8192), jnp.float32)
    with simulate(), pytest.raises(Unsupported, match="VMEM"):
        jax.jit(lambda x: pl.pallas_call(body, out_shape=big)(x)).lower(big)


def test_finding() -> None:
    def body(x: Any, o: Any, scratch: Any) -> None:
        o[...] = x[...] + scratch[...]  # the read

    x = jnp.ones((8, 128))
    f = jax.jit(
        lambda x: pl.pallas_call(
            body, out_shape=x, scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)]
        )(x)
    )
    with simulate(), pytest.warns(KernelWarning, match="uninitialised-read"):
        f(x)
    with simulate(checks=("init",)), pytest.raises(pallasite.Diagnostic) as caught:
        f(x)
    assert caught.value.severity == "finding"
    assert at(caught.value, "the read")


def test_names() -> None:
    with pytest.raises(UsageError, match="v5e"):
        simulate(target="v9")
    with pytest.raises(UsageError, match="tiles"):
        simulate(form="llvm")
    with pytest.raises(UsageError, match="race"):
        simulate(checks=("speed",))


def test_diagnostics_are_errors_of_jax_too() -> None:
    """Programs that try out block sizes catch what JAX raises when a kernel does not compile."""

    def body(x: Any, o: Any) -> None:
        o[...] = x[...]

    def copy(limit: int) -> Any:
        params = pltpu.CompilerParams(vmem_limit_bytes=limit)
        x = jnp.ones((128, 128))
        return pl.pallas_call(body, out_shape=x, compiler_params=params)(x)

    with simulate():
        copy(2**18)
        with pytest.raises(jax.errors.JaxRuntimeError) as caught:
            copy(2**10)
        assert isinstance(caught.value, Unsupported)
        with pytest.raises(jax.errors.JaxRuntimeError) as caught:
            read_at(jnp.array([12]), jnp.ones((16, 128)))
        assert isinstance(caught.value, ExecutionError)


def test_limits_of_a_call() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = jax.lax.while_loop(lambda v: jnp.max(v) < 2.0, lambda v: v * 0.5, x[...])

    x = jnp.ones((8, 128))
    f = pl.pallas_call(body, out_shape=x)
    with simulate(max_steps=10_000), pytest.raises(ExecutionError) as caught:
        f(x)
    assert caught.value.code == "step-limit"
    with simulate(max_steps=10_000):
        np.testing.assert_array_equal(f(2 * x), 2 * np.ones((8, 128)))
    with simulate(max_memory=4096), pytest.raises(ExecutionError) as caught:
        f(2 * x)
    assert caught.value.code == "memory-limit"


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_arrays_without_elements(form: str) -> None:
    """libtpu 0.0.51 was asked on v5e and v6e. XLA drops calls whose results have no elements."""

    def copy(x: Any, empty: Any, o: Any) -> None:
        o[...] = x[...]

    def nothing(x: Any, o: Any) -> None:
        pass

    x = jnp.ones((8, 128))
    for shape in ((0, 128), (8, 0), (0,)):
        empty = jnp.zeros(shape)
        with simulate(form=form), pytest.raises(Unsupported, match="no elements") as caught:
            pl.pallas_call(copy, out_shape=x)(x, empty)
        assert caught.value.code == "empty-array"
        with simulate(form=form):
            assert pl.pallas_call(nothing, out_shape=empty)(x).shape == shape


def test_a_kernel_beyond_the_reference_compiler() -> None:
    x = jnp.arange(300, dtype=jnp.float32).reshape(6, 50)

    def kernel(x: Any, o: Any) -> None:
        o[...] = x[...].reshape(10, 30)

    call = jax.jit(pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((10, 30), x.dtype)))
    with simulate(), pytest.raises(Unsupported, match="cannot reshape"):
        call(x)
    with simulate(allow_beyond_reference=True):
        np.testing.assert_array_equal(np.asarray(call(x)), np.asarray(x).reshape(10, 30))
