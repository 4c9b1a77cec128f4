"""Forms of transfers and their refusals (spec/pallas_semantics.md section 8.5)."""

from __future__ import annotations

from typing import Any

import jax.sharding
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from .support import DMA, S, call, equal, jax, jnp, pl, pltpu, ramp, refusal, run

pytestmark = pytest.mark.jax
feature = pytest.mark.feature
ANY = pl.BlockSpec(memory_space=pl.ANY)
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
INT = jnp.int32


def moved(body: Any, out: Any, *inputs: Any, **options: Any) -> Any:
    """What `body(*refs)` copies between refs anywhere."""
    specs = [SMEM if x.dtype == INT else ANY for x in inputs]
    program = call(body, out, in_specs=specs, out_specs=ANY, **options)
    return run(program, *inputs, form="dma")


@feature("X03")
def test_parts_of_arrays() -> None:
    def body(at: Any, x: Any, o: Any) -> None:
        rows = pl.ds(pl.multiple_of(at[0] * 8, 8), 8)
        pltpu.sync_copy(x.at[2, rows, pl.ds(128, 128)], o.at[at[0]])
        pltpu.sync_copy(x.at[1].at[pl.ds(0, 8), pl.ds(0, 128)], o.at[1 - at[0]])

    x = ramp(3, 16, 256)
    result = moved(body, S(2, 8, 128), jnp.array([1]), x)
    equal(result, jnp.stack([x[1, :8, :128], x[2, 8:, 128:]]))


@feature("X06", "X15")
def test_a_wait_by_another_descriptor() -> None:
    def body(x: Any, o: Any, done: Any) -> None:
        pltpu.make_async_copy(x, o, done).start(priority=1)
        pltpu.make_async_copy(x.at[...], x.at[...], done).wait()

    equal(moved(body, S(8, 128), ramp(8, 128), scratch_shapes=[DMA]), ramp(8, 128))

    def negative(x: Any, o: Any, done: Any) -> None:
        pltpu.make_async_copy(x, o, done).start(priority=-1)

    program = call(negative, S(8, 128), in_specs=[ANY], out_specs=ANY, scratch_shapes=[DMA])
    assert "priority" in refusal(program, ramp(8, 128)).lower()


@feature("X16")
def test_booleans_are_not_transferred() -> None:
    def body(x: Any, o: Any) -> None:
        pltpu.sync_copy(x, o)

    program = call(body, S(8, 128, dtype=jnp.bool_), in_specs=[ANY], out_specs=ANY)
    assert "bool" in refusal(program, ramp(8, 128) > 3)


@feature("X17")
@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_transfers_that_regular_semaphores_count(target: str) -> None:
    def body(x: Any, o: Any, buffer: Any, done: Any, free: Any) -> None:
        copies = [pltpu.make_async_copy(x, buffer.at[slot], done) for slot in range(2)]
        for copy in copies:
            copy.start()
        pl.semaphore_wait(done, 2)
        o[0] = pl.semaphore_read(done) + 7

    regular = pltpu.SemaphoreType.REGULAR
    scratch = [pltpu.VMEM((2, 8, 128), jnp.float32), regular, DMA]
    program = call(body, S(1, dtype=INT), in_specs=[ANY], out_specs=SMEM, scratch_shapes=scratch)
    if target == "v6e":
        equal(run(program, ramp(8, 128), target=target), [7])
    else:
        assert "regular semaphore" in refusal(program, ramp(8, 128), target=target)


@feature("X18")
def test_a_copy_of_a_tree() -> None:
    def body(x: Any, y: Any, o: Any, p: Any) -> None:
        pltpu.sync_copy({"a": x, "b": [y]}, {"a": o, "b": [p]})

    x = ramp(8, 128)
    out = (S(8, 128), S(8, 128))
    program = call(body, out, in_specs=[ANY, ANY], out_specs=(ANY, ANY))
    for result, expected in zip(run(program, x, -x, form="dma"), (x, -x), strict=True):
        equal(result, expected)


@feature("X11", "X12")
def test_places_differ_between_devices() -> None:
    """Every device keeps its own row of blocks and sends it to a place of its number."""

    def body(x: Any, o: Any, send: Any, receive: Any) -> None:
        me = jax.lax.axis_index("x")
        copies = [
            pltpu.make_async_remote_copy(x, o.at[me], send, receive, (device,))
            for device in range(3)
        ]
        for copy in copies:
            copy.start()
        for copy in copies:
            copy.wait()

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:3]), ("x",))
    program = jax.shard_map(
        call(body, S(3, 8, 128), in_specs=[ANY], out_specs=ANY, scratch_shapes=[DMA, DMA]),
        mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False,
    )  # fmt: skip
    x = ramp(24, 128)
    equal(run(program, x, form="dma"), jnp.tile(x.reshape(3, 8, 128), (3, 1, 1)))
