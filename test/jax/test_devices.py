"""Kernels under `shard_map`: alone on every device, and talking to each other."""

from __future__ import annotations

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

from pallasite.diagnostics import Diagnostic, ExecutionError  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .support import equal, ramp  # noqa: E402

pytestmark = pytest.mark.jax

ANY = pl.BlockSpec(memory_space=pl.ANY)


def mesh_of(devices: int) -> Any:
    return Mesh(np.array(jax.devices()[:devices]), ("x",))


def sharded(f: Any, mesh: Any, spec: Any = None) -> Any:
    spec = P("x") if spec is None else spec
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))


def double(x: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] * 2.0

    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def permute(devices: int, x: Any, *, logical: bool = False) -> Any:
    """Sends the local shard to the right neighbour, who must be ready."""

    def body(x: Any, o: Any, ready: Any, send: Any, receive: Any) -> None:
        me = lax.axis_index("x")
        left, right = lax.rem(me + devices - 1, devices), lax.rem(me + 1, devices)
        kind = pl.DeviceIdType.LOGICAL if logical else pl.DeviceIdType.MESH
        pl.semaphore_signal(ready, 1, device_id=left if logical else (left,), device_id_type=kind)
        pl.semaphore_wait(ready, 1)
        copy = pltpu.make_async_remote_copy(
            x, o, send, receive, right if logical else (right,), device_id_type=kind
        )
        copy.start()
        copy.wait()

    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[ANY],
        out_specs=ANY,
        scratch_shapes=[pltpu.SemaphoreType.REGULAR, *[pltpu.SemaphoreType.DMA] * 2],
    )(x)


def test_without_communication() -> None:
    x = ramp(32, 128)
    with simulate():
        equal(sharded(double, mesh_of(4))(x), 2 * x)


@pytest.mark.parametrize("logical", [True, False])
@pytest.mark.parametrize("devices", [1, 2, 4, 8])
def test_right_permute(devices: int, logical: bool) -> None:
    x = ramp(8 * devices, 128)
    expected = np.roll(np.asarray(x), 8, axis=0)
    with simulate():
        f = sharded(lambda x: permute(devices, x, logical=logical), mesh_of(devices))
        for _ in range(3):
            equal(f(x), expected)


def test_permute_in_a_loop_beside_collectives() -> None:
    def f(x: Any) -> Any:
        x = lax.fori_loop(0, 3, lambda _, x: double(permute(4, x)), x)
        return x + lax.psum(x, "x") * 0

    x = ramp(32, 128)
    with simulate():
        equal(sharded(f, mesh_of(4))(x), np.roll(np.asarray(x), 24, axis=0) * 8)


def test_devices_take_different_branches() -> None:
    def f(x: Any) -> Any:
        return lax.cond(lax.axis_index("x") == 2, double, lambda x: x, x)

    x = ramp(32, 128)
    expected = np.array(x)
    expected[16:24] *= 2
    with simulate():
        equal(sharded(f, mesh_of(4))(x), expected)


def test_kernel_that_knows_its_device() -> None:
    def f(x: Any) -> Any:
        def body(x: Any, o: Any) -> None:
            o[...] = x[...] + lax.axis_index("x").astype(jnp.float32)

        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    x = ramp(32, 128)
    with simulate():
        equal(sharded(f, mesh_of(4))(x), np.asarray(x) + np.repeat(np.arange(4), 8)[:, None])


def all_gather(devices: int, x: Any) -> Any:
    """Ring: in step k every device passes on what it got in step k - 1 (barrier first)."""

    def body(x: Any, o: Any, local: Any, send: Any, receive: Any) -> None:
        me = lax.axis_index("x")
        left, right = lax.rem(me + devices - 1, devices), lax.rem(me + 1, devices)
        barrier = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(barrier, 1, device_id=(left,), device_id_type=pl.DeviceIdType.MESH)
        pl.semaphore_signal(barrier, 1, device_id=(right,), device_id_type=pl.DeviceIdType.MESH)
        pl.semaphore_wait(barrier, 2)
        pltpu.make_async_copy(x, o.at[me], local).start()
        pltpu.make_async_copy(x, o.at[me], local).wait()

        @pl.loop(0, devices - 1)
        def _(step: Any) -> None:
            slot = lax.rem(me + devices - step, devices)
            copy = pltpu.make_async_remote_copy(
                o.at[slot], o.at[slot], send, receive.at[step], (right,),
                device_id_type=pl.DeviceIdType.MESH,
            )  # fmt: skip
            copy.start()
            copy.wait()

    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((devices, *x.shape), x.dtype),
        in_specs=[ANY],
        out_specs=ANY,
        scratch_shapes=[
            pltpu.SemaphoreType.DMA,
            pltpu.SemaphoreType.DMA,
            pltpu.SemaphoreType.DMA((devices - 1,)),
        ],
        compiler_params=pltpu.CompilerParams(collective_id=0),
    )(x)


