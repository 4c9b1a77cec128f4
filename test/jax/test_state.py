"""State belongs to the run: what ends a program early is raised as it is, and leaves nothing."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.sharding import Mesh  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

from pallasite.interpreter.machine import dma  # noqa: E402
from pallasite.jax import simulate  # noqa: E402
from pallasite.jax.settings import settings_of  # noqa: E402

pytestmark = pytest.mark.jax
ANY = pl.BlockSpec(memory_space=pl.ANY)
X = jnp.arange(32 * 128, dtype=jnp.float32).reshape(32, 128)


def shift(devices: int) -> Any:
    """Every device of a ring sends its rows to the right, block by block."""
    steps = 32 // devices // 8

    def body(x: Any, o: Any, ready: Any, send: Any, receive: Any) -> None:
        me = lax.axis_index("x")
        left, right = lax.rem(me + devices - 1, devices), lax.rem(me + 1, devices)
        kind = pl.DeviceIdType.LOGICAL
        pl.semaphore_signal(ready, 1, device_id=left, device_id_type=kind)
        pl.semaphore_wait(ready, 1)
        for step in range(steps):
            rows = pl.ds(8 * step, 8)
            copy = pltpu.make_async_remote_copy(
                x.at[rows], o.at[rows], send, receive, right, device_id_type=kind
            )
            copy.start()
            copy.wait()

    def kernel(x: Any) -> Any:
        return pl.pallas_call(
            body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[ANY], out_specs=ANY,
            scratch_shapes=[pltpu.SemaphoreType.REGULAR, *[pltpu.SemaphoreType.DMA] * 2],
        )(x)  # fmt: skip

    mesh = Mesh(np.array(jax.devices()[:devices]), ("x",))
    return jax.jit(
        jax.shard_map(kernel, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    )


def right(result: Any, devices: int) -> bool:
    return bool((np.asarray(result) == np.roll(np.asarray(X), 32 // devices, axis=0)).all())


class Stopped(BaseException):
    pass


@pytest.mark.parametrize("error", [KeyboardInterrupt, Stopped])
@pytest.mark.parametrize("devices", [1, 4])
def test_an_interrupt_is_raised_as_it_is(
    error: type[BaseException], devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, count = dma.Engine.finish, 0

    def fail(self: dma.Engine, transfer: dma.Transfer) -> None:
        nonlocal count
        count += 1
        if count == 2:
            raise error
        finish(self, transfer)

    settings, program = np.geterr(), shift(devices)
    with simulate(form="mosaic", checks=("all",)):
        with monkeypatch.context() as patched:
            patched.setattr(dma.Engine, "finish", fail)
            with pytest.raises(error):
                program(X)
        assert right(program(X), devices)
    assert np.geterr() == settings


def test_threads_run_kernels_that_communicate() -> None:
    done: list[bool] = []

    def work(devices: int, seed: int) -> None:
        program = shift(devices)
        with simulate(form="mosaic", checks=("all",), seed=seed):
            done.extend(right(program(X), devices) for _ in range(3))

    threads = [threading.Thread(target=work, args=(devices, devices)) for devices in (2, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [True] * 6


def test_simulations_share_the_memory_that_they_leave_to_each_other() -> None:
    # JAX keeps compiled programs, and with them the settings: seed by seed it would add up.
    one, other = (settings_of("v5e", "tiles", (), seed=seed) for seed in (1, 2))
    assert one.spare is other.spare
