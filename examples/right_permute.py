"""K26: every device sends its shard to its right neighbour, once that one has said it is ready."""

import jax
import jax.numpy as jnp
from harness import agree, mesh, normal
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P

DEVICES = 4
ANY = pl.BlockSpec(memory_space=pl.ANY)


def body(x_ref, o_ref, ready, send, receive, *, kind):
    me = lax.axis_index("x")
    right, left = lax.rem(me + 1, DEVICES), lax.rem(me + DEVICES - 1, DEVICES)

    def device(number):  # one coordinate of the mesh, or the device's flat number
        return (number,) if kind is pl.DeviceIdType.MESH else number

    pl.semaphore_signal(ready, 1, device_id=device(left), device_id_type=kind)
    pl.semaphore_wait(ready, 1)
    copy = pltpu.make_async_remote_copy(
        x_ref, o_ref, send, receive, device_id=device(right), device_id_type=kind
    )
    copy.start()
    copy.wait()


def permute(x, *, kind=pl.DeviceIdType.MESH):
    return pl.pallas_call(
        lambda *refs: body(*refs, kind=kind),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[ANY],
        out_specs=ANY,
        scratch_shapes=[
            pltpu.SemaphoreType.REGULAR, pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA
        ],
    )(x)  # fmt: skip


if __name__ == "__main__":
    ring = mesh(DEVICES)
    x = normal(DEVICES * 8, 128)
    for kind in pl.DeviceIdType:
        sharded = jax.shard_map(
            lambda x, kind=kind: permute(x, kind=kind),
            mesh=ring, in_specs=P("x"), out_specs=P("x"), check_vma=False,
        )  # fmt: skip
        agree(f"ring of 4, {kind.name} numbers", sharded, (x,), jnp.roll(x, 8, axis=0))
