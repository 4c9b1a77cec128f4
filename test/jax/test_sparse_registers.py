"""What vector subcores do with registers: indexed accesses, scans, sorts, masks, packing (K33)."""

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

from pallasite.jax import simulate  # noqa: E402

from .sparse_kernels import LANES, TARGET, check, one_subcore, results, typed  # noqa: E402

pytestmark = pytest.mark.jax

f32, i32, bf16 = jnp.float32, jnp.int32, jnp.bfloat16
FLAT = pltpu.CompilerParams(needs_layout_passes=False)
"""Vectors of these kernels are registers as they are."""


def numbers(*shape: int, dtype: Any = f32, low: int = -50, high: int = 50) -> Any:
    return jnp.asarray(np.random.default_rng(5).integers(low, high, shape), dtype)


def of_registers(function: Any, *inputs: Any, out: Any) -> Any:
    """`function` of the inputs, each a register, on one subcore; `out` has the types of results."""
    outs = out if isinstance(out, tuple) else (out,)

    def body(*refs: Any) -> None:
        ins, os = refs[: len(inputs)], refs[len(inputs) : len(inputs) + len(outs)]
        bufs = refs[len(inputs) + len(outs) :]
        for ref, buffer in zip(ins, bufs, strict=False):
            pltpu.sync_copy(ref, buffer)
        values = function(*[buffer[...] for buffer in bufs[: len(inputs)]])
        for value, buffer, ref in zip(
            values if isinstance(values, tuple) else (values,), bufs[len(inputs) :], os, strict=True
        ):
            buffer[...] = value
            pltpu.sync_copy(buffer, ref)

    scratch = [pltpu.VMEM(x.shape, x.dtype) for x in (*inputs, *outs)]
    return one_subcore(body, list(outs), scratch, compiler_params=FLAT)


@pytest.mark.feature("Y05")
@pytest.mark.parametrize("masked", [False, True])
def test_load_gather(masked: bool) -> None:
    x, rows, columns = numbers(8, 32), numbers(LANES, low=0, high=8), numbers(LANES, low=0, high=32)
    rows, columns = rows.astype(i32), columns.astype(i32)

    def body(x: Any, r: Any, c: Any, o: Any, table: Any, row: Any, column: Any, out: Any) -> None:
        for source, target in ((x, table), (r, row), (c, column)):
            pltpu.sync_copy(source, target)
        mask = row[...] < 4 if masked else None
        found = plsc.load_gather(table, [row[...], column[...]], mask=mask)
        out[...] = found if mask is None else jnp.where(mask, found, 0.0)
        pltpu.sync_copy(out, o)

    scratch = [
        pltpu.VMEM((8, 32), f32), pltpu.VMEM((LANES,), i32), pltpu.VMEM((LANES,), i32),
        pltpu.VMEM((LANES,), f32),
    ]  # fmt: skip
    call = one_subcore(body, typed(LANES), scratch, compiler_params=FLAT)
    want = x[rows, columns]
    check(call, x, rows, columns, want=jnp.where(rows < 4, want, 0) if masked else want)


@pytest.mark.feature("Y05")
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_store_scatter(adds: bool, masked: bool) -> None:
    """Of two lanes that write one place the higher one stays, or both are added."""
    places, values = numbers(LANES, dtype=i32, low=0, high=9), numbers(LANES)

    def body(p: Any, v: Any, o: Any, place: Any, value: Any, table: Any) -> None:
        pltpu.sync_copy(p, place)
        pltpu.sync_copy(v, value)
        table[...] = jnp.full((LANES,), 3.0, f32)
        mask = value[...] > 0 if masked else None
        store = plsc.addupdate_scatter if adds else plsc.store_scatter
        store(table, [place[...]], value[...], mask=mask)
        pltpu.sync_copy(table, o)

    want = np.full(LANES, 3.0, np.float32)
    for place, value in zip(np.asarray(places), np.asarray(values), strict=True):
        if value > 0 or not masked:
            want[place] = want[place] + value if adds else value
    scratch = [pltpu.VMEM((LANES,), t) for t in (i32, f32, f32)]
    call = one_subcore(body, typed(LANES), scratch, compiler_params=FLAT)
    check(call, places, values, want=want)


@pytest.mark.feature("Y06")
@pytest.mark.parametrize("dtype", [f32, i32])
def test_scans(dtype: Any) -> None:
    x = numbers(LANES, dtype=dtype)
    out = (typed(LANES, dtype=dtype),) * 2
    call = of_registers(lambda x: (plsc.cumsum(x), plsc.cummax(x)), x, out=out)
    check(call, x, want=(jnp.cumsum(x), jax.lax.cummax(x)))


