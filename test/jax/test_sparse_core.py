"""Kernels on the subcores of SparseCores: copies, gathers, scatters, barriers, meshes (K33)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.experimental.pallas import tpu_sc as plsc  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

from .sparse_kernels import (  # noqa: E402
    CHECKS,
    LANES,
    LINEAR,
    TARGET,
    check,
    handed_over,
    one_subcore,
    scalar_kernel,
    typed,
    vector_kernel,
    worker,
)
from .support import ramp  # noqa: E402

pytestmark = pytest.mark.jax

f32, i32 = jnp.float32, jnp.int32
DMA, REGULAR = pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR


def shuffled(size: int, count: int | None = None) -> Any:
    return jnp.asarray(np.random.default_rng(7).permutation(size)[:count], i32)


def drawn(size: int, count: int) -> Any:
    return jnp.asarray(np.random.default_rng(8).integers(0, size, count), i32)


def test_copy() -> None:
    def body(x: Any, o: Any) -> None:
        pltpu.sync_copy(x, o)

    check(one_subcore(body, typed(64)), ramp(64), want=ramp(64))


def test_a_kernel_called_main() -> None:
    """It runs where its mesh says; `main` is a TensorCore's only where no function names a core."""

    def main(x: Any, o: Any) -> None:
        rows = pl.ds(worker() * 8, 8)
        pltpu.sync_copy(x.at[rows], o.at[rows])

    check(vector_kernel(main, typed(256)), ramp(256), want=ramp(256))


@pytest.mark.feature("Y01")
@pytest.mark.parametrize("target", ["v5p", "v6e", "v7x"])
def test_add_on_every_subcore(target: str) -> None:
    lanes = 16 if target == "v7x" else 8

    def body(x: Any, y: Any, o: Any, a: Any, b: Any) -> None:
        rows = pl.ds(worker() * 32, 32)
        pltpu.sync_copy(x.at[rows], a)
        pltpu.sync_copy(y.at[rows], b)

        @pl.loop(0, 32, step=lanes)
        def _(i: Any) -> None:
            part = pl.ds(i, lanes)
            a[part] = a[part] + b[part]

        pltpu.sync_copy(a, o.at[rows])

    x, y = ramp(1024), ramp(1024) * 3
    buffers = [pltpu.VMEM((32,), f32)] * 2
    check(vector_kernel(body, typed(1024), buffers), x, y, want=x + y, target=target)


@pytest.mark.feature("Y02")
@pytest.mark.parametrize("row", [(), (16,), (4, 16)])
def test_gather(row: tuple[int, ...]) -> None:
    def body(x: Any, indices: Any, o: Any, where: Any, rows: Any) -> None:
        part = pl.ds(worker() * 8, 8)
        pltpu.sync_copy(indices.at[part], where)
        pltpu.sync_copy(x.at[where], rows)
        pltpu.sync_copy(rows, o.at[part])

    x, indices = ramp(100, *row), drawn(100, 256)
    scratch = [pltpu.VMEM((8,), i32), pltpu.VMEM((8, *row), f32)]
    call = vector_kernel(body, typed(256, *row), scratch, compiler_params=LINEAR)
    check(call, x, indices, want=x[indices])


def test_gather_by_a_vector() -> None:
    def body(x: Any, indices: Any, o: Any, where: Any, rows: Any) -> None:
        pltpu.sync_copy(indices, where)
        pltpu.sync_copy(x.at[where[...]], rows)
        pltpu.sync_copy(rows, o)

    x, indices = ramp(64, 8), shuffled(64, LANES)
    scratch = [pltpu.VMEM((LANES,), i32), pltpu.VMEM((LANES, 8), f32)]
    call = one_subcore(body, typed(LANES, 8), scratch, compiler_params=LINEAR)
    check(call, x, indices, want=x[indices])


@pytest.mark.feature("Y03")
def test_scatter() -> None:
    def body(x: Any, indices: Any, o: Any, where: Any, rows: Any) -> None:
        part = pl.ds(worker() * 8, 8)
        pltpu.sync_copy(indices.at[part], where)
        pltpu.sync_copy(x.at[part], rows)
        pltpu.sync_copy(rows, o.at[where])

    x, indices = ramp(256, 16), shuffled(256)
    scratch = [pltpu.VMEM((8,), i32), pltpu.VMEM((8, 16), f32)]
    want = jnp.zeros_like(x).at[indices].set(x)
    call = vector_kernel(body, typed(256, 16), scratch, compiler_params=LINEAR)
    check(call, x, indices, want=want)


