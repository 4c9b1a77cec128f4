"""Pipelines of JAX that fill a part of a block, which kernels load whole: right in every form."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import Diagnostic, KernelWarning, Unsupported  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax
FORMS = ("pallas", "mosaic", "dma", "tiles", "vreg")


def doubled(x: Any, spec: Any, steps: int, *, loops: bool = False) -> Any:
    """`2 * x`, by a pipeline whose body loads whole blocks of `spec`, which may ask for a table.

    With `loops` the kernel makes its buffers itself, and JAX makes loops of it in every form."""

    def body(table: Any, x: Any, o: Any) -> None:
        def block(x: Any, o: Any) -> None:
            o[...] = x[...] * 2

        given = spec(table)
        if not loops:
            pltpu.emit_pipeline(block, grid=(steps,), in_specs=[given], out_specs=[given])(x, o)
            return
        pipeline, buffers = pltpu.emit_pipeline_with_allocations(
            block, grid=(steps,), in_specs=[given], out_specs=[given]
        )
        pl.run_scoped(lambda made: pipeline(x, o, allocations=made), buffers(x, o))

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    grid_spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(), in_specs=[anywhere], out_specs=anywhere
    )
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    table = np.array([0, 8, 24, 0, 8, 16, 8, 0], np.int32)
    return pl.pallas_call(body, grid_spec=grid_spec, out_shape=shape)(table, x)


def rows(size: Any, place: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda table: pl.BlockSpec((size, 128), lambda i: (place(i), 0))


def listed(table: Any) -> Any:
    def place(i: Any) -> Any:
        return (pl.ds(table[i], table[i + 4]), 0)

    return pl.BlockSpec((pl.BoundedSlice(16), 128), place)


def flat(table: Any) -> Any:
    return pl.BlockSpec((1024,), lambda i: (i,))


BOUNDED = pl.BoundedSlice(16)
PARTS = {
    "slices of a table": ((32, 128), listed, 3),
    "slices, one of which is empty": ((32, 128), listed, 4),
    "slices that are known": ((32, 128), rows(BOUNDED, lambda i: pl.ds(i * 8, 8)), 4),
    "slices of a constant size": ((8, 128), rows(BOUNDED, lambda i: pl.ds(0, 8)), 1),
    "slices over the end": ((36, 128), rows(BOUNDED, lambda i: pl.ds(i * 16, 16)), 3),
    "elements over the end": ((20, 128), rows(pl.Element(8), lambda i: i * 8), 3),
    "a block over the end": ((20, 128), rows(32, lambda i: i), 1),
    "flat blocks over the end": ((2500,), flat, 3),
    "a flat block over the end": ((1565,), flat, 2),
    "one flat block": ((600,), flat, 1),
    "a flat block as long as its tiles": ((3000,), flat, 3),
}


@pytest.mark.parametrize(("form", "loops"), [*((form, False) for form in FORMS), ("pallas", True)])
@pytest.mark.parametrize("part", PARTS)
def test_parts_of_blocks_are_no_finding(part: str, form: str, loops: bool) -> None:
    shape, spec, steps = PARTS[part]
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    with simulate(form=form, checks="all"), warnings.catch_warnings():
        warnings.simplefilter("error", KernelWarning)
        result = doubled(x, spec, steps, loops=loops)
    np.testing.assert_array_equal(np.asarray(result), 2 * x)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float32])
@pytest.mark.parametrize("target", ["v5e", "v7x"])
def test_arrays_in_tiles_of_few_rows(target: str, dtype: Any, count: int, form: str) -> None:
    """The copy sees the buffer in the array's tiles, in which the rest of the block is not."""
    x = np.arange(count * 128).reshape(count, 128).astype(dtype)
    with simulate(target=target, form=form, checks="all"), warnings.catch_warnings():
        warnings.simplefilter("error", KernelWarning)
        result = doubled(x, rows(32, lambda i: i), 1)
    np.testing.assert_array_equal(np.asarray(result), x + x)


