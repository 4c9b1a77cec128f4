"""K1: the sum of two vectors, each whole in VMEM: a kernel without a grid."""

import jax
import jax.numpy as jnp
from harness import agree, normal
from jax.experimental import pallas as pl


def body(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def add(x, y):
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)


if __name__ == "__main__":
    x = jnp.arange(8, dtype=jnp.int32)
    agree("sum of two int32[8]", add, (x, x), x + x)
    x = normal(1000)
    agree("sum of two float32[1000]", add, (x, x), x + x)
