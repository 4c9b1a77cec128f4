"""K9: a matrix product whose last step applies any function of JAX to the finished block."""

import functools

import jax
import jax.numpy as jnp
from harness import agree, normal
from jax.experimental import pallas as pl

BLOCK = 128


def gelu(x):
    """The exact one, by `erf`; JAX's own uses `erfc`, which kernels cannot."""
    return 0.5 * x * (1 + jax.lax.erf(x * 0.5**0.5))


def body(x_ref, y_ref, o_ref, *, activation):
    step = pl.program_id(2)

    @pl.when(step == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(step == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = activation(o_ref[...])


def matmul(x, y, *, activation):
    (rows, depth), columns = x.shape, y.shape[1]
    return pl.pallas_call(
        functools.partial(body, activation=activation),
        grid=(rows // BLOCK, columns // BLOCK, depth // BLOCK),
        in_specs=[
            pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, k)),
            pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((rows, columns), jnp.float32),
    )(x, y)


if __name__ == "__main__":
    x, y = (normal(256, 256, dtype=jnp.bfloat16, seed=seed) for seed in (0, 1))
    product = x.astype(jnp.float32) @ y.astype(jnp.float32)
    for name, function in {
        "relu": jax.nn.relu, "tanh": jnp.tanh, "sigmoid": jax.nn.sigmoid, "gelu": gelu
    }.items():  # fmt: skip
        program = functools.partial(matmul, activation=function)
        agree(f"matmul with {name}", program, (x, y), function(product), tolerance=1e-5)
