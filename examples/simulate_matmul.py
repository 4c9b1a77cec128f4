"""A matmul with its own pipeline: `pl.kernel` on a TensorCore mesh, `emit_pipeline` inside.

Run `python examples/simulate_matmul.py [SIZE]`. The operands stay in HBM; the inner pipeline moves
blocks of 512 through double-buffered VMEM.
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasite.jax

BLOCK = 512


def inner(x_ref, y_ref, o_ref):
    """One block step; the output block is the accumulator."""

    @pl.when(pl.program_id(2) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)


def matmul(x, y):
    """x @ y in f32."""
    rows, depth, columns = x.shape[0], x.shape[1], y.shape[1]

    def body(x_ref, y_ref, o_ref):
        pltpu.emit_pipeline(
            inner,
            grid=(rows // BLOCK, columns // BLOCK, depth // BLOCK),
            in_specs=[
                pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, k)),
                pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (k, j)),
            ],
            out_specs=[pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, j))],
        )(x_ref, y_ref, o_ref)

    return pl.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((rows, columns), jnp.float32),
        mesh=pltpu.create_tensorcore_mesh("core"),
    )(x, y)


def main(size: int = 1024) -> None:
    rng = np.random.default_rng(0)
    x, y = (jnp.asarray(rng.standard_normal((size, size)), jnp.bfloat16) for _ in range(2))
    with pallasite.jax.simulate(target="v5e"):
        out = jax.jit(matmul)(x, y)
    expected = np.asarray(x, np.float32) @ np.asarray(y, np.float32)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4 * size)
    print(f"{size}x{size} matmul through emit_pipeline agrees with NumPy")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
