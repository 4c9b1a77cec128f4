"""K6: a blocked matrix product; the output block is the accumulator over the last grid axis.

An output block stays in VMEM while its index does not change, so it is written back once per
(i, j). Operands of float32 are rounded to bfloat16 at default precision, as on the chip.
"""

import jax
import jax.numpy as jnp
from harness import agree, integers
from jax.experimental import pallas as pl

BLOCK = 128


def body(x_ref, y_ref, o_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)


def matmul(x, y):
    (rows, depth), columns = x.shape, y.shape[1]
    return pl.pallas_call(
        body,
        grid=(rows // BLOCK, columns // BLOCK, depth // BLOCK),
        in_specs=[
            pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, k)),
            pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((rows, columns), jnp.float32),
    )(x, y)


if __name__ == "__main__":
    x, y = integers(256, 384), integers(384, 512, seed=1)
    agree("256x384 by 384x512", matmul, (x, y), x @ y)
