"""K27: all-gather on a ring: shards travel to the right, one hop a step, by remote DMA. Every step
has a semaphore of its own, so that an early shard is not taken for another."""

import jax
import jax.numpy as jnp
from harness import agree, mesh, normal
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P

DEVICES = 4
ANY = pl.BlockSpec(memory_space=pl.ANY)


def neighbours():
    """The devices to the left and to the right of this one."""
    me = lax.axis_index("x")
    return lax.rem(me + DEVICES - 1, DEVICES), lax.rem(me + 1, DEVICES)


def meet():
    """Nobody goes on before both neighbours have come."""
    barrier = pltpu.get_barrier_semaphore()
    for neighbour in neighbours():
        pl.semaphore_signal(barrier, 1, device_id=(neighbour,))
    pl.semaphore_wait(barrier, 2)


def body(x_ref, o_ref, local, send, receive):
    me, (_, right) = lax.axis_index("x"), neighbours()
    meet()
    own = pltpu.make_async_copy(x_ref, o_ref.at[me], local)
    own.start()
    own.wait()

    @pl.loop(0, DEVICES - 1)
    def _(step):
        slot = o_ref.at[lax.rem(me + DEVICES - step, DEVICES)]
        copy = pltpu.make_async_remote_copy(slot, slot, send, receive.at[step], (right,))
        copy.start()
        copy.wait()


def all_gather(x):
    """The shards of all devices, on every device."""
    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((DEVICES, *x.shape), x.dtype),
        in_specs=[ANY],
        out_specs=ANY,
        scratch_shapes=[
            pltpu.SemaphoreType.DMA,
            pltpu.SemaphoreType.DMA,
            pltpu.SemaphoreType.DMA((DEVICES - 1,)),
        ],
        compiler_params=pltpu.CompilerParams(collective_id=0),
    )(x)


if __name__ == "__main__":
    ring = mesh(DEVICES)
    x = normal(DEVICES * 8, 128)
    sharded = jax.shard_map(
        lambda x: all_gather(x)[None],
        mesh=ring, in_specs=P("x"), out_specs=P("x"), check_vma=False,
    )  # fmt: skip
    everywhere = jnp.broadcast_to(x.reshape(1, DEVICES, 8, 128), (DEVICES, DEVICES, 8, 128))
    agree("all-gather on 4 devices", sharded, (x,), everywhere)
