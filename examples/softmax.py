"""K5: softmax over the rows of a matrix, a block of rows per step."""

import jax
import jax.numpy as jnp
from harness import agree, normal
from jax.experimental import pallas as pl

ROWS = 128


def body(x_ref, o_ref):
    x = x_ref[...]
    weights = jnp.exp(x - jnp.max(x, axis=-1, keepdims=True))
    o_ref[...] = weights / jnp.sum(weights, axis=-1, keepdims=True)


def softmax(x):
    block = pl.BlockSpec((ROWS, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        body,
        grid=(x.shape[0] // ROWS,),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)


if __name__ == "__main__":
    x = normal(512, 640)
    agree("softmax of 512 rows", softmax, (x,), jax.nn.softmax(x, axis=-1), tolerance=1e-6)