@pytest.mark.feature("Y03")
def test_scatter_with_ignored_indices() -> None:
    def body(x: Any, indices: Any, o: Any, where: Any, rows: Any) -> None:
        pltpu.sync_copy(indices, where)
        pltpu.sync_copy(x, o)
        pltpu.sync_copy(x, rows)
        rows[...] = -rows[...]
        pltpu.sync_copy(rows, o.at[plsc.Indices(where, ignored_value=-1)])

    x = ramp(LANES)
    indices = jnp.where(jnp.arange(LANES) % 3 == 0, -1, jnp.arange(LANES)[::-1])
    kept = indices >= 0
    want = x.at[indices[kept]].set(-x[kept])
    scratch = [pltpu.VMEM((LANES,), i32), pltpu.VMEM((LANES,), f32)]
    check(one_subcore(body, typed(LANES), scratch), x, indices, want=want)


@pytest.mark.feature("Y04")
def test_scatter_add_to_shared_memory() -> None:
    """Every subcore adds its rows to a table that its core shares; each core writes its own."""

    def body(x: Any, indices: Any, o: Any, table: Any, where: Any, rows: Any) -> None:
        core, number = jax.lax.axis_index("c"), jax.lax.axis_index("s")

        @pl.when(number == 0)
        def _() -> None:
            pltpu.sync_copy(x.at[pl.ds(0, 8)], table)

        plsc.subcore_barrier()
        part = pl.ds(worker() * 8, 8)
        pltpu.sync_copy(indices.at[part], where)
        pltpu.sync_copy(x.at[part], rows)
        pltpu.sync_copy(rows, table.at[where], add=True)
        plsc.subcore_barrier()

        @pl.when(number == 0)
        def _() -> None:
            pltpu.sync_copy(table, o.at[core])

    x, indices = ramp(256, 16), drawn(8, 256)
    scratch = [
        pltpu.VMEM_SHARED((8, 16), f32), pltpu.VMEM((8,), i32), pltpu.VMEM((8, 16), f32),
    ]  # fmt: skip
    want = [x[:8].at[indices[h * 128 :][:128]].add(x[h * 128 :][:128]) for h in (0, 1)]
    call = vector_kernel(body, typed(2, 8, 16), scratch)
    check(call, x, indices, want=jnp.stack(want))


@pytest.mark.feature("Y02")
def test_gather_that_adds() -> None:
    """What is gathered is added to what the rows in VMEM hold."""

    def body(x: Any, indices: Any, o: Any, where: Any, rows: Any) -> None:
        part = pl.ds(worker() * 8, 8)
        pltpu.sync_copy(indices.at[part], where)
        pltpu.sync_copy(x.at[pl.ds(0, 8)], rows)
        pltpu.sync_copy(x.at[where], rows, add=True)
        pltpu.sync_copy(rows, o.at[part])

    x, indices = ramp(64, 128, dtype=i32), drawn(64, 256)
    scratch = [pltpu.VMEM((8,), i32), pltpu.VMEM((8, 128), i32)]
    want = x[indices] + jnp.tile(x[:8], (32, 1))
    check(vector_kernel(body, typed(256, 128, dtype=i32), scratch), x, indices, want=want)


@pytest.mark.feature("Y05")
def test_histogram() -> None:
    """Counts of 32 subcores, each in memory of its own."""

    def body(x: Any, o: Any, values: Any, counts: Any) -> None:
        pltpu.sync_copy(x.at[worker()], values)

        @pl.loop(0, 64, step=LANES)
        def _(i: Any) -> None:
            counts[pl.ds(i, LANES)] = jnp.zeros((LANES,), i32)

        @pl.loop(0, 128, step=LANES)
        def _(i: Any) -> None:
            found = values[pl.ds(i, LANES)]
            plsc.addupdate_scatter(counts, [found], jnp.ones((LANES,), i32))

        pltpu.sync_copy(counts, o.at[worker()])

    x = drawn(64, 32 * 128).reshape(32, 128)
    want = np.stack([np.bincount(row, minlength=64) for row in np.asarray(x)])
    scratch = [pltpu.VMEM((128,), i32), pltpu.VMEM((64,), i32)]
    check(vector_kernel(body, typed(32, 64, dtype=i32), scratch), x, want=want)


