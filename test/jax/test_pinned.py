"""Pinned buffers: values that JAX keeps where they are, between calls that alias them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax._src import config  # noqa: E402
from jax._src.state.primitives import pin, unpin  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite.jax  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax
X = jnp.arange(16 * 128, dtype=jnp.float32).reshape(16, 128)


def doubled(pinned: Any, space: Any = pltpu.HBM) -> Any:
    """A kernel that works in place on a pinned buffer of (16, 128) floats."""

    def body(_: Any, o: Any, rows: Any) -> None:
        pltpu.sync_copy(o, rows)
        rows[...] = rows[...] * 2
        pltpu.sync_copy(rows, o)

    spec = pl.BlockSpec(memory_space=space)
    return pl.pallas_call(
        body,
        out_shape=pinned,
        in_specs=[spec],
        out_specs=spec,
        scratch_shapes=[pltpu.VMEM((16, 128), jnp.float32)],
        input_output_aliases={0: 0},
    )(pinned)


@pytest.mark.parametrize("form", ["pallas", "mosaic", "tiles"])
@pytest.mark.parametrize("to", [None, "hbm", "vmem"])
def test_kernels_work_on_a_pinned_buffer(form: str, to: str | None) -> None:
    space = pltpu.VMEM if to == "vmem" else pltpu.HBM

    @jax.jit
    def f(x: Any) -> Any:
        return unpin(doubled(doubled(pin(x, to=to), space), space))

    with simulate(form=form, checks=("all",)):
        np.testing.assert_array_equal(f(X), X * 4)


@pytest.mark.since_jax("0.10.1", "effects of a kernel on refs that it captures")
def test_references_as_pinned_buffers() -> None:
    @jax.jit
    def f(x: Any) -> Any:
        ref = jax.new_ref(x)

        def double(rows: Any) -> None:
            pltpu.sync_copy(ref, rows)
            rows[...] = rows[...] * 2
            pltpu.sync_copy(rows, ref)

        rows = pltpu.VMEM((16, 128), jnp.float32)
        pl.pallas_call(double, out_shape=[], scratch_shapes=[rows])()
        return jax.freeze(ref)

    with config.refs_to_pins(True), simulate():
        np.testing.assert_array_equal(f(X), X * 2)


def test_kernels_on_pinned_buffers_are_found() -> None:
    def f(x: Any) -> Any:
        return unpin(doubled(pin(x)))

    for form in ("pallas", "mosaic"):
        assert len(pallasite.jax.kernels(f, X, form=form)) == 1