def test_all_gather_with_barrier() -> None:
    x = ramp(32, 128)
    with simulate(checks=("race", "sync")):
        out = sharded(lambda x: all_gather(4, x)[None], mesh_of(4))(x)
    equal(out, np.broadcast_to(np.asarray(x).reshape(1, 4, 8, 128), (4, 4, 8, 128)))


def test_two_axes() -> None:
    """MESH coordinates count row-major over all axes; a dict leaves the other axes alone."""
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("y", "x"))

    def f(x: Any) -> Any:
        def body(x: Any, o: Any, send: Any, receive: Any) -> None:
            right = lax.rem(lax.axis_index("x") + 1, 4)
            copy = pltpu.make_async_remote_copy(
                x, o, send, receive, {"x": right}, device_id_type=pl.DeviceIdType.MESH
            )
            copy.start()
            copy.wait()

        return pl.pallas_call(
            body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[ANY], out_specs=ANY,
            scratch_shapes=[pltpu.SemaphoreType.DMA] * 2,
        )(x)  # fmt: skip

    x = ramp(16, 512)
    with simulate():
        out = sharded(f, mesh, P("y", "x"))(x)
    equal(out, np.roll(np.asarray(x), 128, axis=1))


def test_error_on_one_device_reaches_the_caller() -> None:
    def f(x: Any) -> Any:
        def body(start: Any, x: Any, o: Any) -> None:
            o[...] = x[pl.ds(start[0], 8), :]

        start = jnp.where(lax.axis_index("x") == 1, 40, 0)[None]
        shape = jax.ShapeDtypeStruct((8, 128), x.dtype)
        smem = pl.BlockSpec(memory_space=pltpu.SMEM)
        vmem = pl.BlockSpec(memory_space=pltpu.VMEM)
        out = pl.pallas_call(body, out_shape=shape, in_specs=[smem, vmem])(start, x)
        return out + lax.psum(out, "x")

    x = ramp(64, 128)
    with simulate():
        program = sharded(f, mesh_of(4))
        for _ in range(2):
            with pytest.raises(ExecutionError):
                program(x)
        equal(sharded(double, mesh_of(4))(x), 2 * x)


def test_deadlock_between_devices() -> None:
    def f(x: Any) -> Any:
        def body(x: Any, o: Any, semaphore: Any) -> None:
            @pl.when(lax.axis_index("x") == 0)
            def _() -> None:
                pl.semaphore_wait(semaphore, 1)

            o[...] = x[...]

        return pl.pallas_call(
            body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            scratch_shapes=[pltpu.SemaphoreType.REGULAR],
        )(x)  # fmt: skip

    with simulate(), pytest.raises(ExecutionError) as caught:
        sharded(f, mesh_of(2))(ramp(16, 128))
    assert caught.value.code == "deadlock"


def test_automatic_partitioning_is_refused_by_jax() -> None:
    from jax.sharding import NamedSharding

    x = jax.device_put(ramp(32, 128), NamedSharding(mesh_of(4), P("x")))
    with simulate(), pytest.raises(NotImplementedError, match="shard_map"):
        jax.jit(double)(x)


def test_transfers_may_overtake_each_other() -> None:
    """Two of one sender share a receive semaphore: right only if they arrive as they started."""

    def body(x: Any, o: Any, landed: Any, ready: Any, send: Any, receive: Any) -> None:
        peer = 1 - lax.axis_index("x")
        kind = pl.DeviceIdType.LOGICAL
        pl.semaphore_signal(ready, 1, device_id=peer, device_id_type=kind)
        pl.semaphore_wait(ready, 1)
        copies = [
            pltpu.make_async_remote_copy(
                x.at[half], landed.at[half], send, receive, peer, device_id_type=kind
            )
            for half in range(2)
        ]
        for copy in copies:
            copy.start()
        for half, copy in enumerate(copies):
            copy.wait_recv()
            o[half] = landed[half]
        for copy in copies:
            copy.wait_send()

    x = ramp(4, 8, 128)
    semaphores = [pltpu.SemaphoreType.REGULAR, *[pltpu.SemaphoreType.DMA] * 2]
    exchange = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((2, 8, 128), x.dtype),
        scratch_shapes=[pltpu.VMEM((2, 8, 128), x.dtype), *semaphores],
    )

    def run(seed: int, unordered: bool) -> Any:
        with simulate(checks=("race",), seed=seed, unordered=unordered):
            return sharded(exchange, mesh_of(2))(x)

    equal(run(1, False), np.roll(np.asarray(x), 2, axis=0))
    with pytest.raises(Diagnostic) as caught:
        for seed in range(1, 9):
            run(seed, True)
    assert caught.value.code == "data-race"
