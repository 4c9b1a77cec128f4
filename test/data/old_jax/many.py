"""A kernel with a grid, a table, a product, a reduction, a rotation, a loop and a copy of its own.

As a program it prints what JAX hands to the compiler; any JAX from 0.4.31 on runs it.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def body(places: Any, x: Any, y: Any, z: Any, o: Any, rows: Any, semaphore: Any) -> None:
    here = z.at[pl.ds(places[pl.program_id(0)] * 8, 8)]
    fetch = pltpu.make_async_copy(here, rows, semaphore)
    fetch.start()
    half = jnp.bfloat16
    product = jnp.dot(x[...].astype(half), y[...].astype(half), preferred_element_type=jnp.float32)
    fetch.wait()
    lane = jax.lax.broadcasted_iota(jnp.int32, (8, 128), 1)
    kept = jnp.where(lane < 100, pltpu.roll(product, 3, 1), 0.0)
    kept = jax.lax.fori_loop(0, 2, lambda _, carried: carried * 2.0, kept)
    o[...] = kept - jnp.max(product, axis=1, keepdims=True) + rows[...]


def call(places: Any, x: Any, y: Any, z: Any) -> Any:
    anywhere: Any = getattr(pl, "ANY", None) or getattr(pltpu, "TPUMemorySpace").ANY  # noqa: B009
    block = pl.BlockSpec((8, 128), lambda i, places: (i, 0))
    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[
                pl.BlockSpec((8, 256), lambda i, places: (i, 0)),
                pl.BlockSpec((256, 128), lambda i, places: (0, 0)),
                pl.BlockSpec(memory_space=anywhere),
            ],
            out_specs=block,
            scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA],
        ),
    )(places, x, y, z)


if __name__ == "__main__":
    shapes = [jax.ShapeDtypeStruct((4,), np.int32)]
    shapes += [jax.ShapeDtypeStruct(s, np.float32) for s in ((32, 256), (256, 128), (64, 128))]
    print(jax.jit(call).trace(*shapes).lower(lowering_platforms=("tpu",)).as_text())
