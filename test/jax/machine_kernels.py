"""Kernels that do with DMAs, semaphores, cores and devices what kernel authors do, by name.

Each is a `Case`: a program over arrays, what it gives, and how many devices and which target it
needs. Every wait and signal in them is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

ANY = pl.BlockSpec(memory_space=pl.ANY)
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
DMA, REGULAR = pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR
COLLECTIVE = pltpu.CompilerParams(collective_id=0)
signal = partial(pl.semaphore_signal, device_id_type=pl.DeviceIdType.LOGICAL)
remote_copy = partial(pltpu.make_async_remote_copy, device_id_type=pl.DeviceIdType.LOGICAL)
random = np.random.default_rng(4)


@dataclass(frozen=True)
class Case:
    """`program(*inputs)` is `expected`; of several devices, each has its share of the rows."""

    program: Callable[..., Any]
    inputs: tuple[Any, ...]
    expected: Any
    devices: int = 1
    target: str = "v5e"

    def sharded(self) -> Callable[..., Any]:
        """The program over all devices."""
        if self.devices == 1:
            return self.program
        mesh = Mesh(np.array(jax.devices()[: self.devices]), ("x",))
        return jax.shard_map(
            self.program, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False
        )

    def shares(self) -> list[list[Any]]:
        """The inputs of each device."""
        parts = [np.split(np.asarray(x), self.devices) for x in self.inputs]
        return [[part[device] for part in parts] for device in range(self.devices)]


def shape(*sizes: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


def integers(*sizes: int) -> Any:
    return random.integers(-4, 5, sizes).astype(np.float32)


def neighbours(devices: int) -> tuple[Any, Any, Any]:
    me = lax.axis_index("x")
    return me, lax.rem(me + devices - 1, devices), lax.rem(me + 1, devices)


def three_buffers() -> Case:
    """Two blocks ahead on the way in, three behind on the way out."""
    steps = 7

    def body(x: Any, o: Any, inside: Any, outside: Any, arrived: Any, left: Any) -> None:
        def rows(step: Any) -> Any:
            return pl.ds(pl.multiple_of(step * 8, 8), 8)

        def fetch(step: Any) -> Any:
            slot = lax.rem(step, 3)
            return pltpu.make_async_copy(x.at[rows(step)], inside.at[slot], arrived.at[slot])

        def store(step: Any) -> Any:
            slot = lax.rem(step, 3)
            return pltpu.make_async_copy(outside.at[slot], o.at[rows(step)], left.at[slot])

        fetch(0).start()
        fetch(1).start()

        @pl.loop(0, steps)
        def _(step: Any) -> None:
            @pl.when(step + 2 < steps)
            def _() -> None:
                fetch(step + 2).start()

            fetch(step).wait()

            @pl.when(step >= 3)
            def _() -> None:
                store(step - 3).wait()

            outside[lax.rem(step, 3)] = inside[lax.rem(step, 3)] * 2
            store(step).start()

        for step in range(steps - 3, steps):
            store(step).wait()

    x = integers(8 * steps, 128)
    buffers = pltpu.VMEM((3, 8, 128), jnp.float32)
    program = pl.pallas_call(
        body, out_shape=shape(*x.shape), in_specs=[ANY], out_specs=ANY,
        scratch_shapes=[buffers, buffers, DMA((3,)), DMA((3,))],
    )  # fmt: skip
    return Case(program, (x,), x * 2)


def pipeline_in_a_pipeline() -> Case:
    """The inner one adds up the columns of the outer one's block."""

    def body(x: Any, o: Any, total: Any) -> None:
        def outer(rows: Any, sums: Any) -> None:
            def inner(block: Any) -> None:
                total[...] += block[...]

            total[...] = jnp.zeros_like(total)
            columns = pl.BlockSpec((8, 128), lambda j: (0, j))
            pltpu.emit_pipeline(inner, grid=(3,), in_specs=[columns])(rows)
            sums[...] = total[...]

        pltpu.emit_pipeline(
            outer,
            grid=(2,),
            in_specs=[pl.BlockSpec((8, 384), lambda i: (i, 0))],
            out_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        )(x, o)

    x = integers(16, 384)
    program = pl.pallas_call(
        body, out_shape=shape(16, 128), in_specs=[ANY], out_specs=ANY,
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
    )  # fmt: skip
    return Case(program, (x,), x.reshape(16, 3, 128).sum(1))


def pages_of_the_next_step() -> Case:
    """Scalar operands hold a table of pages, and the slot in use from one step to the next."""
    steps = 4

    def body(state: Any, table: Any, pages: Any, o: Any, slots: Any, arrived: Any) -> None:
        step, slot = pl.program_id(0), state[0]

        def fetch(step: Any, slot: Any) -> Any:
            return pltpu.make_async_copy(pages.at[table[step]], slots.at[slot], arrived.at[slot])

        @pl.when(step == 0)
        def _() -> None:
            fetch(0, slot).start()

        @pl.when(step + 1 < steps)
        def _() -> None:
            fetch(step + 1, 1 - slot).start()
            state[0] = 1 - slot

        fetch(step, slot).wait()
        o[0] = slots[slot].astype(jnp.int32)

    table = np.array([5, 0, 3, 5], np.int32)
    pages = jnp.asarray(random.integers(-8, 8, (6, 64, 128)), jnp.int4)
    program = pl.pallas_call(
        body,
        out_shape=shape(steps, 64, 128, dtype=jnp.int32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(steps,),
            in_specs=[ANY],
            out_specs=pl.BlockSpec((1, 64, 128), lambda i, *_: (i, 0, 0)),
            scratch_shapes=[pltpu.VMEM((2, 64, 128), jnp.int4), DMA((2,))],
        ),
    )
    expected = np.asarray(pages, np.int32)[table]
    return Case(program, (np.zeros(1, np.int32), table, pages), expected)