@pytest.mark.feature("Y06")
@pytest.mark.parametrize("scan", ["cumsum", "cummax"])
@pytest.mark.parametrize("dtype", [f32, i32])
def test_the_input_passes_a_scan_before_the_first_lane_that_takes_part(
    scan: str, dtype: Any
) -> None:
    x = numbers(LANES, dtype=dtype)

    def function(x: Any) -> Any:
        return getattr(plsc, scan)(x, mask=jax.lax.iota(i32, LANES) >= 5)

    rest = np.cumsum(x[5:]) if scan == "cumsum" else np.maximum.accumulate(x[5:])
    want = np.concatenate([x[:5], rest])
    check(of_registers(function, x, out=typed(LANES, dtype=dtype)), x, want=want)


@pytest.mark.feature("Y06")
def test_a_masked_scan_keeps_the_running_value() -> None:
    x = numbers(LANES, dtype=i32)

    def function(x: Any) -> Any:
        mask = (jax.lax.iota(i32, LANES) % 3) == 0
        return plsc.cumsum(x, mask=mask)

    want = np.cumsum(np.where(np.arange(LANES) % 3 == 0, x, 0))
    check(of_registers(function, x, out=typed(LANES, dtype=i32)), x, want=want)


@pytest.mark.feature("Y06")
@pytest.mark.parametrize("dtype", [f32, i32])
@pytest.mark.parametrize("descending", [False, True])
def test_sort(dtype: Any, descending: bool) -> None:
    """Stable, and integers by their sign."""
    keys = numbers(LANES, dtype=dtype, low=-4, high=4)
    values = jnp.arange(LANES, dtype=i32)

    def function(keys: Any, values: Any) -> Any:
        return tuple(plsc.sort_key_val(keys, values, descending=descending))

    sign = -1 if descending else 1
    order = np.argsort(sign * np.asarray(keys), stable=True)
    out = (typed(LANES, dtype=dtype), typed(LANES, dtype=i32))
    check(of_registers(function, keys, values, out=out), keys, values, want=(keys[order], order))


@pytest.mark.feature("Y06")
@pytest.mark.parametrize("descending", [False, True])
def test_sort_with_a_mask(descending: bool) -> None:
    """What is masked off follows in its own order."""
    keys, values = numbers(LANES), jnp.arange(LANES, dtype=i32)

    def function(keys: Any, values: Any) -> Any:
        mask = (jax.lax.iota(i32, LANES) % 3) > 0
        found, carried, mask = plsc.sort_key_val(keys, values, mask=mask, descending=descending)
        return found, carried, mask.astype(i32)

    taking = np.arange(LANES) % 3 > 0
    sign = -1 if descending else 1
    order = np.argsort(np.where(taking, sign * np.asarray(keys), np.inf), stable=True)
    want = (keys[order], order, np.sort(taking)[::-1])
    out = (typed(LANES), *[typed(LANES, dtype=i32)] * 2)
    check(of_registers(function, keys, values, out=out), keys, values, want=want)


@pytest.mark.feature("Y06")
def test_scan_count() -> None:
    x = numbers(LANES, dtype=i32, low=0, high=5)

    def function(x: Any) -> Any:
        counts, last = plsc.scan_count(x)
        return counts, last.astype(i32)

    values = np.asarray(x).tolist()
    counts = [values[: n + 1].count(value) for n, value in enumerate(values)]
    last = [value not in values[n + 1 :] for n, value in enumerate(values)]
    out = (typed(LANES, dtype=i32),) * 2
    check(of_registers(function, x, out=out), x, want=(counts, np.int32(last)))


@pytest.mark.feature("Y06")
def test_masks() -> None:
    x = numbers(LANES)

    def function(x: Any) -> Any:
        mask = x > 10
        return plsc.all_reduce_population_count(mask), plsc.all_reduce_ffs(mask)

    count, first = int((x > 10).sum()), int(np.argmax(np.asarray(x) > 10))
    want = (np.full(LANES, count), np.full(LANES, first))
    check(of_registers(function, x, out=(typed(LANES, dtype=i32),) * 2), x, want=want)


def test_reductions_and_scalars() -> None:
    x = numbers(LANES)

    def function(x: Any) -> Any:
        return jnp.full((LANES,), jnp.sum(x) + jnp.max(x) + x[3], f32)

    want = jnp.full(LANES, x.sum() + x.max() + x[3])
    check(of_registers(function, x, out=typed(LANES)), x, want=want)


