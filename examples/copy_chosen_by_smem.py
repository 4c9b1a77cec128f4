"""K16: numbers fetched into SMEM choose which rows are fetched next: a gather of blocks of rows."""

import jax
import jax.numpy as jnp
from harness import agree, normal
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ROWS = 8
ANY = pl.BlockSpec(memory_space=pl.ANY)


def body(order_ref, x_ref, o_ref, order, arrived):
    fetch = pltpu.make_async_copy(order_ref, order, arrived)
    fetch.start()
    fetch.wait()

    @pl.loop(0, order.shape[0])
    def _(i):
        source = pl.ds(pl.multiple_of(order[i] * ROWS, ROWS), ROWS)
        target = pl.ds(pl.multiple_of(i * ROWS, ROWS), ROWS)
        copy = pltpu.make_async_copy(x_ref.at[source], o_ref.at[target], arrived)
        copy.start()
        copy.wait()


def gather(order, x):
    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((order.size * ROWS, x.shape[1]), x.dtype),
        in_specs=[ANY, ANY],
        out_specs=ANY,
        scratch_shapes=[pltpu.SMEM(order.shape, order.dtype), pltpu.SemaphoreType.DMA],
    )(order, x)


if __name__ == "__main__":
    order = jnp.array([3, 0, 5, 5, 1, 7, 2, 6], jnp.int32)
    x = normal(64, 128)
    expected = x.reshape(8, ROWS, 128)[order].reshape(-1, 128)
    agree("gather of blocks of 8 rows", gather, (order, x), expected)
