"""K21: a matrix product of 4096 with its own pipeline: `pl.kernel` on a TensorCore mesh and
`emit_pipeline` inside. The operands stay in HBM; blocks of 512 pass through VMEM.

Where a chip has two cores that share its memories (v4, v5p), both run the kernel: the pipeline
gives each its share of the rows. Without `core_axis_name` both would write every block, a race."""

import jax
import jax.numpy as jnp
import numpy as np
from harness import agree, normal
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK = 512


def inner(x_ref, y_ref, o_ref):
    """One step; the output block is the accumulator."""

    @pl.when(pl.program_id(2) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)


def matmul(x, y, *, block=BLOCK, mode=None, cores=None, **options):
    """x @ y in float32; `mode` is the buffering of the inputs, `options` go to the pipeline.

    `cores` of the chip take part, by default all of them.
    """
    rows, depth, columns = x.shape[0], x.shape[1], y.shape[1]

    def body(x_ref, y_ref, o_ref):
        pltpu.emit_pipeline(
            inner,
            grid=(rows // block, columns // block, depth // block),
            in_specs=[
                pl.BlockSpec((block, block), lambda i, j, k: (i, k), pipeline_mode=mode),
                pl.BlockSpec((block, block), lambda i, j, k: (k, j), pipeline_mode=mode),
            ],
            out_specs=[pl.BlockSpec((block, block), lambda i, j, k: (i, j))],
            core_axis_name="core",
            dimension_semantics=(pltpu.PARALLEL, pltpu.ARBITRARY, pltpu.ARBITRARY),
            **options,
        )(x_ref, y_ref, o_ref)

    return pl.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((rows, columns), jnp.float32),
        mesh=pltpu.create_tensorcore_mesh("core", num_cores=cores),
    )(x, y)


def product(x, y):
    """What to expect: products of bfloat16 values are exact in float32."""
    return np.asarray(x, np.float32) @ np.asarray(y, np.float32)


if __name__ == "__main__":
    x, y = (normal(1024, 1024, dtype=jnp.bfloat16, seed=seed) for seed in (0, 1))
    agree("1024^3 in blocks of 512", matmul, (x, y), product(x, y), tolerance=1e-5)
    x, y = (normal(4096, 4096, dtype=jnp.bfloat16, seed=seed) for seed in (0, 1))
    expected = product(x, y)
    agree("4096^3", matmul, (x, y), expected, tolerance=1e-5, forms=("tiles",), checks=())
