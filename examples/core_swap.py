"""K25: the two cores of a chip swap the halves of an array: each fetches one half into its own
memory, meets the other at a barrier, and sends its half into the other's memory."""

import jax
import jax.numpy as jnp
from harness import agree, normal
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def swap(x):
    half = x.shape[0] // 2

    def body(x_ref, o_ref, mine, theirs, local, send, receive):
        core = jax.lax.axis_index("core")
        rows = pl.ds(core * half, half)
        pltpu.sync_copy(x_ref.at[rows], mine)
        barrier = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(barrier, 1, device_id={"core": 1 - core})
        pl.semaphore_wait(barrier, 1)
        copy = pltpu.make_async_remote_copy(
            mine, theirs, send, receive, device_id={"core": 1 - core}
        )
        copy.start()
        copy.wait()
        out = pltpu.make_async_copy(theirs, o_ref.at[rows], local)
        out.start()
        out.wait()

    buffer = pltpu.VMEM((half, x.shape[1]), x.dtype)
    return pl.kernel(
        body,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        mesh=pltpu.create_tensorcore_mesh("core", num_cores=2),
        scratch_types=[buffer, buffer, *[pltpu.SemaphoreType.DMA] * 3],
        compiler_params=pltpu.CompilerParams(collective_id=0),
    )(x)


if __name__ == "__main__":
    x = normal(32, 128)
    agree("halves swapped by 2 cores", swap, (x,), jnp.roll(x, 16, axis=0), target="v5p")
