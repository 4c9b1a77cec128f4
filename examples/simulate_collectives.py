"""Ring all-gather and reduce-scatter by remote DMA between four devices, on one CPU.

Run `python examples/simulate_collectives.py`. Every device runs the same kernel; all of them run
together in one machine, with its semaphores and DMAs in flight.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import pallasite.jax

DEVICES = 4
ANY = pl.BlockSpec(memory_space=pl.ANY)
MESH = pl.DeviceIdType.MESH


def neighbours():
    """The devices to the left and to the right of this one."""
    me = lax.axis_index("x")
    return lax.rem(me + DEVICES - 1, DEVICES), lax.rem(me + 1, DEVICES)


def meet():
    """Nobody goes on before both neighbours have come."""
    barrier = pltpu.get_barrier_semaphore()
    for neighbour in neighbours():
        pl.semaphore_signal(barrier, 1, device_id=(neighbour,), device_id_type=MESH)
    pl.semaphore_wait(barrier, 2)


def all_gather(x):
    """The shards of all devices, on every device."""

    def body(x_ref, o_ref, local, send, receive):
        me, (_, right) = lax.axis_index("x"), neighbours()
        meet()
        own = pltpu.make_async_copy(x_ref, o_ref.at[me], local)
        own.start()
        own.wait()

        @pl.loop(0, DEVICES - 1)
        def _(step):
            slot = o_ref.at[lax.rem(me + DEVICES - step, DEVICES)]
            copy = pltpu.make_async_remote_copy(
                slot, slot, send, receive.at[step], (right,), device_id_type=MESH
            )
            copy.start()
            copy.wait()

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


def reduce_scatter(x):
    """The sum over all devices of the chunk that belongs to this one; x is (DEVICES, R, C)."""

    def body(x_ref, o_ref, mine, incoming, local, send, receive):
        me, (_, right) = lax.axis_index("x"), neighbours()

        def chunk(step):  # the partial sum that this device holds in that step
            return lax.rem(me + 2 * DEVICES - 1 - step, DEVICES)

        def fetch(step):
            copy = pltpu.make_async_copy(x_ref.at[chunk(step)], mine, local)
            copy.start()
            copy.wait()

        meet()
        fetch(0)

        @pl.loop(0, DEVICES - 1)
        def _(step):
            copy = pltpu.make_async_remote_copy(
                mine, incoming.at[step], send, receive.at[step], (right,), device_id_type=MESH
            )
            copy.start()
            copy.wait()
            fetch(step + 1)
            mine[...] += incoming[step]

        o_ref[...] = mine[...]

    shape = x.shape[1:]
    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(shape, x.dtype),
        in_specs=[ANY],
        scratch_shapes=[
            pltpu.VMEM(shape, x.dtype),
            pltpu.VMEM((DEVICES - 1, *shape), x.dtype),
            pltpu.SemaphoreType.DMA,
            pltpu.SemaphoreType.DMA,
            pltpu.SemaphoreType.DMA((DEVICES - 1,)),
        ],
        compiler_params=pltpu.CompilerParams(collective_id=1),
    )(x)


def main() -> None:
    jax.config.update("jax_num_cpu_devices", DEVICES)
    mesh = Mesh(np.array(jax.devices()[:DEVICES]), ("x",))

    def sharded(f):
        return jax.jit(
            jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
        )

    x = jnp.arange(DEVICES * 8 * 128, dtype=jnp.float32).reshape(DEVICES * 8, 128)
    partial = jnp.arange(DEVICES**2 * 8 * 128, dtype=jnp.float32) % 17
    partial = partial.reshape(DEVICES * DEVICES, 8, 128)
    with pallasite.jax.simulate(target="v5e", checks=("race", "sync")):
        gathered = sharded(lambda x: all_gather(x)[None])(x)
        scattered = sharded(reduce_scatter)(partial)
    for device in range(DEVICES):
        np.testing.assert_array_equal(gathered[device].reshape(x.shape), x)
    sums = np.asarray(partial).reshape(DEVICES, DEVICES, 8, 128).sum(axis=0)
    np.testing.assert_array_equal(scattered, sums.reshape(-1, 128))
    print(f"all-gather and reduce-scatter between {DEVICES} devices agree with NumPy, no races")


if __name__ == "__main__":
    main()
