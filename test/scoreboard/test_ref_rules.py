"""Indexers, views and semaphores: rules and refusals (spec/pallas_semantics.md section 8.5)."""

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
REGULAR = pltpu.SemaphoreType.REGULAR
INT = jnp.int32


def reading(take: Any, *inputs: Any, out: Any = None, **options: Any) -> Any:
    """What `take(ref)` gives, from refs in VMEM."""

    def body(*refs: Any) -> None:
        refs[-1][...] = take(*refs[:-1])

    return run(call(body, S(8, 128) if out is None else out), *inputs, **options)


@feature("R06", "R07")
def test_indexers_and_views() -> None:
    x = ramp(3, 16, 128)
    equal(reading(lambda x: x[1, 8:], x), x[1, 8:])
    equal(reading(lambda x: x.at[2].at[pl.ds(4, 10)].at[pl.ds(1, 8)][...], x), x[2, 5:13])
    views = reading(lambda x: x.at[:, pl.ds(2, 8)].at[jnp.int32(1)][...], x)
    equal(views, x[1, 2:10])


@feature("R09")
def test_a_swap_gives_what_was() -> None:
    from jax._src.state.primitives import ref_swap

    def body(x: Any, o: Any, old: Any) -> None:
        o[...] = x[...]
        old[...] = ref_swap(o, (slice(2, 4),), x[0:2])

    x = ramp(8, 128)
    result, old = run(call(body, (S(8, 128), S(2, 128))), x)
    equal(old, x[2:4])
    equal(result, x.at[2:4].set(x[:2]))


@feature("R11")
@pytest.mark.parametrize("case", ["narrow", "strided"])
def test_masked_stores_with_limits(case: str) -> None:
    def body(x: Any, o: Any) -> None:
        if case == "narrow":
            pltpu.store(o, x[...], mask=x[...] > 3)
        else:
            pltpu.store(o.at[pl.ds(0, 4, 2)], x[0:4], mask=x[0:4] > 3)

    dtype = jnp.bfloat16 if case == "narrow" else jnp.float32
    assert refusal(call(body, S(8, 128, dtype=dtype)), ramp(8, 128, dtype=dtype))


@feature("R16")
@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_arrays_of_indices(form: str) -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[jnp.arange(8)]

    refusal(call(body, S(8, 128)), ramp(16, 128), form=form)


@feature("R17")
def test_a_static_slice_outside() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[pl.ds(12, 8)]

    assert "bound" in refusal(call(body, S(8, 128)), ramp(16, 128))


@feature("R20")
def test_scoped_functions() -> None:
    def body(x: Any, o: Any) -> None:
        @pl.with_scoped(pltpu.VMEM((8, 128), jnp.float32), count=pltpu.SMEM((1,), INT))
        def work(buffer: Any, count: Any) -> None:
            buffer[...] = x[...] * 2
            count[0] = 3
            o[...] = buffer[...] + count[0]

        work()

    equal(run(call(body, S(8, 128)), ramp(8, 128)), ramp(8, 128) * 2 + 3)


@feature("R22")
@pytest.mark.parametrize("choice", [0, 1])
def test_a_chosen_ref(choice: int) -> None:
    def body(n: Any, x: Any, y: Any, o: Any) -> None:
        pltpu.sync_copy(pl.select_ref(n[0], x, y), o)

    program = call(body, S(8, 128), in_specs=[SMEM, ANY, ANY], out_specs=ANY)
    x = ramp(8, 128)
    equal(run(program, jnp.array([choice]), x, -x, form="dma"), (x, -x)[choice])


def on_mesh(body: Any, shape: tuple[int, ...], names: tuple[str, ...], **options: Any) -> Any:
    """The kernel on a mesh of devices; every device writes one number."""
    devices = np.array(jax.devices()[: int(np.prod(shape))]).reshape(shape)
    mesh = jax.sharding.Mesh(devices, names)
    program = call(body, S(1, dtype=INT), out_specs=SMEM, **options)
    return jax.shard_map(
        lambda: program(), mesh=mesh, in_specs=(), out_specs=P(names), check_vma=False
    )


@feature("S06")
def test_one_number_for_two_axes() -> None:
    def body(o: Any, ready: Any) -> None:
        x, y = jax.lax.axis_index("x"), jax.lax.axis_index("y")
        me = x * 3 + y
        pl.semaphore_signal(ready, me + 1, device_id={("x", "y"): jax.lax.rem(me + 1, 6)})
        before = jax.lax.rem(me + 5, 6)
        pl.semaphore_wait(ready, before + 1)
        o[0] = before

    program = on_mesh(body, (2, 3), ("x", "y"), scratch_shapes=[REGULAR])
    equal(run(program, form="dma"), [5, 0, 1, 2, 3, 4])


@feature("S12")
@pytest.mark.parametrize("case", ["signal", "wait"])
def test_semaphores_of_the_wrong_kind(case: str) -> None:
    def body(x: Any, o: Any, semaphore: Any) -> None:
        if case == "signal":
            pl.semaphore_signal(semaphore, 1)
        else:
            pltpu.make_async_copy(x, o, semaphore).wait()

    kind = DMA if case == "signal" else REGULAR
    program = call(body, S(8, 128), in_specs=[ANY], out_specs=ANY, scratch_shapes=[kind])
    assert "emaphore" in refusal(program, ramp(8, 128))


@feature("S13")
def test_a_barrier_in_every_call() -> None:
    def body(o: Any) -> None:
        barrier = pltpu.get_barrier_semaphore()
        me = jax.lax.axis_index("x")
        for step in (1, 3):
            pl.semaphore_signal(barrier, 1, device_id=(jax.lax.rem(me + step, 4),))
        pl.semaphore_wait(barrier, 2)
        o[0] = pl.semaphore_read(barrier)

    params = pltpu.CompilerParams(collective_id=0)
    program = on_mesh(body, (4,), ("x",), compiler_params=params)

    def twice() -> Any:
        return program() + program() * 10

    for seed in (0, 1):
        equal(run(twice, form="dma", seed=seed), [0] * 4)