@pytest.mark.parametrize("bound", [-100, 0, 100])
def test_whether_any_or_all_lanes_hold(bound: int) -> None:
    x = numbers(LANES)

    def function(x: Any) -> Any:
        some, every = jnp.any(x > bound), jnp.all(x > bound)
        return jnp.full((LANES,), jnp.where(some, 1, 0) + jnp.where(every, 2, 0), i32)

    held = np.asarray(x) > bound
    want = np.full(LANES, held.any() + 2 * held.all())
    check(of_registers(function, x, out=typed(LANES, dtype=i32)), x, want=want)


def test_compressed_and_expanded() -> None:
    x = numbers(LANES)

    def body(x: Any, o: Any, p: Any, value: Any, out: Any) -> None:
        pltpu.sync_copy(x, value)
        out[...] = jnp.zeros((LANES,), f32)
        plsc.store_compressed(out.at[...], value[...], mask=value[...] > 0)
        pltpu.sync_copy(out, o)
        mask = jax.lax.iota(i32, LANES) % 2 == 0
        value[...] = jnp.where(mask, plsc.load_expanded(value.at[...], mask=mask), 0.0)
        pltpu.sync_copy(value, p)

    kept = np.asarray(x)[np.asarray(x) > 0]
    packed = np.concatenate([kept, np.zeros(LANES - len(kept), np.float32)])
    even = np.zeros(LANES, np.float32)
    even[::2] = np.asarray(x)[: LANES // 2]
    scratch = [pltpu.VMEM((LANES,), f32)] * 2
    call = one_subcore(body, [typed(LANES)] * 2, scratch, compiler_params=FLAT)
    check(call, x, want=(packed, even))


def test_lanes_are_counted_in_floats() -> None:
    """JAX's lowering asks the vector unit for them, which counts in integers."""

    def body(x: Any, o: Any, row: Any) -> None:
        pltpu.sync_copy(x, row)
        row[...] = row[...] + jax.lax.iota(f32, LANES)
        pltpu.sync_copy(row, o)

    x = numbers(LANES)
    call = one_subcore(body, typed(LANES), [pltpu.VMEM((LANES,), f32)], compiler_params=FLAT)
    with simulate(target=TARGET, form="pallas"):
        np.testing.assert_array_equal(jax.jit(call)(x), x + np.arange(LANES, dtype=np.float32))


@pytest.mark.feature("Y12")
@pytest.mark.parametrize("format", ["INTERLEAVED", "COMPRESSED"])
def test_pack_and_unpack(format: str) -> None:
    layout = getattr(plsc.PackFormat, format)
    a, b = numbers(LANES), numbers(LANES) + 0.5

    def function(a: Any, b: Any) -> Any:
        packed = plsc.pack(a, b, format=layout, preferred_element_type=bf16)
        return tuple(plsc.unpack(packed, format=layout))

    check(of_registers(function, a, b, out=(typed(LANES),) * 2), a, b, want=(a, b))


def test_bitcast_and_reverse() -> None:
    x = numbers(LANES)

    def function(x: Any) -> Any:
        return plsc.bitcast(x, i32), jax.lax.rev(x, (0,))

    out = (typed(LANES, dtype=i32), typed(LANES))
    check(of_registers(function, x, out=out), x, want=(np.asarray(x).view(np.int32), x[::-1]))


def test_parallel_loop_carries() -> None:
    x = numbers(256, dtype=i32)

    def body(x: Any, o: Any, values: Any, out: Any) -> None:
        pltpu.sync_copy(x, values)

        @plsc.parallel_loop(0, 256, LANES, unroll=2, carry=jnp.zeros((LANES,), i32))
        def total(i: Any, carry: Any) -> Any:
            values[pl.ds(i, LANES)] = values[pl.ds(i, LANES)] + 1
            return carry + values[pl.ds(i, LANES)]

        out[...] = total
        pltpu.sync_copy(out, o)

    scratch = [pltpu.VMEM((256,), i32), pltpu.VMEM((LANES,), i32)]
    call = one_subcore(body, typed(LANES, dtype=i32), scratch, compiler_params=FLAT)
    check(call, x, want=(x + 1).reshape(-1, LANES).sum(0))


def test_lanes_that_a_mask_leaves_out_are_poison() -> None:
    def body(o: Any, out: Any) -> None:
        out[...] = jnp.ones((LANES,), f32)
        lanes = jax.lax.iota(i32, LANES)
        out[...] = plsc.load_gather(out, [lanes], mask=lanes < 3)
        pltpu.sync_copy(out, o)

    call = one_subcore(body, typed(LANES), [pltpu.VMEM((LANES,), f32)], compiler_params=FLAT)
    (found,) = results(call)
    np.testing.assert_array_equal(found[:3], 1)
    assert np.isnan(found[3:]).all()
