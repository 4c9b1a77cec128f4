"""Subcores that signal and send to each other, on one device and on several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.experimental.pallas import tpu_sc as plsc  # noqa: E402
from jax.sharding import Mesh  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

from .sparse_kernels import CHECKS, LANES, TARGET, typed, vector_kernel, worker  # noqa: E402
from .support import ramp  # noqa: E402

pytestmark = pytest.mark.jax

f32, i32 = jnp.float32, jnp.int32


def test_devices_have_sparse_cores_of_their_own() -> None:
    def body(x: Any, o: Any, row: Any) -> None:
        pltpu.sync_copy(x.at[worker()], row)
        row[...] = row[...] * 2
        pltpu.sync_copy(row, o.at[worker()])

    call = vector_kernel(body, typed(32, LANES), [pltpu.VMEM((LANES,), f32)])
    mesh = Mesh(np.array(jax.devices()[:2]), ("d",))
    x = ramp(64, LANES)
    with simulate(target=TARGET, checks=CHECKS):
        mapped = jax.shard_map(call, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False)
        np.testing.assert_array_equal(jax.jit(mapped)(x), x * 2)


def test_gather_of_blocks_in_a_pipeline() -> None:
    """The blocks of indices are pipelined; what they name is gathered."""

    def body(x: Any, indices: Any, o: Any) -> None:
        def block(where: Any, rows: Any) -> None:
            pltpu.sync_copy(x.at[where.at[0]], rows)

        pltpu.emit_pipeline(
            block,
            grid=(16,),
            in_specs=[pl.BlockSpec((1, LANES), lambda i: (0, i))],
            out_specs=[pl.BlockSpec((LANES, 128), lambda i: (i, 0))],
            core_axis_name="s",
            dimension_semantics=(pltpu.PARALLEL,),
        )(indices, o)

    x = ramp(100, 128)
    indices = jnp.asarray(np.random.default_rng(3).integers(0, 100, (1, 256)), i32)
    with simulate(target=TARGET, checks=CHECKS):
        found = jax.jit(vector_kernel(body, typed(256, 128), cores=1))(x, indices)
    np.testing.assert_array_equal(found, x[indices[0]])


def test_a_closed_over_scalar() -> None:
    def call(x: Any, n: Any) -> Any:
        def body(x: Any, o: Any, row: Any) -> None:
            pltpu.sync_copy(x, row)
            row[...] = row[...] * n
            pltpu.sync_copy(row, o)

        return vector_kernel(body, typed(LANES), [pltpu.VMEM((LANES,), f32)], 1, 1)(x)

    with simulate(target=TARGET, checks=CHECKS):
        found = jax.jit(call)(ramp(LANES), jnp.float32(3))
    np.testing.assert_array_equal(found, ramp(LANES) * 3)


def test_core_map_writes_to_refs() -> None:
    def run(x: Any) -> Any:
        mesh = plsc.VectorSubcoreMesh(core_axis_name="c", subcore_axis_name="s")

        def stateful(refs: Any) -> None:
            x_ref, o_ref = refs

            @pl.core_map(mesh)
            def _() -> None:
                pltpu.sync_copy(x_ref.at[worker()], o_ref.at[worker()])

        return pl.run_state(stateful)((x, jnp.zeros_like(x)))[1]

    x = ramp(32, LANES)
    with simulate(target=TARGET, checks=CHECKS):
        np.testing.assert_array_equal(jax.jit(run)(x), x)


def test_a_vector_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    def body(x: Any, o: Any, row: Any) -> None:
        pltpu.sync_copy(x, row)
        pl.debug_print("row", row[...])
        pltpu.sync_copy(row, o)

    call = vector_kernel(body, typed(LANES), [pltpu.VMEM((LANES,), f32)], 1, 1)
    with simulate(target=TARGET):
        jax.block_until_ready(jax.jit(call)(ramp(LANES)))
    assert "row {0, 1, 2, 3" in capfd.readouterr().err


@pytest.mark.parametrize("seed", [0, 1])
def test_subcores_of_two_devices_swap_rows(seed: int) -> None:
    """Without a subcore in the address, a copy goes to the same subcore of the other device."""

    def body(x: Any, o: Any, mine: Any, came: Any, sent: Any, arrived: Any, ready: Any) -> None:
        other = {"d": 1 - jax.lax.axis_index("d")}
        pltpu.sync_copy(x.at[worker()], mine)
        pl.semaphore_signal(ready, 1, device_id=other)
        pl.semaphore_wait(ready, 1)
        copy = pltpu.make_async_remote_copy(mine, came, sent, arrived, device_id=other)
        copy.start()
        copy.wait()
        pltpu.sync_copy(came, o.at[worker()])

    row, semaphore = pltpu.VMEM((LANES,), f32), pltpu.SemaphoreType
    scratch = [row, row, semaphore.DMA, semaphore.DMA, semaphore.REGULAR]
    call = vector_kernel(body, typed(32, LANES), scratch)
    mesh = Mesh(np.array(jax.devices()[:2]), ("d",))
    x = ramp(64, LANES)
    with simulate(target=TARGET, checks=CHECKS, seed=seed):
        mapped = jax.shard_map(call, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False)
        np.testing.assert_array_equal(jax.jit(mapped)(x), jnp.roll(x, 32, axis=0))
