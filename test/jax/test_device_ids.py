"""Ids of devices as they are mistaken: what a note says, and that what it says works."""

from __future__ import annotations

from collections.abc import Callable
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

from pallasite import lower  # noqa: E402
from pallasite.diagnostics import ExecutionError  # noqa: E402
from pallasite.frontend.aot import compile_ahead_of_time  # noqa: E402
from pallasite.jax import simulate, trace  # noqa: E402

pytestmark = pytest.mark.jax

N = 4
X = np.arange(N * 8 * 128, dtype=np.float32).reshape(N * 8, 128)


def sends(device: Callable[[Any], Any], told: bool = False) -> Any:
    """Sends the shard to `device(me)`; if `told`, the kernel gets `me` as an operand."""

    def body(me: Any, x: Any, o: Any, send: Any, receive: Any) -> None:
        number = me[0] if told else lax.axis_index("x")
        pltpu.make_async_remote_copy(x, o, send, receive, device(number)).start()
        pltpu.make_async_remote_copy(x, o, send, receive, device(number)).wait()

    def shard(x: Any) -> Any:
        anywhere = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(
            body,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), anywhere],
            out_specs=anywhere,
            scratch_shapes=[pltpu.SemaphoreType.DMA] * 2,
        )(lax.axis_index("x")[None], x)

    mesh = Mesh(np.array(jax.devices()[:N]), ("x",))
    spec = P("x")
    program = jax.jit(
        jax.shard_map(shard, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    )
    with simulate():
        return np.asarray(program(jnp.asarray(X)))


@pytest.mark.parametrize("device", [lambda me: (me + 1,), lambda me: (lax.rem(me - 1, N),)])
def test_neighbours_wrap_around(device: Callable[[Any], Any]) -> None:
    with pytest.raises(ExecutionError, match=r"no-such-device") as caught:
        sends(device)
    (note,) = caught.value.notes
    assert "lax.rem(i + 1, n) and lax.rem(i + n - 1, n)" in note.message


def test_neighbours() -> None:
    np.testing.assert_array_equal(sends(lambda me: (lax.rem(me + 1, N),)), np.roll(X, 8, 0))
    np.testing.assert_array_equal(sends(lambda me: (lax.rem(me + N - 1, N),)), np.roll(X, -8, 0))


def test_a_kernel_that_names_no_axis_knows_no_mesh() -> None:
    with pytest.raises(ValueError, match="Number of device ids") as caught:
        sends(lambda me: (lax.rem(me + 1, N),), told=True)
    note = "\n".join(caught.value.__notes__)
    assert "device_id={'x': i}" in note and f"{__file__}:" in note
    named = sends(lambda me: {"x": lax.rem(me + 1, N)}, told=True)
    np.testing.assert_array_equal(named, np.roll(X, 8, 0))


@pytest.mark.aot
@pytest.mark.parametrize(("device", "topology"), [(3, "v5e:2x2"), (6, "v5e:2x4")])
def test_numbers_of_devices_that_the_topology_has(
    device: int, topology: str, compiler: Any
) -> None:
    """The compiler refuses the number of a device that is not there."""

    def body(x: Any, o: Any, send: Any, receive: Any) -> None:
        pltpu.make_async_remote_copy(x, o, send, receive, (device,)).start()
        pltpu.make_async_remote_copy(x, o, send, receive, (device,)).wait()

    def shard(x: Any) -> Any:
        return pl.pallas_call(
            body, out_shape=x, scratch_shapes=[pltpu.SemaphoreType.DMA] * 2
        )(x)  # fmt: skip

    mesh = Mesh(np.array(jax.devices()[:N]), ("x",))
    program = jax.shard_map(shard, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    module = trace(program, jnp.asarray(X))
    for form in ("mosaic", "vreg"):
        lowered = lower(module, form)
        verdict = compile_ahead_of_time(
            lowered, topology=topology, layout_passes=form == "mosaic", compiler=compiler
        )
        assert verdict.accepted, verdict.message
