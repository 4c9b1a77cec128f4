"""Block-sparse times dense: scalar prefetch chooses the blocks, an alias fills the empty ones.

Run `python examples/simulate_block_sparse.py`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasite.jax

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


def sparse_matmul(rows, columns, blocks, dense, height):
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


def main() -> None:
    rng = np.random.default_rng(0)
    positions = [(0, 1), (0, 3), (2, 0), (3, 3)]
    rows, columns = (jnp.array(index, jnp.int32) for index in zip(*positions, strict=True))
    blocks = jnp.asarray(rng.integers(-3, 4, (4, BLOCK, BLOCK)), jnp.bfloat16)
    dense = jnp.asarray(rng.integers(-3, 4, (4 * BLOCK, 2 * BLOCK)), jnp.bfloat16)
    with pallasite.jax.simulate(target="v5e", checks=("race",)):
        out = jax.jit(sparse_matmul, static_argnums=4)(rows, columns, blocks, dense, 4 * BLOCK)
    whole = np.zeros((4 * BLOCK, 4 * BLOCK), np.float32)
    for (row, column), block in zip(positions, np.asarray(blocks, np.float32), strict=True):
        whole[row * BLOCK :, column * BLOCK :][:BLOCK, :BLOCK] = block
    expected = jnp.asarray(whole @ np.asarray(dense, np.float32), out.dtype)
    np.testing.assert_array_equal(out, expected)
    print("block-sparse matmul agrees with NumPy, without races; block row 1 stays zero")


if __name__ == "__main__":
    main()
