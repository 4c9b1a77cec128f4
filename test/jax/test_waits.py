"""Waits that take nothing from a view but how many bytes it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite.jax  # noqa: E402
from pallasite import Diagnostic  # noqa: E402

pytestmark = pytest.mark.jax

FORMS = ("pallas", "mosaic", "dma", "tiles", "vreg")
WORDS = jax.ShapeDtypeStruct((2, 8, 128), jnp.float32)


def call(body: Any) -> Any:
    """`body(rows, x, o, buffer, semaphore)`, `buffer` of two blocks of 8 rows."""
    return pl.pallas_call(
        body,
        out_shape=WORDS,
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM(WORDS.shape, WORDS.dtype), pltpu.SemaphoreType.DMA],
    )


def awaited_together(rows: Any, x: Any, o: Any, buffer: Any, semaphore: Any) -> None:
    for i in range(2):
        pltpu.make_async_copy(x.at[i], buffer.at[i], semaphore).start()
    both = buffer.at[0, pl.ds(0, rows[0])]
    pltpu.make_async_copy(both, both, semaphore).wait()
    o[...] = buffer[...]


@pytest.mark.parametrize("form", FORMS)
def test_one_wait_for_more_than_the_buffer_it_names(form: str) -> None:
    x = jnp.arange(2048, dtype=jnp.float32).reshape(2, 8, 128)
    with pallasite.jax.simulate(form=form, checks="all"):
        y = call(awaited_together)(jnp.array([16]), x)
    np.testing.assert_array_equal(y, x)


def test_a_wait_for_more_than_was_started() -> None:
    x = jnp.zeros(WORDS.shape, WORDS.dtype)
    with pallasite.jax.simulate(), pytest.raises(Diagnostic, match=r"deadlock.*for 8704 .* 8192"):
        call(awaited_together)(jnp.array([17]), x)


@pytest.mark.parametrize("form", FORMS)
def test_a_view_that_is_also_copied_must_be_inside(form: str) -> None:
    def body(rows: Any, x: Any, o: Any, buffer: Any, semaphore: Any) -> None:
        part = pl.ds(0, rows[0])
        copy = pltpu.make_async_copy(x.at[0, part], buffer.at[0, part], semaphore)
        copy.start()
        copy.wait()
        o[...] = buffer[...]

    x = jnp.zeros(WORDS.shape, WORDS.dtype)
    with pallasite.jax.simulate(form=form), pytest.raises(Diagnostic, match="outside memref"):
        call(body)(jnp.array([16]), x)


@pytest.mark.parametrize("form", FORMS)
def test_a_wait_that_leaves_the_count(form: str) -> None:
    """JAX lowers it as one that does not; a wait for the count that is left would hang."""

    def body(rows: Any, x: Any, o: Any, buffer: Any, semaphore: Any) -> None:
        def await_and_keep(semaphore: Any) -> None:
            pl.semaphore_signal(semaphore)

            @pl.when(rows[0] > 0)
            def _() -> None:
                pl.semaphore_wait(semaphore, 1, decrement=False)

            pl.semaphore_wait(semaphore, 1)

        pl.run_scoped(await_and_keep, pltpu.SemaphoreType.REGULAR)
        pltpu.sync_copy(x, o)

    x = jnp.zeros(WORDS.shape, WORDS.dtype)
    with pallasite.jax.simulate(form=form), pytest.raises(Diagnostic, match="count") as caught:
        jax.jit(call(body))(jnp.array([1]), x)
    assert caught.value.code == "unsupported-primitive" and caught.value.location is not None
