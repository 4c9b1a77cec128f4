"""K24: a pipeline whose parallel axis is split over the two cores of a chip: 5 blocks, 3 and 2."""

import jax
from harness import agree, normal
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ROWS = 16


def add_block(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def add(x, y):
    block = pl.BlockSpec((ROWS, x.shape[1]), lambda i: (i, 0))

    def body(x_ref, y_ref, o_ref):
        pltpu.emit_pipeline(
            add_block,
            grid=(x.shape[0] // ROWS,),
            in_specs=[block, block],
            out_specs=[block],
            core_axis_name="core",
            dimension_semantics=(pltpu.PARALLEL,),
        )(x_ref, y_ref, o_ref)

    return pl.kernel(
        body,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        mesh=pltpu.create_tensorcore_mesh("core", num_cores=2),
    )(x, y)


if __name__ == "__main__":
    x, y = normal(5 * ROWS, 256), normal(5 * ROWS, 256, seed=1)
    agree("5 blocks on 2 cores", add, (x, y), x + y, target="v5p")