def ring_with_credits() -> Case:
    """A sum over a ring with two slots; a neighbour sends when a slot is known to be free."""
    devices = 4

    def body(x: Any, o: Any, slots: Any, send: Any, receive: Any, free: Any) -> None:
        _, left, right = neighbours(devices)
        slots[0] = x[...]
        o[...] = x[...]
        signal(free, 1, device_id=left)
        for step in range(devices - 1):
            here, there = step % 2, (step + 1) % 2
            pl.semaphore_wait(free, 1)
            copy = remote_copy(slots.at[here], slots.at[there], send, receive.at[there], right)
            copy.start()
            copy.wait()
            o[...] += slots[there]
            if step < devices - 2:
                signal(free, 1, device_id=left)

    x = integers(devices * 8, 128)
    program = pl.pallas_call(
        body, out_shape=shape(8, 128),
        scratch_shapes=[pltpu.VMEM((2, 8, 128), jnp.float32), DMA, DMA((2,)), REGULAR],
    )  # fmt: skip
    sums = np.tile(x.reshape(devices, 8, 128).sum(0), (devices, 1))
    return Case(program, (x,), sums, devices)


def all_to_all() -> Case:
    """Every device sends a block to every other one, behind a barrier of all."""
    devices = 4

    def body(x: Any, o: Any, local: Any, send: Any, receive: Any) -> None:
        me = lax.axis_index("x")
        barrier = pltpu.get_barrier_semaphore()
        peers = [lax.rem(me + k, devices) for k in range(1, devices)]
        for peer in peers:
            signal(barrier, 1, device_id=peer)
        pl.semaphore_wait(barrier, devices - 1)
        own = pltpu.make_async_copy(x.at[me], o.at[me], local)
        own.start()
        copies = [
            remote_copy(x.at[peer], o.at[me], send.at[k], receive.at[k], peer)
            for k, peer in enumerate(peers)
        ]
        for copy in copies:
            copy.start()
        for copy in reversed(copies):
            copy.wait()
        own.wait()

    x = integers(devices * devices, 8, 128)
    program = pl.pallas_call(
        body, out_shape=shape(devices, 8, 128), in_specs=[ANY], out_specs=ANY,
        scratch_shapes=[DMA, DMA((3,)), DMA((3,))], compiler_params=COLLECTIVE,
    )  # fmt: skip
    blocks = x.reshape(devices, devices, 8, 128)
    return Case(program, (x,), blocks.swapaxes(0, 1).reshape(x.shape), devices)


def core_hands_over() -> Case:
    """Core 0 prepares blocks for core 1, which has two slots and says when one is free."""
    steps = 5

    def body(x: Any, o: Any, mine: Any, slots: Any, send: Any, receive: Any, free: Any) -> None:
        core = lax.axis_index("core")

        def rows(step: Any) -> Any:
            return pl.ds(pl.multiple_of(step * 8, 8), 8)

        def copy(step: Any) -> Any:
            slot = lax.rem(step, 2)
            return pltpu.make_async_remote_copy(
                mine, slots.at[slot], send, receive.at[slot], device_id={"core": 1}
            )

        @pl.when(core == 0)
        def _() -> None:
            @pl.loop(0, steps)
            def _(step: Any) -> None:
                pltpu.sync_copy(x.at[rows(step)], mine)
                mine[...] = mine[...] + 1

                @pl.when(step >= 2)
                def _() -> None:
                    pl.semaphore_wait(free, 1)

                copy(step).start()
                copy(step).wait_send()

        @pl.when(core == 1)
        def _() -> None:
            @pl.loop(0, steps)
            def _(step: Any) -> None:
                copy(step).wait_recv()
                mine[...] = slots[lax.rem(step, 2)] * 2

                @pl.when(step + 2 < steps)
                def _() -> None:
                    pl.semaphore_signal(free, 1, device_id={"core": 0})

                pltpu.sync_copy(mine, o.at[rows(step)])

    x = integers(8 * steps, 128)
    block = pltpu.VMEM((8, 128), jnp.float32)
    slots = pltpu.VMEM((2, 8, 128), jnp.float32)
    program = pl.kernel(
        body, out_type=shape(*x.shape), scratch_types=[block, slots, DMA, DMA((2,)), REGULAR],
        mesh=pltpu.create_tensorcore_mesh("core", num_cores=2),
    )  # fmt: skip
    return Case(program, (x,), (x + 1) * 2, target="v5p")


CASES = {
    make.__name__: make
    for make in (
        three_buffers, pipeline_in_a_pipeline, pages_of_the_next_step, ring_with_credits,
        all_to_all, core_hands_over,
    )
}  # fmt: skip
