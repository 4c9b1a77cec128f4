"""Rows of arrays in HBM, wherever they are in a tile, copied one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.frontend.aot import compile_ahead_of_time  # noqa: E402
from pallasite.jax import simulate, trace  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

from .support import ramp  # noqa: E402

pytestmark = pytest.mark.jax

HBM = pl.BlockSpec(memory_space=pltpu.HBM)
f32 = jnp.float32


@pytest.mark.parametrize("columns", [64, 200])
def test_gathered_rows(columns: int) -> None:
    """As vectors, as matrices of one row, and between arrays of which one has no rows."""

    def body(rows: Any, x: Any, o: Any, vector: Any) -> None:
        for place in range(2):
            pltpu.sync_copy(x.at[rows[place]], o.at[place])
        pltpu.sync_copy(x.at[pl.ds(rows[2], 1)], o.at[pl.ds(2, 1)])
        pltpu.sync_copy(x.at[rows[3]], vector)
        pltpu.sync_copy(vector, o.at[3])

    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((4, columns), f32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            in_specs=[HBM],
            out_specs=pl.BlockSpec(),
            scratch_shapes=[pltpu.VMEM((columns,), f32)],
        ),
    )
    rows, x = jnp.array([11, 3, 8, 19]), ramp(20, columns)
    with simulate(form="vreg", checks="all"):
        np.testing.assert_array_equal(jax.jit(call)(rows, x), x[rows])


def test_parts_of_rows_into_scalar_memory_and_rows_of_every_plane() -> None:
    def body(at: Any, x: Any, o: Any, numbers: Any) -> None:
        pltpu.sync_copy(x.at[1, at[0]].at[pl.ds(128, 128)], numbers)
        pltpu.sync_copy(x.at[:, at[0]], o)
        o[...] += numbers[3]

    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((3, 256), f32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            in_specs=[HBM],
            out_specs=pl.BlockSpec(),
            scratch_shapes=[pltpu.SMEM((128,), f32)],
        ),
    )
    x = ramp(3, 16, 256)
    with simulate(form="tiles", checks="all"):
        result = jax.jit(call)(jnp.array([13]), x)
    np.testing.assert_array_equal(result, x[:, 13] + x[1, 13, 131])


def test_rows_of_scalar_memory() -> None:
    def body(rows: Any, x: Any, o: Any, numbers: Any) -> None:
        @pl.loop(0, 4)
        def _(place: Any) -> None:
            pltpu.sync_copy(x.at[rows[place]], numbers.at[place])

        pltpu.sync_copy(numbers.at[rows[1]], o)
        numbers[2, 7] = numbers[2, 7] + numbers[3, 130]
        pltpu.sync_copy(numbers.at[2, pl.ds(0, 128)], o.at[pl.ds(0, 128)])

    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((256,), f32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            in_specs=[HBM],
            out_specs=HBM,
            scratch_shapes=[pltpu.SMEM((4, 256), f32)],
        ),
    )
    x = ramp(16, 256)
    with simulate(form="vreg", checks="all"):
        result = np.array(jax.jit(call)(jnp.array([13, 3, 8, 5]), x))
    expected = np.array(x[5])
    expected[:128] = x[8, :128]
    expected[7] += x[5, 130]
    np.testing.assert_array_equal(result, expected)


ROWS = [((3, 256), 0), ((12, 256), 0), ((12, 256), 9), ((2, 5, 384), 0), ((2, 12, 256), 11)]


@pytest.mark.aot
@pytest.mark.parametrize(("shape", "row"), ROWS)
def test_rows_of_arrays_that_end_within_a_tile(shape: Any, row: int, compiler: Any) -> None:
    """Into a buffer and out of HBM; the TPU compiler takes our registers, too."""
    planes, columns = shape[:-2], shape[-1]
    place = (*(extent - 1 for extent in planes), row)

    def body(x: Any, y: Any, o: Any, rows: Any, one: Any) -> None:
        rows[...] = jnp.zeros(shape, f32)
        pltpu.sync_copy(x, rows.at[place])
        pltpu.sync_copy(y.at[place], one)
        o[...] = rows[...] + one[...][None]

    call = pl.pallas_call(
        body,
        in_specs=[HBM, HBM],
        out_shape=jax.ShapeDtypeStruct(shape, f32),
        scratch_shapes=[pltpu.VMEM(shape, f32), pltpu.VMEM((columns,), f32)],
    )
    x, y = ramp(columns), ramp(*shape)
    with simulate(form="vreg", checks="race"):
        result = jax.jit(call)(x, y)
    np.testing.assert_array_equal(result, jnp.zeros(shape).at[place].set(x) + y[place])
    lowered = pallasite.lower(trace(call, x, y), "vreg")
    verdict = compile_ahead_of_time(
        lowered, topology=get_target("v5e").topology, layout_passes=False, compiler=compiler
    )
    assert verdict.accepted, verdict.message


PARTS = [
    ((40, 128), f32, (3, 16)),
    ((40, 128), f32, (None, 12)),
    ((37, 256), f32, (32, 5)),
    ((40, 256), f32, (2, 4)),
    ((40, 64), jnp.bfloat16, (None, 6)),
    ((40, 256), jnp.bfloat16, (12, 4)),
    ((64, 128), jnp.int8, (None, 20)),
    ((8, 256), f32, (None, 3)),
    ((6, 512), jnp.bfloat16, (None, 2)),
]


@pytest.mark.aot
@pytest.mark.parametrize(("shape", "dtype", "part"), PARTS)
def test_parts_of_tiles(shape: Any, dtype: Any, part: Any, compiler: Any) -> None:
    """Between HBM and buffers, at places known or not; the TPU compiler takes our registers."""
    (start, size), words = part, 4 // jnp.dtype(dtype).itemsize
    first, columns = 2 * words if start is None else start, shape[1]

    def body(at: Any, x: Any, o: Any, part: Any) -> None:
        place = pl.multiple_of(at[0], words) if start is None else start
        pltpu.sync_copy(x.at[pl.ds(place, size)], part.at[pl.ds(2 * words, size)])
        part[...] = (part[...].astype(f32) * 2).astype(dtype)
        pltpu.sync_copy(part.at[pl.ds(2 * words, size)], o.at[pl.ds(place, size)])

    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(shape, dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            in_specs=[HBM],
            out_specs=HBM,
            scratch_shapes=[pltpu.VMEM((-(-(size + 4 * words) // 32) * 32, columns), dtype)],
        ),
        input_output_aliases={1: 0},
    )
    x = (jnp.arange(shape[0] * columns).reshape(shape) % 60).astype(dtype)
    arguments = jnp.array([first]), x
    with simulate(form="vreg", checks="race"):
        result = jax.jit(call)(*arguments)
    rows = slice(first, first + size)
    np.testing.assert_array_equal(result, x.at[rows].multiply(2))
    lowered = pallasite.lower(trace(call, *arguments), "vreg")
    verdict = compile_ahead_of_time(
        lowered, topology=get_target("v5e").topology, layout_passes=False, compiler=compiler
    )
    assert verdict.accepted, verdict.message


ENDS = [
    ((13, 128), jnp.bfloat16, (12, 1)),
    ((3, 512), jnp.bfloat16, (2, 1)),
    ((23, 256), jnp.bfloat16, (20, 3)),
    ((37, 128), jnp.int8, (12, 25)),
    ((7, 256), jnp.int8, (4, 3)),
]


@pytest.mark.aot
@pytest.mark.parametrize(("shape", "dtype", "part"), ENDS)
def test_ends_of_packed_arrays(shape: Any, dtype: Any, part: Any, compiler: Any) -> None:
    """The last rows of an array, which share a word with padding, in HBM and in a buffer."""
    start, size = part

    def body(x: Any, whole: Any, o: Any, rows: Any) -> None:
        end = pl.ds(start, size)
        rows[...] = whole[...]
        pltpu.sync_copy(x.at[end], rows.at[end])
        pltpu.sync_copy(rows.at[end], o)

    call = pl.pallas_call(
        body,
        in_specs=[HBM, pl.BlockSpec()],
        out_specs=HBM,
        out_shape=jax.ShapeDtypeStruct((size, shape[1]), dtype),
        scratch_shapes=[pltpu.VMEM(shape, dtype)],
    )
    x = (jnp.arange(shape[0] * shape[1]).reshape(shape) % 60).astype(dtype)
    with simulate(form="vreg", checks="race"):
        result = jax.jit(call)(x, x)
    np.testing.assert_array_equal(result, x[start:])
    lowered = pallasite.lower(trace(call, x, x), "vreg")
    verdict = compile_ahead_of_time(
        lowered, topology=get_target("v5e").topology, layout_passes=False, compiler=compiler
    )
    assert verdict.accepted, verdict.message


SCALARS = [((18, 128), (8, 2)), ((29, 256), (16, 5)), ((2, 5, 128), (1, 4)), ((2304,), (128, 256))]


@pytest.mark.aot
@pytest.mark.parametrize(("shape", "part"), SCALARS)
def test_parts_of_scalar_memory(shape: Any, part: Any, compiler: Any) -> None:
    """Copied to HBM and back to elsewhere, with scalars read from a part."""
    dim, (start, size) = max(len(shape) - 2, 0), part
    place = (slice(None),) * dim + (pl.ds(start, size),)
    expected = (slice(None),) * dim + (slice(start, start + size),)
    first = (0,) * len(shape)

    def body(x: Any, o: Any, numbers: Any, other: Any) -> None:
        pltpu.sync_copy(x, numbers)
        pltpu.sync_copy(numbers.at[place], o)
        pltpu.sync_copy(o, other.at[place])
        other[first] = numbers.at[place][first]
        pltpu.sync_copy(other.at[place], o)

    x = ramp(*shape)
    call = pl.pallas_call(
        body,
        in_specs=[HBM],
        out_specs=HBM,
        out_shape=jax.ShapeDtypeStruct(x[expected].shape, f32),
        scratch_shapes=[pltpu.SMEM(shape, f32)] * 2,
    )
    with simulate(form="vreg", checks="race"):
        np.testing.assert_array_equal(jax.jit(call)(x), x[expected])
    lowered = pallasite.lower(trace(call, x), "vreg")
    verdict = compile_ahead_of_time(
        lowered, topology=get_target("v5e").topology, layout_passes=False, compiler=compiler
    )
    assert verdict.accepted, verdict.message


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("row", [0, 3, 63])
def test_rows_of_narrow_types_as_the_notes_say_to_write_them(dtype: str, row: int) -> None:
    """The TPU compiler finds rows of words only; others are rotated, or chosen by their place."""

    def read(i: Any, x: Any, o: Any) -> None:
        o[...] = x[pl.ds(i[0], 1), :]

    def read_rotated(i: Any, x: Any, o: Any) -> None:
        o[...] = pltpu.roll(x[...], -i[0] % 64, 0)[:1]

    def store(i: Any, x: Any, o: Any) -> None:
        o[...] = x[...]
        o[pl.ds(i[0], 1), :] = x[8:9, :]

    def store_chosen(i: Any, x: Any, o: Any) -> None:
        here = jax.lax.broadcasted_iota(jnp.int32, x.shape, 0) == i[0]
        o[...] = jnp.where(here, x[8:9, :], x[...])

    x = jnp.asarray(np.random.default_rng(0).integers(-9, 9, (64, 128))).astype(dtype)
    expected = {read: x[row : row + 1], store: x.at[row].set(x[8])}
    read_so, store_so = "it: pltpu.roll(ref[...], -index % 64, 0)[", "ref[...] = jnp.where(lax."
    for plain, told, note in ((read, read_rotated, read_so), (store, store_chosen, store_so)):
        for body in (plain, told):
            call = pl.pallas_call(
                body,
                out_shape=expected[plain],
                in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec()],
            )
            if body is plain and dtype != "float32":
                with simulate(), pytest.raises(Unsupported, match="multiple of") as caught:
                    call(jnp.array([row]), x)
                assert note in str(caught.value)
            else:
                with simulate():
                    result = call(jnp.array([row]), x)
                np.testing.assert_array_equal(
                    np.asarray(result, np.float32), np.asarray(expected[plain], np.float32)
                )


@pytest.mark.parametrize("form", ["pallas", "tiles", "vreg"])
@pytest.mark.parametrize(
    ("columns", "rows", "dtype"), [(40, 8, f32), (256, 5, f32), (384, 16, jnp.bfloat16)]
)
def test_one_row_again_and_again(form: str, columns: int, rows: int, dtype: Any) -> None:
    """Stride 0, of rows of any whole number of tiles."""

    def body(x: Any, o: Any) -> None:
        o[...] = x[pl.ds(3, rows, stride=0), :]

    x = ramp(16, columns).astype(dtype)
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((rows, columns), dtype))
    with simulate(form=form, checks="all"):
        np.testing.assert_array_equal(call(x), jnp.broadcast_to(x[3], (rows, columns)))


def test_one_row_at_a_place_known_at_run_time() -> None:
    def body(x: Any, o: Any) -> None:
        def add(k: Any, total: Any) -> Any:
            total += x[pl.ds(k, 8, stride=0), :]
            o[pl.ds(k, 1), :] = total[:1]
            return total

        jax.lax.fori_loop(0, 16, add, jnp.zeros((8, 128), f32))

    x = ramp(16, 128)
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, f32))
    for form in ("pallas", "vreg"):
        with simulate(form=form, checks="all"):
            np.testing.assert_array_equal(call(x), jnp.cumsum(x, 0))


RESHAPED = [
    ((64, 128), (2, 32, 128), jnp.bfloat16, (8, 8)),
    ((4, 32, 512), (128, 512), jnp.bfloat16, (36, 4)),
    ((128, 256), (4, 32, 256), jnp.int8, (12, 4)),
    ((2, 64, 128), (128, 128), jnp.int16, (2, 8)),
]


@pytest.mark.aot
@pytest.mark.parametrize(("old", "new", "dtype", "rows"), RESHAPED)
@pytest.mark.parametrize("space", [pltpu.HBM, pltpu.VMEM])
def test_parts_of_reshaped_arrays(
    old: Any, new: Any, dtype: Any, rows: Any, space: Any, compiler: Any
) -> None:
    """Packed rows within a tile, of an array seen in another shape."""
    part = (*[slice(None)] * (len(new) - 2), slice(rows[0], sum(rows)))
    x = (jnp.arange(np.prod(old)).reshape(old) % 120).astype(dtype)

    def body(x: Any, o: Any) -> None:
        pltpu.sync_copy(x.reshape(*new).at[*part[:-1], pl.ds(*rows)], o)

    call = pl.pallas_call(
        body,
        in_specs=[pl.BlockSpec(memory_space=space)],
        out_specs=HBM,
        out_shape=jax.ShapeDtypeStruct((*new[:-2], rows[1], new[-1]), dtype),
    )
    with simulate(form="vreg", checks="race"):
        np.testing.assert_array_equal(jax.jit(call)(x), x.reshape(new)[part])
    lowered = pallasite.lower(trace(call, x), "vreg")
    verdict = compile_ahead_of_time(
        lowered, topology=get_target("v5e").topology, layout_passes=False, compiler=compiler
    )
    assert verdict.accepted, verdict.message
