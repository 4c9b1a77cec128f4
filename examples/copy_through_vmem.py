"""K15: a copy by hand from HBM to VMEM, a doubling there, and a copy back, with scoped buffers."""

import jax
import jax.numpy as jnp
from harness import agree, normal
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ANY = pl.BlockSpec(memory_space=pl.ANY)


def body(x_ref, o_ref):
    def scoped(inside, outside, arrived):
        fetch = pltpu.make_async_copy(x_ref, inside, arrived)
        fetch.start()
        fetch.wait()
        outside[...] = inside[...] + inside[...]
        store = pltpu.make_async_copy(outside, o_ref, arrived)
        store.start()
        store.wait()

    buffer = pltpu.VMEM(x_ref.shape, jnp.float32)
    pl.run_scoped(scoped, buffer, buffer, pltpu.SemaphoreType.DMA)


def double(x):
    return pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[ANY], out_specs=ANY
    )(x)


if __name__ == "__main__":
    x = normal(64, 256)
    agree("doubling through VMEM", double, (x,), x + x)