@pytest.mark.feature("Y07")
def test_neighbours_exchange_rows_through_shared_memory() -> None:
    def body(x: Any, o: Any, table: Any, row: Any) -> None:
        number = jax.lax.axis_index("s")
        pltpu.sync_copy(x.at[worker()], table.at[number])
        plsc.subcore_barrier()
        pltpu.sync_copy(table.at[(number + 1) % 16], row)
        pltpu.sync_copy(row, o.at[worker()])

    x = ramp(32, 16)
    scratch = [pltpu.VMEM_SHARED((16, 16), f32), pltpu.VMEM((16,), f32)]
    want = jnp.roll(x.reshape(2, 16, 16), -1, 1).reshape(32, 16)
    check(vector_kernel(body, typed(32, 16), scratch), x, want=want)


@pytest.mark.feature("Y08")
def test_fetch_and_add() -> None:
    """Subcores draw numbers: whoever comes first, all are different."""

    def body(o: Any, counter: Any, mine: Any) -> None:
        number = jax.lax.axis_index("s")

        @pl.when(number == 0)
        def _() -> None:
            counter[0] = 100

        plsc.subcore_barrier()
        drawn = plsc.fetch_and_add(counter, 2, subcore_id=0)
        mine[...] = jnp.full((LANES,), drawn, i32)
        pltpu.sync_copy(mine, o.at[(drawn - 100) // 2])

    scratch = [pltpu.SMEM((1,), i32), pltpu.VMEM((LANES,), i32)]
    call = vector_kernel(body, typed(16, LANES, dtype=i32), scratch, cores=1)
    want = np.repeat(100 + 2 * np.arange(16), LANES).reshape(16, LANES)
    check(call, want=want)


@pytest.mark.feature("Y09")
def test_scalar_subcores() -> None:
    """Each reads its half of a table in SMEM and adds to it there."""

    def body(x: Any, o: Any, words: Any) -> None:
        core = jax.lax.axis_index("c")
        pltpu.sync_copy(x.at[core], words)

        @pl.loop(1, 16)
        def _(i: Any) -> None:
            words[i] = words[i] + words[i - 1]

        pltpu.sync_copy(words, o.at[core])

    x = ramp(2, 16, dtype=i32)
    call = scalar_kernel(body, typed(2, 16, dtype=i32), [pltpu.SMEM((16,), i32)])
    check(call, x, want=jnp.cumsum(x, axis=1))


@pytest.mark.feature("Y11")
def test_pipeline_on_subcores() -> None:
    def body(x: Any, o: Any) -> None:
        def block(a: Any, b: Any) -> None:
            @pl.loop(0, 64, step=LANES)
            def _(i: Any) -> None:
                b[pl.ds(i, LANES)] = a[pl.ds(i, LANES)] * 2

        spec = pl.BlockSpec((64,), lambda i: (i,))
        pltpu.emit_pipeline(
            block, grid=(64,), in_specs=[spec], out_specs=[spec],
            core_axis_name=("c", "s"), dimension_semantics=(pltpu.PARALLEL,),
        )(x, o)  # fmt: skip

    x = ramp(4096, dtype=i32)
    check(vector_kernel(body, typed(4096, dtype=i32)), x, want=x * 2)


@pytest.mark.feature("Y13")
def test_cores_of_both_kinds_in_one_program() -> None:
    def gather(x: Any, indices: Any, o: Any, where: Any, rows: Any) -> None:
        part = pl.ds(worker() * 8, 8)
        pltpu.sync_copy(indices.at[part], where)
        pltpu.sync_copy(x.at[where], rows)
        pltpu.sync_copy(rows, o.at[part])

    def double(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    scratch = [pltpu.VMEM((8,), i32), pltpu.VMEM((8, 128), f32)]
    x, indices = ramp(64, 128), drawn(64, 256)

    @jax.jit
    def program(x: Any, indices: Any) -> Any:
        rows = vector_kernel(gather, typed(256, 128), scratch)(x, indices)
        return pl.pallas_call(double, out_shape=rows)(rows) + 1

    with simulate(target=TARGET, form="vreg", checks=CHECKS):
        np.testing.assert_array_equal(program(x, indices), x[indices] * 2 + 1)


@pytest.mark.feature("Y10")
@pytest.mark.since_jax("0.10.2", "addresses of subcores")
def test_two_meshes_in_one_kernel() -> None:
    x = ramp(16, 16)
    with simulate(target=TARGET, checks=CHECKS):
        np.testing.assert_array_equal(jax.jit(handed_over)(x), jnp.tile(x, (2, 1)))
