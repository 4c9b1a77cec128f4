"""K7: a matrix product with whole rows and columns per block: fewer steps, more VMEM.

The loop over the depth runs inside the kernel, so nothing is accumulated across steps.
"""

import jax
import jax.numpy as jnp
from harness import agree, integers
from jax.experimental import pallas as pl

BLOCK = 128


def body(x_ref, y_ref, o_ref):
    def step(k, total):
        depth = pl.ds(pl.multiple_of(k * BLOCK, BLOCK), BLOCK)
        return total + jnp.dot(x_ref[:, depth], y_ref[depth, :], preferred_element_type=jnp.float32)

    o_ref[...] = jax.lax.fori_loop(0, x_ref.shape[1] // BLOCK, step, jnp.zeros_like(o_ref))


def matmul(x, y):
    (rows, depth), columns = x.shape, y.shape[1]
    return pl.pallas_call(
        body,
        grid=(rows // BLOCK, columns // BLOCK),
        in_specs=[
            pl.BlockSpec((BLOCK, depth), lambda i, j: (i, 0)),
            pl.BlockSpec((depth, BLOCK), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((BLOCK, BLOCK), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((rows, columns), jnp.float32),
    )(x, y)


if __name__ == "__main__":
    x, y = integers(256, 384), integers(384, 512, seed=1)
    agree("256x384 by 384x512 with whole rows", matmul, (x, y), x @ y)
