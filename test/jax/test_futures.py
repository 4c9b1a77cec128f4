"""Kernels that start a transfer and kernels that wait for it: semaphores between kernels."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax

HBM = pl.BlockSpec(memory_space=pl.ANY)
COUNT = pl.BlockSpec(memory_space=pltpu.SEMAPHORE)


def start(x: Any) -> tuple[Any, Any]:
    def body(x: Any, o: Any, done: Any) -> None:
        pltpu.make_async_copy(x, o, done).start()

    return pl.pallas_call(
        body,
        out_shape=(x, pltpu.SemaphoreType.DMA(())),
        in_specs=[HBM],
        out_specs=(HBM, COUNT),
    )(x)


def finish(x: Any, y: Any, done: Any) -> Any:
    def body(x: Any, y: Any, done: Any, o: Any) -> None:
        pltpu.make_async_copy(x, y, done).wait()

    return pl.pallas_call(
        body, out_shape=y, in_specs=[HBM, HBM, COUNT], out_specs=HBM, input_output_aliases={1: 0}
    )(x, y, done)


@pytest.mark.parametrize("form", ["mosaic", "dma", "tiles"])
def test_copy(form: str) -> None:
    x = jnp.arange(8 * 128.0).reshape(8, 128)
    with simulate(form=form, checks=("all",)):

        @jax.jit
        def f(x: Any) -> Any:
            first, second = start(x), start(x + 1)
            return finish(x, *first), finish(x, *second)

        y, z = f(x)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(z, x + 1)


def test_started_in_one_iteration_finished_in_the_next() -> None:
    x = jnp.arange(8 * 128.0).reshape(8, 128)
    with simulate():

        @jax.jit
        def f(x: Any) -> Any:
            def body(_: Any, future: Any) -> Any:
                return start(finish(x, *future) + 1)

            return finish(x, *jax.lax.fori_loop(0, 3, body, start(x)))

        np.testing.assert_array_equal(f(x), x + 3)


@pytest.mark.parametrize("seed", [0, 7])
def test_ring(seed: int) -> None:
    """A copy may start when the kernel it goes to has ended: the semaphore is a later kernel's."""
    n = 4
    mesh = jax.sharding.Mesh(jax.devices()[:n], ("x",))
    counter = pltpu.SemaphoreType.DMA(())

    def send(x: Any) -> Any:
        def body(x: Any, o: Any, sent: Any, arrived: Any) -> None:
            me = jax.lax.axis_index("x")
            ready = pltpu.get_barrier_semaphore()
            pl.semaphore_signal(ready, device_id=jax.lax.rem(me + n - 1, n))
            pl.semaphore_wait(ready, 1)
            right = jax.lax.rem(me + 1, n)
            pltpu.make_async_remote_copy(x, o, sent, arrived, device_id=right).start()

        return pl.pallas_call(
            body,
            out_shape=(x, counter, counter),
            in_specs=[HBM],
            out_specs=(HBM, COUNT, COUNT),
            compiler_params=pltpu.CompilerParams(collective_id=0, has_side_effects=True),
        )(x)

    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    def f(x: Any) -> Any:
        y, sent, arrived = send(x)
        x = finish(x, x, sent)
        return finish(x, y, arrived)

    x = jnp.arange(n * 8 * 128.0).reshape(n * 8, 128)
    with simulate(checks=("all",), seed=seed):
        np.testing.assert_array_equal(f(x), np.roll(x, 8, 0))


@pytest.mark.parametrize("unordered", [False, True])
@pytest.mark.parametrize("form", ["pallas", "mosaic", "dma", "tiles", "vreg"])
def test_copy_into_vmem(form: str, unordered: bool) -> None:
    """The result lies in VMEM when its transfer is still under way: nothing copies it out."""
    vmem = pl.BlockSpec(memory_space=pltpu.VMEM)
    x = jnp.arange(8 * 128.0).reshape(8, 128)
    held = pltpu.VMEM(x.shape, x.dtype)

    def begin(x: Any, o: Any, done: Any) -> None:
        pltpu.make_async_copy(x, o, done).start()

    def end(x: Any, y: Any, done: Any, o: Any) -> None:
        pltpu.make_async_copy(x, y, done).wait()

    @jax.jit
    def f(x: Any) -> Any:
        y, done = pl.pallas_call(
            begin,
            out_shape=(held, pltpu.SemaphoreType.DMA(())),
            in_specs=[HBM],
            out_specs=(vmem, COUNT),
        )(x)
        return pl.pallas_call(
            end,
            out_shape=held,
            in_specs=[HBM, vmem, COUNT],
            out_specs=vmem,
            input_output_aliases={1: 0},
        )(x, y, done)

    with simulate(form=form, checks=("all",), unordered=unordered):
        np.testing.assert_array_equal(f(x), x)


@pytest.mark.parametrize("form", ["mosaic", "dma", "tiles"])
@pytest.mark.parametrize("space", [pltpu.VMEM, pltpu.SMEM])
def test_refs_outside_of_hbm(form: str, space: Any) -> None:
    """Kernels of a mesh work on refs; what one leaves in VMEM or SMEM is there for the next."""

    @jax.jit
    def f() -> Any:
        ref = pl.empty_ref_like(space((1, 128), jnp.int32))
        out = pl.empty_ref_like(pltpu.HBM((1, 128), jnp.int32))
        done = pl.empty_ref_like(pltpu.SemaphoreType.DMA(()))
        kernel = pl.core_map(pltpu.create_tensorcore_mesh("core"))

        @kernel
        def _() -> None:
            if space is pltpu.SMEM:
                ref[0, 0] = 1
                ref[0, 5] = 4
            else:
                ref[...] = jax.lax.broadcasted_iota(jnp.int32, (1, 128), 1)

        @kernel
        def _() -> None:
            if space is pltpu.SMEM:
                ref[0, 5] += 1
            else:
                ref[...] *= 1

        @kernel
        def _() -> None:
            pltpu.make_async_copy(ref, out, done).start()

        @kernel
        def _() -> None:
            pltpu.make_async_copy(ref, out, done).wait()

        return out[...]

    with simulate(form=form):
        assert f()[0, 5] == 5


@pytest.mark.parametrize("function", [start, jax.jit(start)])
def test_programs_that_return_semaphores(function: Any) -> None:
    """JAX's error, which names an attribute of its own, says what semaphores are for."""
    with simulate(), pytest.raises(AttributeError) as error:
        function(jnp.ones((8, 128)))
    (note, *_) = error.value.__notes__
    assert Path(__file__).name in note
    assert "for other kernels of the same program" in note
    assert "in one function under jax.jit" in note
