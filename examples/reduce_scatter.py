"""K29: reduce-scatter on two rings at once: the upper halves of the chunks travel to the right, the
lower ones to the left, and a nested pipeline adds this device's share to what has arrived."""

import jax
import jax.numpy as jnp
from all_gather import ANY, DEVICES, meet, neighbours
from harness import agree, integers, mesh
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P

BLOCK = (8, 128)


def accumulate(source_ref, target_ref, total_ref):
    total_ref[...] = target_ref[...] + source_ref[...]


def body(x_ref, o_ref, travelling, local, send, receive):
    me, (left, right) = lax.axis_index("x"), neighbours()
    half = o_ref.shape[0] // 2
    directions = ((right, 0, -1), (left, half, 1))
    meet()

    def share(direction, step):  # this device's share of the chunk that visits it in that step
        _, first, sign = directions[direction]
        chunk = lax.rem(me + sign * (step + 1) + 2 * DEVICES, DEVICES)
        return x_ref.at[chunk, pl.ds(first, half)]

    for direction in range(2):
        start = pltpu.make_async_copy(share(direction, 0), travelling.at[0, direction], local)
        start.start()
        start.wait()
    for step in range(DEVICES - 1):
        copies = [
            pltpu.make_async_remote_copy(
                travelling.at[step, direction], travelling.at[step + 1, direction],
                send.at[direction], receive.at[step, direction], (directions[direction][0],),
            )
            for direction in range(2)
        ]  # fmt: skip
        for copy in copies:
            copy.start()
        for direction, copy in enumerate(copies):
            copy.wait()
            arrived = travelling.at[step + 1, direction]
            block = pl.BlockSpec(BLOCK, lambda i, j: (i, j))
            pltpu.emit_pipeline(
                accumulate,
                grid=(half // BLOCK[0], o_ref.shape[1] // BLOCK[1]),
                in_specs=[block, block],
                out_specs=[block],
            )(share(direction, step + 1), arrived, arrived)
    for direction, (_, first, _) in enumerate(directions):
        end = travelling.at[DEVICES - 1, direction]
        out = pltpu.make_async_copy(end, o_ref.at[pl.ds(first, half)], local)
        out.start()
        out.wait()


def reduce_scatter(x):
    """The sum over all devices of the chunk that belongs to this one; x is (DEVICES, R, C)."""
    _, rows, columns = x.shape
    shape = jax.ShapeDtypeStruct((rows, columns), x.dtype)
    travelling = jax.ShapeDtypeStruct((DEVICES, 2, rows // 2, columns), x.dtype)
    return pl.pallas_call(
        body,
        out_shape=(shape, travelling),  # what travels lives in HBM
        in_specs=[ANY],
        out_specs=(ANY, ANY),
        scratch_shapes=[
            pltpu.SemaphoreType.DMA,
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.SemaphoreType.DMA((DEVICES - 1, 2)),
        ],
        compiler_params=pltpu.CompilerParams(collective_id=0),
    )(x)[0]


if __name__ == "__main__":
    ring = mesh(DEVICES)
    x = integers(DEVICES * DEVICES, 32, 256)
    sharded = jax.shard_map(
        reduce_scatter, mesh=ring, in_specs=P("x"), out_specs=P("x"), check_vma=False
    )
    sums = jnp.sum(x.reshape(DEVICES, DEVICES, 32, 256), axis=0).reshape(-1, 256)
    agree("reduce-scatter on 4 devices", sharded, (x,), sums)
