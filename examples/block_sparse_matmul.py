"""K19: block-sparse times dense: scalar prefetch chooses blocks, an alias fills the empty rows."""

import jax
import jax.numpy as jnp
import numpy as np
from harness import agree, integers
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK = 128


def body(rows_ref, columns_ref, block_ref, dense_ref, zeros_ref, o_ref, acc_ref):
    """Consecutive blocks of one row add up; the last one of a row writes it."""
    del columns_ref, zeros_ref
    step, last = pl.program_id(1), pl.num_programs(1) - 1
    row = rows_ref[step]

    @pl.when((step == 0) | (rows_ref[jnp.maximum(step - 1, 0)] != row))
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(block_ref[0], dense_ref[...], preferred_element_type=jnp.float32)

    @pl.when((step == last) | (rows_ref[jnp.minimum(step + 1, last)] != row))
    def _():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def sparse_matmul(rows, columns, blocks, dense, *, height):
    """The sum over b of blocks[b] at block position (rows[b], columns[b]), times dense."""
    width = dense.shape[1]
    out = pl.BlockSpec((BLOCK, BLOCK), lambda j, b, rows, columns: (rows[b], j))
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=2,
        grid=(width // BLOCK, len(blocks)),
        in_specs=[
            pl.BlockSpec((1, BLOCK, BLOCK), lambda j, b, rows, columns: (b, 0, 0)),
            pl.BlockSpec((BLOCK, BLOCK), lambda j, b, rows, columns: (columns[b], j)),
            out,
        ],
        out_specs=out,
        scratch_shapes=[pltpu.VMEM((BLOCK, BLOCK), jnp.float32)],
    )
    zeros = jnp.zeros((height, width), dense.dtype)
    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(zeros.shape, zeros.dtype),
        grid_spec=grid,
        input_output_aliases={4: 0},  # counts the prefetch operands
    )(rows, columns, blocks, dense, zeros)


if __name__ == "__main__":
    height = 4 * BLOCK
    positions = [(0, 1), (0, 3), (2, 0), (3, 3)]  # nothing in block row 1
    rows, columns = (jnp.array(index, jnp.int32) for index in zip(*positions, strict=True))
    blocks = integers(4, BLOCK, BLOCK, dtype=jnp.bfloat16)
    dense = integers(4 * BLOCK, 2 * BLOCK, dtype=jnp.bfloat16, seed=1)
    whole = np.zeros((height, height), np.float32)
    for (row, column), block in zip(positions, np.asarray(blocks, np.float32), strict=True):
        whole[row * BLOCK :, column * BLOCK :][:BLOCK, :BLOCK] = block
    expected = jnp.asarray(whole @ np.asarray(dense, np.float32), dense.dtype)
    agree(
        "4 of 16 blocks times dense",
        lambda *x: sparse_matmul(*x, height=height),
        (rows, columns, blocks, dense),
        expected,
    )
