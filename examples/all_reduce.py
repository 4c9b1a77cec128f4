"""K28: all-reduce on a ring with two buffers: sums travel to the right while this device adds its
own share. A semaphore says when the neighbour's buffer may be written again, so that a fast device
never overruns a slow one."""

import jax
import jax.numpy as jnp
from all_gather import DEVICES, meet, neighbours
from harness import agree, integers, mesh
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P


def body(x_ref, o_ref, buffers, send, receive, capacity):
    left, right = neighbours()
    meet()
    o_ref[...] = x_ref[...]
    buffers[0] = x_ref[...]
    for step in range(DEVICES - 1):
        slot, following = step % 2, (step + 1) % 2
        if step > 0:  # the right neighbour has read what was sent into that buffer before
            pl.semaphore_wait(capacity, 1)
        copy = pltpu.make_async_remote_copy(
            buffers.at[slot], buffers.at[following],
            send.at[slot], receive.at[following], (right,),
        )  # fmt: skip
        copy.start()
        copy.wait()
        if step < DEVICES - 2:  # this device's older buffer may be written by the left neighbour
            pl.semaphore_signal(capacity, 1, device_id=(left,))
        o_ref[...] += buffers[following]


def all_reduce(x):
    """The sum of the shards of all devices, on every device."""
    semaphores = pltpu.SemaphoreType.DMA((2,))
    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[
            pltpu.VMEM((2, *x.shape), x.dtype),
            semaphores,
            semaphores,
            pltpu.SemaphoreType.REGULAR,
        ],
        compiler_params=pltpu.CompilerParams(collective_id=0),
    )(x)


if __name__ == "__main__":
    ring = mesh(DEVICES)
    x = integers(DEVICES * 8, 128)
    sharded = jax.shard_map(
        all_reduce, mesh=ring, in_specs=P("x"), out_specs=P("x"), check_vma=False
    )
    total = jnp.tile(x.reshape(DEVICES, 8, 128).sum(axis=0), (DEVICES, 1))
    agree("all-reduce on 4 devices", sharded, (x,), total)
    assert lax.rem(DEVICES, 2) == 0