@pytest.mark.parametrize("form", FORMS)
def test_behind_arrays_in_tiles_of_few_rows_is_poison(form: str) -> None:
    def body(x: Any, o: Any) -> None:
        def block(x: Any, o: Any) -> None:
            o[...] = x[...]

        spec = rows(16, lambda i: i)(None)
        pltpu.emit_pipeline(block, grid=(1,), in_specs=[spec], out_specs=[spec])(x, o)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    shape = jax.ShapeDtypeStruct((16, 128), np.float32)
    call = pl.pallas_call(body, out_shape=shape, in_specs=[anywhere], out_specs=anywhere)
    with simulate(form=form, checks="init"), pytest.warns(KernelWarning, match="1536 of 2048"):
        result = np.asarray(call(np.ones((4, 128), np.float32)))
    np.testing.assert_array_equal(
        np.isnan(result), np.repeat(np.arange(16) >= 4, 128).reshape(16, 128)
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize(("columns", "dtype"), [(128, "float32"), (256, "bfloat16")])
def test_bounded_slices_that_are_known_to_be_no_whole_tiles(
    columns: int, dtype: str, grows: bool, form: str
) -> None:
    """JAX promises that they are, whatever they are; the TPU compiler takes them, too."""
    block = 8 if dtype == "float32" else 16

    def size(i: Any) -> Any:
        return i + 1 if grows else 5

    def spec(table: Any) -> Any:
        bounded = (pl.BoundedSlice(block), columns)
        return pl.BlockSpec(bounded, lambda i: (pl.ds(i * block, size(i)), 0))

    x = (np.arange(40 * columns) % 128).reshape(40, columns).astype(dtype)
    expected, steps = np.full(x.shape, np.nan), -(-40 // block)
    for i in range(steps):
        taken = slice(i * block, i * block + size(i))
        expected[taken] = 2.0 * x[taken]
    with simulate(form=form):
        result = doubled(x, spec, steps)
    np.testing.assert_array_equal(np.asarray(result, np.float64), expected)


@pytest.mark.parametrize("form", FORMS)
def test_what_a_bounded_slice_leaves_is_poison(form: str) -> None:
    """Results tell of it: the rest of a block is not what an earlier step left there."""

    def body(x: Any, o: Any) -> None:
        def block(x: Any, o: Any) -> None:
            @pl.when(pl.program_id(0) == 0)
            def _() -> None:
                o[...] = jnp.zeros_like(o)

            o[...] += x[...]

        part = pl.BlockSpec((BOUNDED, 128), lambda i: (pl.ds(i * 16, 16 - 8 * i), 0))
        total = pl.BlockSpec((16, 128), lambda i: (0, 0))
        pltpu.emit_pipeline(block, grid=(2,), in_specs=[part], out_specs=[total])(x, o)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32),
        in_specs=[anywhere],
        out_specs=anywhere,
    )
    with simulate(form=form, checks="init"), pytest.warns(KernelWarning, match="1024 of 2048"):
        call(np.ones((24, 128), np.float32))


@pytest.mark.parametrize("form", FORMS)
def test_chosen_sizes_fill_no_block(form: str) -> None:
    """A kernel that chooses itself how much it copies, and loads more, is no pipeline."""

    def body(count: Any, x: Any, o: Any, part: Any) -> None:
        size = jnp.where(count[0] > 2, count[1], count[2])
        some = pl.ds(0, pl.multiple_of(size, 8))
        pltpu.sync_copy(x.at[some], part.at[some])
        o[...] = part[...]

    x = np.ones((32, 128), np.float32)
    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM(x.shape, x.dtype)],
    )
    with simulate(form=form, checks="init"), pytest.raises(Diagnostic) as raised:
        call(np.array([3, 16, 8], np.int32), x)
    assert raised.value.code == "uninitialised-read"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [np.int16, jnp.bfloat16, np.int8])
def test_slices_that_begin_anywhere(kind: Any, form: str) -> None:
    """JAX's pipelines promise how long a slice is, not where it begins: packed rows are refused."""
    x = np.zeros((32, 128), kind)
    with simulate(form=form), pytest.raises(Unsupported) as caught:
        doubled(x, listed, 3)
    assert caught.value.code == "unaligned-slice"


@pytest.mark.parametrize("form", FORMS)
def test_slices_that_begin_with_tiles(form: str) -> None:
    def aligned(table: Any) -> Any:
        def place(i: Any) -> Any:
            return (pl.ds(pl.multiple_of(table[i], 8), table[i + 4]), 0)

        return pl.BlockSpec((BOUNDED, 128), place)

    x = np.arange(4096).reshape(32, 128).astype(np.int16)
    with simulate(form=form):
        np.testing.assert_array_equal(np.asarray(doubled(x, aligned, 3)), 2 * x)


def ragged(x: Any, form: str) -> Any:
    """`2 * x`, by slices of rows that begin and end anywhere."""
    zeros = (0,) * (x.ndim - 1)

    def place(table: Any) -> Callable[[Any], Any]:
        return lambda i: (pl.ds(table[i], table[i + 1] - table[i]), *zeros)

    def body(table: Any, x: Any, o: Any) -> None:
        def block(x: Any, o: Any) -> None:
            o[...] = x[...] * 2

        given = pl.BlockSpec((pl.BoundedSlice(8), *x.shape[1:]), place(table))
        pltpu.emit_pipeline(block, grid=(4,), in_specs=[given], out_specs=[given])(x, o)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    grid_spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(), in_specs=[anywhere], out_specs=anywhere
    )
    with simulate(form=form):
        call = pl.pallas_call(body, grid_spec=grid_spec, out_shape=jax.typeof(x))
        return call(np.array([0, 3, 10, 12, 16], np.int32), x)


@pytest.mark.parametrize("form", FORMS)
def test_slices_that_end_within_a_tile(form: str) -> None:
    """The notes say what to write instead, which runs; nothing is said of blocks outside."""
    x = jnp.arange(16 * 128.0).reshape(16, 128)
    with pytest.raises(Diagnostic) as caught:
        ragged(x, form)
    notes = " ".join(note.message for note in caught.value.notes)
    assert caught.value.code == "broken-promise" and "begin at multiples of 8" in notes
    assert "(pl.BoundedSlice(n), 1, columns)" in notes and "must lie inside" not in notes
    rows = x.reshape(16, 1, 128)
    np.testing.assert_array_equal(ragged(rows, form), 2 * rows)
