"""K20: a dense matrix product of which only some output blocks are wanted. Where the mask is empty
nothing is computed, and prefetched tables point to the blocks of the next wanted product, so that
nothing is fetched for the others either."""

import jax
import jax.numpy as jnp
import numpy as np
from harness import agree, integers
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK = 128


def body(wanted_ref, row_ref, column_ref, depth_ref, x_ref, y_ref, o_ref, acc_ref):
    del row_ref, column_ref, depth_ref
    i, j, k = (pl.program_id(axis) for axis in range(3))
    wanted = wanted_ref[i, j] != 0

    @pl.when(k == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(wanted)
    def _():
        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(k == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def tables(wanted, depth):
    """Per step (i, j, k) the blocks (row, column, depth) of this or of the next wanted product."""
    rows, columns = wanted.shape
    steps = np.array(list(np.ndindex(rows, columns, depth)))
    following = steps[-1] * 0
    out = np.zeros_like(steps)
    for at in range(len(steps) - 1, -1, -1):
        if wanted[tuple(steps[at][:2])]:
            following = steps[at]
        out[at] = following
    return [jnp.asarray(t, jnp.int32) for t in out.T]


def masked_matmul(wanted, x, y):
    rows, columns, depth = x.shape[0] // BLOCK, y.shape[1] // BLOCK, x.shape[1] // BLOCK

    def step(i, j, k):
        return (i * columns + j) * depth + k

    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=4,
        grid=(rows, columns, depth),
        in_specs=[
            pl.BlockSpec(
                (BLOCK, BLOCK), lambda i, j, k, w, row, _, d: (row[step(i, j, k)], d[step(i, j, k)])
            ),
            pl.BlockSpec(
                (BLOCK, BLOCK), lambda i, j, k, w, _, col, d: (d[step(i, j, k)], col[step(i, j, k)])
            ),
        ],
        out_specs=pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k, *_: (i, j)),
        scratch_shapes=[pltpu.VMEM((BLOCK, BLOCK), jnp.float32)],
    )
    shape = jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype)
    prefetched = (jnp.asarray(wanted, jnp.int32), *tables(wanted, depth))
    return pl.pallas_call(body, grid_spec=grid, out_shape=shape)(*prefetched, x, y)


if __name__ == "__main__":
    wanted = np.eye(3, dtype=bool)
    wanted[0, 2] = True
    x, y = (integers(3 * BLOCK, 3 * BLOCK, dtype=jnp.bfloat16, seed=seed) for seed in (0, 1))
    product = np.asarray(x, np.float32) @ np.asarray(y, np.float32)
    expected = product * np.kron(wanted, np.ones((BLOCK, BLOCK)))
    expected = jnp.asarray(expected, x.dtype)
    agree("4 of 9 output blocks", lambda x, y: masked_matmul(wanted, x, y), (x, y), expected)
