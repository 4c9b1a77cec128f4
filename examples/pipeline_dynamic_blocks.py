"""K23: a pipeline over blocks whose places and sizes are read from a table in SMEM: bounded slices,
here the segments of a ragged batch, each doubled."""

import jax
import jax.numpy as jnp
import numpy as np
from harness import agree, normal
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

LIMIT = 32  # rows of the longest segment
ANY = pl.BlockSpec(memory_space=pl.ANY)


def body(starts_ref, sizes_ref, x_ref, o_ref):
    def segment(i):
        start = pl.multiple_of(starts_ref[i], 8)
        size = pl.multiple_of(sizes_ref[i], 8)
        return pl.ds(start, size), 0

    def double(x_block, o_block):
        o_block[...] = x_block[...] + x_block[...]

    spec = pl.BlockSpec((pl.BoundedSlice(LIMIT), x_ref.shape[1]), segment)
    pltpu.emit_pipeline(double, grid=(starts_ref.shape[0],), in_specs=[spec], out_specs=[spec])(
        x_ref, o_ref
    )


def double_segments(starts, sizes, x):
    table = pl.BlockSpec(memory_space=pltpu.SMEM)
    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[table, table, ANY],
        out_specs=ANY,
    )(starts, sizes, x)


if __name__ == "__main__":
    sizes = np.array([8, 32, 16, 24, 16])
    starts = np.cumsum(sizes) - sizes
    x = normal(int(sizes.sum()), 128)
    table = [jnp.asarray(t, jnp.int32) for t in (starts, sizes)]
    # The rest of a block that a short segment leaves unwritten is read and never stored.
    agree(
        "5 segments of 8 to 32 rows", double_segments, (*table, x), x + x, checks=("race", "sync")
    )
