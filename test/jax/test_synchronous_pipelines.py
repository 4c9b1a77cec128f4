"""`no_pipelining` copies every block in every step, also one that has not changed, in every form.

So JAX's `emit_pipeline` does it: `sync_copy` of all inputs before the body, and of all outputs
after it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pallasite

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.jax

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite.jax  # noqa: E402

ANY = pl.BlockSpec(memory_space=pl.ANY)


def rewritten(rows: int) -> Any:
    """A program whose pipeline writes what it makes back to the blocks that it reads next.

    Input blocks stay for two steps each; with 8 rows, the block is the whole array in all steps.
    """
    blocks = rows // 8

    def kernel(x_in: Any, o: Any, x: Any) -> None:
        def step(x_block: Any, o_block: Any) -> None:
            o_block[...] = x_block[...] + 1.0
            pltpu.sync_copy(o_block, x.at[pl.ds(8 * pl.program_id(0), 8)])

        pltpu.sync_copy(x_in, x)
        pltpu.emit_pipeline(
            step,
            grid=(blocks, 2),
            in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, 0))],
            out_specs=[pl.BlockSpec((8, 128), lambda i, j: (2 * i + j, 0))],
            no_pipelining=True,
        )(x, o)

    shapes = [jax.ShapeDtypeStruct((n, 128), jnp.float32) for n in (2 * rows, rows)]
    return pl.pallas_call(kernel, out_shape=shapes, in_specs=[ANY], out_specs=[ANY, ANY])


@pytest.mark.parametrize("rows", [8, 24])
def test_inputs_are_fetched_in_every_step(rows: int) -> None:
    x = np.arange(rows * 128, dtype=np.float32).reshape(rows, 128)
    steps = x.reshape(-1, 1, 8, 128) + np.array([1.0, 2.0], np.float32)[:, None, None]
    program = rewritten(rows)
    with pallasite.jax.simulate():
        found = program(x)[0]
    np.testing.assert_array_equal(found, steps.reshape(-1, 128))
    module = pallasite.jax.trace(program, x)
    for form in ("pallas", "mosaic", "dma", "tiles", "vreg"):
        (found, _) = pallasite.run(module, [x], form=form)
        np.testing.assert_array_equal(found, steps.reshape(-1, 128), err_msg=form)


def test_outputs_are_written_back_in_every_step() -> None:
    def kernel(x: Any, o: Any, read: Any) -> None:
        def step(x_block: Any, o_block: Any) -> None:
            # What the array held when the step began.
            row = pl.program_id(0)
            pltpu.sync_copy(o.at[pl.ds(0, 8)], read.at[pl.ds(8 * row, 8)])
            o_block[...] = x_block[...]

        pltpu.sync_copy(x.at[pl.ds(24, 8)], o)
        pltpu.emit_pipeline(
            step,
            grid=(3,),
            in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
            out_specs=[pl.BlockSpec((8, 128), lambda i: (0, 0))],
            no_pipelining=True,
        )(x, o)

    x = np.arange(32 * 128, dtype=np.float32).reshape(32, 128)
    shapes = [jax.ShapeDtypeStruct((n, 128), jnp.float32) for n in (8, 24)]
    program = pl.pallas_call(kernel, out_shape=shapes, in_specs=[ANY], out_specs=[ANY, ANY])
    expected = np.concatenate([x[24:], x[:16]])
    with pallasite.jax.simulate():
        np.testing.assert_array_equal(program(x)[1], expected)
    module = pallasite.jax.trace(program, x)
    for form in ("pallas", "mosaic", "dma", "tiles", "vreg"):
        np.testing.assert_array_equal(
            pallasite.run(module, [x], form=form)[1], expected, err_msg=form
        )
