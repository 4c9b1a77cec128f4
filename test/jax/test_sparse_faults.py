"""What goes wrong on subcores is found, with the subcore and the kernel's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from .since import require_jax  # noqa: E402

require_jax("0.10.1", "needs_layout_passes=")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.experimental.pallas import tpu_sc as plsc  # noqa: E402

from pallasite.diagnostics import Diagnostic  # noqa: E402
from pallasite.jax import simulate, trace  # noqa: E402

from .sparse_kernels import (  # noqa: E402
    LANES,
    TARGET,
    one_subcore,
    scalar_kernel,
    typed,
    vector_kernel,
)

pytestmark = [pytest.mark.jax, pytest.mark.feature("Y14")]

f32, i32 = jnp.float32, jnp.int32
FLAT = pltpu.CompilerParams(needs_layout_passes=False)


def fault(call: Any, *args: Any, target: str = TARGET, **options: Any) -> Diagnostic:
    with simulate(target=target, form=options.pop("form", "vreg"), **options):
        with pytest.raises(Diagnostic) as raised:
            jax.block_until_ready(jax.jit(call)(*args))
    error = raised.value
    assert error.location is not None, error
    assert error.location.file.endswith("test_sparse_faults.py"), error
    return error


@pytest.mark.parametrize("kind", ["memory", "vector"])
@pytest.mark.parametrize("index", [-1, 64])
def test_an_index_of_a_gather_out_of_bounds(kind: str, index: int) -> None:
    def body(x: Any, i: Any, o: Any, where: Any, rows: Any) -> None:
        pltpu.sync_copy(i, where)
        pltpu.sync_copy(x.at[where if kind == "memory" else where[...]], rows)
        pltpu.sync_copy(rows, o)

    scratch = [pltpu.VMEM((LANES,), i32), pltpu.VMEM((LANES,), f32)]
    error = fault(
        one_subcore(body, typed(LANES), scratch),
        jnp.zeros(64), jnp.zeros(LANES, i32).at[5].set(index),
    )  # fmt: skip
    assert error.code == "out-of-bounds"
    assert f"index {index}, at place 5 of 16" in error.message


@pytest.mark.parametrize("store", [False, True])
def test_an_index_of_a_register_out_of_bounds(store: bool) -> None:
    def body(o: Any, out: Any) -> None:
        out[...] = jnp.zeros((LANES,), f32)
        where = jax.lax.iota(i32, LANES) + 1
        if store:
            plsc.store_scatter(out, [where], out[...])
        else:
            out[...] = plsc.load_gather(out, [where])
        pltpu.sync_copy(out, o)

    call = one_subcore(body, typed(LANES), [pltpu.VMEM((LANES,), f32)], compiler_params=FLAT)
    error = fault(call)
    assert error.code == "out-of-bounds"
    assert "index 16 of dimension 0" in error.message


def _shared(body: Any) -> Any:
    scratch = [pltpu.VMEM_SHARED((16, LANES), f32), pltpu.VMEM((LANES,), f32)]
    return vector_kernel(body, typed(16, LANES), scratch, cores=1)


def test_a_missing_barrier_is_a_race() -> None:
    def body(x: Any, o: Any, table: Any, row: Any) -> None:
        number = jax.lax.axis_index("s")
        pltpu.sync_copy(x.at[number], table.at[number])
        pltpu.sync_copy(table.at[(number + 1) % 16], row)
        pltpu.sync_copy(row, o.at[number])

    error = fault(_shared(body), jnp.ones((16, LANES)), checks=("race",))
    assert error.code == "data-race"
    assert "of SparseCore 0" in str(error)


@pytest.mark.parametrize("add", [False, True])
def test_scatters_to_one_row_race_unless_they_add(add: bool) -> None:
    def body(x: Any, o: Any, table: Any, row: Any) -> None:
        number = jax.lax.axis_index("s")

        @pl.when(number == 0)
        def _() -> None:
            pltpu.sync_copy(x, table)

        plsc.subcore_barrier()
        pltpu.sync_copy(x.at[number], row)
        lanes = jax.lax.iota(i32, LANES)
        pltpu.sync_copy(row, table.at[3].at[lanes], add=add)
        plsc.subcore_barrier()
        pltpu.sync_copy(table.at[number], o.at[number])

    x = jnp.ones((16, LANES))
    if add:
        with simulate(target=TARGET, checks=("race", "init")):
            found = jax.jit(_shared(body))(x)
        np.testing.assert_array_equal(found, x.at[3].set(17.0))
    else:
        assert fault(_shared(body), x, checks=("race",)).code == "data-race"


def test_a_subcore_that_does_not_come_to_the_barrier() -> None:
    def body(x: Any, o: Any, table: Any, row: Any) -> None:
        @pl.when(jax.lax.axis_index("s") != 5)
        def _() -> None:
            plsc.subcore_barrier()

    error = fault(_shared(body), jnp.ones((16, LANES)))
    assert error.code == "deadlock"
    assert "to which 15 of 16 subcores have come" in error.message
    assert any("subcore 5 of SparseCore 0 finished" in note.message for note in error.notes)


def test_a_wait_that_nobody_ends() -> None:
    def body(o: Any, ready: Any) -> None:
        pl.semaphore_wait(ready, 1)

    call = scalar_kernel(body, typed(LANES), [pltpu.SemaphoreType.REGULAR], cores=1)
    error = fault(call)
    assert error.code == "deadlock"
    assert "the scalar subcore of SparseCore 0" in error.message


def test_an_uninitialised_load() -> None:
    def body(o: Any, row: Any) -> None:
        row[...] = row[...] + 1.0
        pltpu.sync_copy(row, o)

    error = fault(one_subcore(body, typed(LANES), [pltpu.VMEM((LANES,), f32)]), checks=("init",))
    assert error.code == "uninitialised-read"
    assert "subcore 0 of SparseCore 0" in error.message


@pytest.mark.parametrize("how", ["row", "scatter", "copy"])
def test_additions_to_what_nobody_has_written(how: str) -> None:
    """Whoever adds reads, too; a sum of something unwritten is unwritten."""

    def body(p: Any, o: Any, where: Any, ones: Any, total: Any) -> None:
        pltpu.sync_copy(p, where)
        ones[...] = jnp.ones((LANES,), f32)
        if how == "row":
            plsc.addupdate(total.at[...], ones[...])
        elif how == "scatter":
            plsc.addupdate_scatter(total, [where[...]], ones[...])
        else:
            pltpu.sync_copy(ones, total.at[where], add=True)
            pltpu.sync_copy(total, ones)
            ones[...] = ones[...] * 2
        pltpu.sync_copy(total, o)

    memory = pltpu.VMEM_SHARED if how == "copy" else pltpu.VMEM
    scratch = [pltpu.VMEM((LANES,), i32), pltpu.VMEM((LANES,), f32), memory((LANES,), f32)]
    call = one_subcore(body, typed(LANES), scratch, compiler_params=FLAT)
    assert fault(call, jnp.arange(LANES), checks=("init",)).code == "uninitialised-read"


def test_a_copy_that_nobody_waits_for() -> None:
    def body(x: Any, o: Any, row: Any, done: Any) -> None:
        pltpu.sync_copy(x, o)
        pltpu.async_copy(x, row, done)

    scratch = [pltpu.VMEM((LANES,), f32), pltpu.SemaphoreType.DMA]
    error = fault(one_subcore(body, typed(LANES), scratch), jnp.ones(LANES), checks=("sync",))
    assert error.code == "unawaited-dma"


def test_indices_that_change_while_a_gather_is_in_flight() -> None:
    def body(x: Any, i: Any, o: Any, where: Any, rows: Any, done: Any) -> None:
        pltpu.sync_copy(i, where)
        copy = pltpu.async_copy(x.at[where], rows, done)
        where[...] = where[...] + 1
        copy.wait()
        pltpu.sync_copy(rows, o)

    scratch = [pltpu.VMEM((LANES,), i32), pltpu.VMEM((LANES,), f32), pltpu.SemaphoreType.DMA]
    call = one_subcore(body, typed(LANES), scratch)
    error = fault(call, jnp.zeros(64), jnp.arange(LANES, dtype=i32))
    assert error.code == "broken-promise"
    assert "indices" in error.message
    assert f"the DMA of {LANES} times [1] x f32 from input 0" in error.message


def test_a_loop_without_end() -> None:
    def body(o: Any) -> None:
        jax.lax.while_loop(lambda i: i >= 0, lambda i: i * 0, jnp.int32(0))

    assert fault(one_subcore(body, typed(LANES)), max_steps=10_000).code == "step-limit"


def test_too_much_memory() -> None:
    """What a subcore has for itself, sixteen times, and what all share come from one memory."""

    def body(o: Any, mine: Any, shared: Any) -> None:
        pass

    scratch = [pltpu.VMEM((100_000,), f32), pltpu.VMEM_SHARED((600_000,), f32)]
    error = fault(vector_kernel(body, typed(LANES), scratch))
    assert error.code.endswith("exhausted")
    assert "16 vector subcores" in error.message


def test_a_target_without_sparse_cores() -> None:
    def body(x: Any, o: Any) -> None:
        pltpu.sync_copy(x, o)

    module = trace(one_subcore(body, typed(LANES)), jnp.ones(LANES), target=TARGET, form="mosaic")
    from pallasite.api import lower

    with pytest.raises(Diagnostic, match="which v5e does not have") as raised:
        lower(module, "vreg", "v5e")
    assert "v5p, v6e, v7x" in raised.value.notes[0].message


def test_a_mesh_that_is_too_large() -> None:
    def body(x: Any, o: Any) -> None:
        pltpu.sync_copy(x, o)

    call = vector_kernel(body, typed(LANES), cores=4)
    module = trace(call, jnp.ones(LANES), target="v5p", form="mosaic")
    from pallasite.api import lower

    with pytest.raises(Diagnostic, match="mesh is \\[4, 16\\], but a device of v6e has 2 SparseC"):
        lower(module, "vreg", "v6e")


def test_what_jax_does_not_lower_for_a_subcore() -> None:
    def body(x: Any, o: Any, row: Any) -> None:
        pltpu.sync_copy(x, row)
        row[...] = jnp.sqrt(row[...])
        pltpu.sync_copy(row, o)

    call = one_subcore(body, typed(LANES), [pltpu.VMEM((LANES,), f32)])
    with simulate(target=TARGET), pytest.raises(NotImplementedError, match="sqrt") as raised:
        jax.jit(call)(jnp.ones(LANES))
    (note,) = [note for note in raised.value.__notes__ if "SparseCore" in note]
    assert f"test_sparse_faults.py:{body.__code__.co_firstlineno + 2}:" in note
    assert "pallas_call on a TensorCore" in note


@pytest.mark.parametrize(
    ("function", "shape", "dtype", "layouts", "advice"),
    [
        (lambda x: jnp.sum(x, 1)[:, None] + x, (4, LANES), i32, True, "add rows to each other"),
        (lambda x: jnp.flip(x, 0), (4, LANES), i32, True, "in the order that is wanted"),
        (lambda x: x + 1, (4, LANES), i32, False, "needs_layout_passes=True"),
        (lambda x: x.astype(jnp.float16), (32,), jnp.bfloat16, False, "by way of float32"),
    ],
)
def test_what_to_write_instead(
    function: Any, shape: tuple[int, ...], dtype: Any, layouts: bool, advice: str
) -> None:
    """Also of what JAX calls an internal error."""
    x = jnp.ones(shape, dtype)

    def body(x: Any, o: Any, row: Any, made: Any) -> None:
        pltpu.sync_copy(x, row)
        made[...] = function(row[...])
        pltpu.sync_copy(made, o)

    out = jax.eval_shape(function, x)
    scratch = [pltpu.VMEM(shape, dtype), pltpu.VMEM(out.shape, out.dtype)]
    params = pltpu.CompilerParams(needs_layout_passes=layouts)
    call = one_subcore(body, out, scratch, compiler_params=params)
    with simulate(target=TARGET), pytest.raises(Exception) as raised:
        jax.jit(call)(x)
    (note,) = [note for note in raised.value.__notes__ if "SparseCore" in note]
    assert advice in note


def test_a_single_index_behind_a_slice() -> None:
    def call(body: Any, *shape: int) -> Any:
        scratch = [pltpu.VMEM((LANES,), i32), pltpu.VMEM(shape, i32)]
        return jax.jit(one_subcore(body, typed(*shape, dtype=i32), scratch))(jnp.arange(LANES))

    def columns(x: Any, o: Any, row: Any, made: Any) -> None:
        pltpu.sync_copy(x, row)
        made[:, 0] = row[...]
        pltpu.sync_copy(made, o)

    def rows(x: Any, o: Any, row: Any, made: Any) -> None:
        pltpu.sync_copy(x, row)
        made[0, pl.ds(0, LANES)] = row[...]
        made[1, pl.ds(0, LANES)] = row[...] + 1
        pltpu.sync_copy(made, o)

    with simulate(target=TARGET):
        with pytest.raises(NotImplementedError, match="non-trivial slice") as raised:
            call(columns, LANES, 2)
        (note,) = [note for note in raised.value.__notes__ if "SparseCore" in note]
        assert f":{columns.__code__.co_firstlineno + 2}:" in note
        assert "index the leading dimensions, ref[i, pl.ds(0, n)]" in note
        made = call(rows, 2, LANES)
    np.testing.assert_array_equal(made, np.arange(LANES) + np.arange(2)[:, None])


def test_lanes_are_counted_as_the_target_has_them() -> None:
    """A kernel for vectors of 16 lanes, on a target of 8."""

    def wrong(x: Any, o: Any, row: Any) -> None:
        row[...] = jnp.arange(LANES, dtype=i32)
        pltpu.sync_copy(row, o)

    def right(x: Any, o: Any, row: Any) -> None:
        @pl.loop(0, LANES, step=8)
        def _(start: Any) -> None:
            row[pl.ds(start, 8)] = start + jax.lax.iota(i32, 8)

        pltpu.sync_copy(row, o)

    def call(body: Any) -> Any:
        kernel = one_subcore(body, typed(LANES, dtype=i32), [pltpu.VMEM((LANES,), i32)])
        return jax.jit(kernel)(jnp.arange(LANES))

    with simulate(target="v5p"):
        with pytest.raises(ValueError, match="Unsupported iota shape") as raised:
            call(wrong)
        notes = "".join(raised.value.__notes__)
        assert f":{wrong.__code__.co_firstlineno + 1}:" in notes
        assert "add a start to jax.lax.iota(jnp.int32, 8) in a loop" in notes
        made = call(right)
    np.testing.assert_array_equal(made, np.arange(LANES))


def test_masked_stores_are_of_words() -> None:
    def body(x: Any, o: Any, row: Any) -> None:
        pltpu.sync_copy(x, row)
        plsc.store_compressed(row.at[...], row[...], mask=row[...] > 3)
        pltpu.sync_copy(row, o)

    x = jnp.ones(32, jnp.int16)
    call = one_subcore(body, typed(32, dtype=jnp.int16), [pltpu.VMEM((32,), jnp.int16)])
    with simulate(target=TARGET), pytest.raises(Exception, match="non-32-bit") as raised:
        jax.jit(call)(x)
    assert any("plsc.unpack before" in note for note in raised.value.__notes__)


@pytest.mark.parametrize("form", ["pallas", "vreg"])
def test_a_subcore_of_the_same_mesh_has_no_name(form: str) -> None:
    """JAX leaves the name out: the signal is the subcore's own, and the wait ends."""

    def body(x: Any, o: Any, ready: Any) -> None:
        other = jnp.bitwise_xor(jax.lax.axis_index("s"), 1)
        pl.semaphore_signal(ready, 1, device_id={"s": other})
        pl.semaphore_wait(ready, 1)

    call = vector_kernel(body, typed(32, LANES), [pltpu.SemaphoreType.REGULAR])
    with pytest.warns(UserWarning, match="device_id names axis 's' of the mesh") as warned:
        with simulate(target=TARGET, form=form):
            jax.block_until_ready(jax.jit(call)(jnp.zeros((32, LANES))))
    assert "test_sparse_faults.py" in str(warned[0].message)


def test_a_callback_on_a_subcore() -> None:
    def body(x: Any, o: Any) -> None:
        jax.debug.callback(lambda: None)

    with simulate(target=TARGET), pytest.raises(NotImplementedError) as raised:
        vector_kernel(body, typed(32, LANES), [])(jnp.zeros((32, LANES)))
    assert "pl.debug_print" in "".join(raised.value.__notes__)
