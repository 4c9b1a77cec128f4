"""Refs where they do not belong, and on too few devices: the line, and what to write instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import ExecutionError  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .support import equal, ramp, told  # noqa: E402

pytestmark = pytest.mark.jax

X = ramp(32, 128)
OUT = jax.ShapeDtypeStruct(X.shape, X.dtype)
BLOCK = pl.BlockSpec((8, 128), lambda i, *_: (i, 0))
ANY = pl.BlockSpec(memory_space=pl.ANY)


def doubled(x: Any, o: Any) -> None:
    o[...] = x[...] * 2


def test_a_table_that_an_index_map_returns() -> None:
    def call(index_map: Any) -> Any:
        spec = pl.BlockSpec((8, 128), index_map)
        grid = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(4,), in_specs=[spec], out_specs=BLOCK
        )
        table = jnp.asarray([2, 0, 3, 1])
        return pl.pallas_call(lambda t, x, o: doubled(x, o), out_shape=OUT, grid_spec=grid)(
            table, X
        )

    with simulate():
        with pytest.raises(ValueError, match="mutable array reference") as caught:
            call(lambda i, table: (table, 0))
        assert "write lambda i, table: (table[i], 0)" in told(caught.value)
        assert "test_refs_elsewhere.py:" in told(caught.value)
        found = call(lambda i, table: (table[i], 0))
    equal(found, 2 * np.asarray(X).reshape(4, 8, 128)[[2, 0, 3, 1]].reshape(32, 128))


def test_a_ref_that_is_kept_for_another_kernel() -> None:
    kept: list[Any] = []

    def keeps(x: Any, o: Any) -> None:
        kept.append(o)
        doubled(x, o)

    def reads(x: Any, o: Any) -> None:
        o[...] = x[...] + kept[0][...]

    def is_given_both(x: Any, y: Any, o: Any) -> None:
        o[...] = x[...] + y[...]

    with simulate():
        twice = pl.pallas_call(keeps, out_shape=OUT)(X)
        with pytest.raises(jax.errors.UnexpectedTracerError) as caught:
            pl.pallas_call(reads, out_shape=OUT)(X)
        assert "test_refs_elsewhere.py:" in told(caught.value)
        assert "what one kernel leaves for another is a result" in told(caught.value)
        equal(pl.pallas_call(is_given_both, out_shape=OUT)(X, twice), 3 * X)


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_a_block_of_a_pipeline_of_another_rank(form: str) -> None:
    def call(block: Any) -> Any:
        def kernel(x: Any, o: Any) -> None:
            pltpu.emit_pipeline(doubled, grid=(4,), in_specs=[block], out_specs=[BLOCK])(x, o)

        return pl.pallas_call(kernel, out_shape=OUT, in_specs=[ANY], out_specs=ANY)(X)

    with simulate(form=form):
        with pytest.raises(ValueError) as caught:
            call(pl.BlockSpec((1, 8, 128), lambda i: (0, i, 0)))
        assert "a block has a size in each dimension of its array" in told(caught.value)
        equal(call(BLOCK), 2 * X)


def test_a_copy_to_another_device_where_there_is_one() -> None:
    def kernel(x: Any, o: Any, sent: Any, received: Any) -> None:
        copy = pltpu.make_async_remote_copy(
            x, o, sent, received, device_id=1, device_id_type=pl.DeviceIdType.LOGICAL
        )
        copy.start()
        copy.wait()

    def other(x: Any, o: Any, sent: Any, received: Any) -> None:
        to = 1 - lax.axis_index("x")
        copy = pltpu.make_async_remote_copy(
            x, o, sent, received, device_id=to, device_id_type=pl.DeviceIdType.LOGICAL
        )
        copy.start()
        copy.wait()

    def call(kernel: Any, x: Any) -> Any:
        scratch = [pltpu.SemaphoreType.DMA] * 2
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(
            kernel, out_shape=out, in_specs=[ANY], out_specs=ANY, scratch_shapes=scratch
        )(x)

    with simulate():
        with pytest.raises(ExecutionError, match="no-such-device") as caught:
            call(kernel, X)
        assert "within jax.shard_map over a mesh" in told(caught.value)
        mesh = jax.sharding.Mesh(np.asarray(jax.devices("cpu")[:2]), ("x",))
        spec = jax.sharding.PartitionSpec("x")
        swap = jax.shard_map(
            lambda x: call(other, x), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
        )
        equal(swap(X), np.roll(np.asarray(X), 16, axis=0))
