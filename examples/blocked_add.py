"""K3: the sum of two matrices in blocks of rows; the pipeline fetches the next block meanwhile."""

import jax
from harness import agree, normal
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ROWS = 256


def body(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def add(x, y):
    block = pl.BlockSpec((ROWS, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        body,
        grid=(x.shape[0] // ROWS,),
        in_specs=[block, block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x, y)


if __name__ == "__main__":
    x, y = normal(1024, 512), normal(1024, 512, seed=1)
    agree("sum in blocks of 256x512", add, (x, y), x + y)
    agree("the same on two cores", add, (x, y), x + y, target="v5p")
