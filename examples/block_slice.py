"""K18: a slice of whole blocks whose position is known only at run time: scalar prefetch hands it
to the index map, so only the blocks of the slice are fetched."""

import jax
import jax.numpy as jnp
from harness import agree, normal
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK = (8, 128)


def body(start_ref, x_ref, o_ref):
    del start_ref
    o_ref[...] = x_ref[...]


def block_slice(start, x, *, blocks):
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=blocks,
        in_specs=[pl.BlockSpec(BLOCK, lambda i, j, start: (i + start[0], j + start[1]))],
        out_specs=pl.BlockSpec(BLOCK, lambda i, j, start: (i, j)),
    )
    shape = tuple(n * size for n, size in zip(blocks, BLOCK, strict=True))
    out = jax.ShapeDtypeStruct(shape, x.dtype)
    return pl.pallas_call(body, grid_spec=grid, out_shape=out)(start, x)


if __name__ == "__main__":
    x, start = normal(64, 512), jnp.array([3, 1], jnp.int32)
    expected = x[24:40, 128:384]
    agree("blocks from (3, 1)", lambda s, x: block_slice(s, x, blocks=(2, 2)), (start, x), expected)
