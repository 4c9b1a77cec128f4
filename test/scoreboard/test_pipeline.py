"""The automatic pipeline and `emit_pipeline` (spec/pallas_semantics.md section 8.3).

The order of events is proven by `test/lowering/test_dma_schedule.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pallasite

from .counting import outcome, transfers
from .support import DMA, S, call, equal, jnp, noise, pl, pltpu, ramp, refusal, run

pytestmark = pytest.mark.jax
feature = pytest.mark.feature
ANY = pl.BlockSpec(memory_space=pl.ANY)


def copy(x: Any, o: Any) -> None:
    o[...] = x[...]


def pipelined(x: Any, mode: Any = None, **options: Any) -> Any:
    """x + 1 through an inner pipeline over blocks of 8 rows."""

    def add_one(x_block: Any, o_block: Any) -> None:
        o_block[...] = x_block[...] + 1

    def body(x_ref: Any, o_ref: Any) -> None:
        spec = pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=mode)
        out = pl.BlockSpec((8, 128), lambda i: (i, 0))
        grid = (x.shape[0] // 8,)
        pltpu.emit_pipeline(add_one, grid=grid, in_specs=[spec], out_specs=[out], **options)(
            x_ref, o_ref
        )

    return call(body, S(*x.shape), in_specs=[ANY], out_specs=ANY)(x)


@feature("L03", "L04", "L31")
@pytest.mark.parametrize(
    "mode",
    [pl.Buffered(1), pl.Buffered(3), pl.Buffered(4), pl.Buffered(3, use_lookahead=True)],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_buffers_of_a_pipeline(mode: Any, seed: int) -> None:
    x = ramp(48, 128)
    equal(run(lambda x: pipelined(x, mode), x, seed=seed), x + 1)


@feature("L36")
def test_more_buffers_than_steps() -> None:
    """JAX's own prologue fetches one block too many and waits for it never; that is found."""
    x = ramp(40, 128)
    equal(run(lambda x: pipelined(x, pl.Buffered(4)), x), x + 1)


@feature("L07")
def test_a_repeated_block_is_fetched_once() -> None:
    def program(x: Any, halved: bool) -> Any:
        spec = pl.BlockSpec((8, 128), lambda i: (i // 2 if halved else i, 0))
        out = pl.BlockSpec((8, 128), lambda i: (i, 0))
        return call(copy, S(32, 128), grid=(4,), in_specs=[spec], out_specs=out)(x)

    x = ramp(32, 128)
    assert transfers(lambda x: program(x, True), x) == 2 + 4
    assert transfers(lambda x: program(x, False), x) == 4 + 4


@feature("L08")
def test_an_output_is_written_once_per_run() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...]

    spec = pl.BlockSpec((8, 128), lambda i, k: (i, k))
    out = pl.BlockSpec((8, 128), lambda i, k: (i, 0))
    program = call(body, S(16, 128), grid=(2, 3), in_specs=[spec], out_specs=out)
    assert transfers(program, ramp(16, 384)) == 6 + 2


@feature("L09")
def test_one_step() -> None:
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    program = call(copy, S(8, 128), grid=(1,), in_specs=[spec], out_specs=spec)
    equal(run(program, ramp(8, 128)), ramp(8, 128))
    assert transfers(program, ramp(8, 128)) == 2


@feature("L10")
def test_a_trivial_window_is_copied_once() -> None:
    def body(x: Any, y: Any, o: Any) -> None:
        o[...] = x[...] + y[...]

    whole = pl.BlockSpec((8, 128), lambda i: (0, 0))
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    program = call(body, S(32, 128), grid=(4,), in_specs=[whole, spec], out_specs=spec)
    ran = outcome(program, ramp(8, 128), ramp(32, 128))
    assert ran.transfers["count"] == 1 + 4 + 4
    assert ran.memory["vmem_peak_bytes"] == (1 + 2 + 2) * 4096


@feature("L12")
@pytest.mark.parametrize("rows", [600, 601])
def test_blocks_at_the_edge_are_rounded_to_tiles(rows: int) -> None:
    x = ramp(rows, 600)
    spec = pl.BlockSpec((512, 512), lambda i, j: (i, j))
    program = call(copy, S(rows, 600), grid=(2, 2), in_specs=[spec], out_specs=spec)
    ran = outcome(program, x)
    equal(ran.outputs[0][0], x)
    # Both ways, all four blocks: what lies beyond the last tile is not transferred.
    padded = (-(-rows // 8) * 8) * 640 * 4
    assert 2 * rows * 600 * 4 <= ran.transfers["bytes"] <= 2 * padded


@feature("L13")
def test_stale_padding_is_never_stored() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = jnp.where(jnp.isnan(x[...]), -1.0, x[...])

    spec = pl.BlockSpec((16, 128), lambda i: (i, 0))
    x = ramp(24, 128)
    result = run(call(body, S(24, 128), grid=(2,), in_specs=[spec], out_specs=spec), x, checks=())
    equal(result, x)


@feature("L15", "L16")
def test_a_pipeline_inside_a_grid() -> None:
    def inner(o_block: Any) -> None:
        number = pl.program_id(0) * 10 + pl.num_programs(0)
        o_block[...] = jnp.full(o_block.shape, number)

    def body(o_ref: Any) -> None:
        outer = pl.program_id(0)
        out = pl.BlockSpec((8, 128), lambda i: (outer * 3 + i, 0))
        pltpu.emit_pipeline(inner, grid=(3,), out_specs=[out])(o_ref)

    result = run(call(body, S(48, 128, dtype=jnp.int32), grid=(2,), out_specs=ANY))
    equal(result[::8, 0], [3, 13, 23] * 2)


@feature("L17", "L18")
def test_bounded_slices_from_a_table() -> None:
    x = ramp(32, 128)
    equal(run(segments((0, 8), (8, 16), (24, 8)), x, checks=("race", "sync")), x * 2)


@feature("L16")
@pytest.mark.parametrize("form", ["pallas", "mosaic", "tiles"])
def test_python_counts_an_axis_of_one_step(form: str) -> None:
    """JAX's pipelines give the number 0 there, which Python may decide by."""

    def scale(x_block: Any, o_block: Any) -> None:
        o_block[...] = x_block[...] * 3

    def inner(x_block: Any, o_block: Any) -> None:
        o_block[...] = x_block[...] * 2 + pl.program_id(0)
        if pl.program_id(1) != 0 or pl.num_programs(0) != 2:
            o_block[...] = x_block[...]
        rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(scale, grid=(2,), in_specs=[rows], out_specs=[rows])(o_block, o_block)

    def body(x_ref: Any, o_ref: Any) -> None:
        rows = pl.BlockSpec((16, 128), lambda i, j: (i, j))
        pltpu.emit_pipeline(inner, grid=(2, 1), in_specs=[rows], out_specs=[rows])(x_ref, o_ref)

    x = ramp(32, 128)
    result = run(call(body, S(32, 128), in_specs=[ANY], out_specs=ANY), x, form=form, checks=())
    equal(result, (x * 2 + np.repeat([0, 1], 16)[:, None]) * 3)


def segments(*parts: tuple[int, int]) -> Any:
    """Doubles parts of 32 rows, by a pipeline over a table of their starts and sizes."""
    starts, sizes = np.array(parts, np.int32).T

    def body(starts_ref: Any, sizes_ref: Any, x_ref: Any, o_ref: Any) -> None:
        def segment(i: Any) -> Any:
            start = pl.multiple_of(starts_ref[i], 8)
            return pl.ds(start, pl.multiple_of(sizes_ref[i], 8)), 0

        def double(x_block: Any, o_block: Any) -> None:
            o_block[...] = x_block[...] * 2

        spec = pl.BlockSpec((pl.BoundedSlice(16), 128), segment)
        pltpu.emit_pipeline(double, grid=(len(parts),), in_specs=[spec], out_specs=[spec])(
            x_ref, o_ref
        )

    smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    program = call(body, S(32, 128), in_specs=[smem, smem, ANY], out_specs=ANY)
    return lambda x: program(starts, sizes, x)


@feature("L18")
@pytest.mark.parametrize("form", ["pallas", "mosaic", "tiles"])
@pytest.mark.parametrize("empty", [0, 1, 2])
def test_bounded_slices_of_no_rows(empty: int, form: str) -> None:
    parts = [(0, 16), (16, 16)]
    parts.insert(empty, ((0, 16, 40)[empty], 0))
    x = ramp(32, 128)
    for seed in range(4):
        result = run(segments(*parts), x, checks=("race", "sync"), form=form, seed=seed)
        equal(result, x * 2)


@feature("L18")
@pytest.mark.parametrize("form", ["pallas", "mosaic", "tiles"])
def test_bounded_slices_of_a_known_size(form: str) -> None:
    """The sizes are no values that the index map gives."""
    parts = pl.BlockSpec(
        (pl.Squeezed(), pl.BoundedSlice(16), pl.BoundedSlice(256)),
        lambda i, j: (1, pl.ds(16 * i, 8), pl.ds(128 * j, 128)),
    )
    blocks = pl.BlockSpec((8, 128), lambda i, j: (i, j))

    def inner(x_block: Any, o_block: Any) -> None:
        o_block[...] = x_block[:8, :128]

    def body(x_ref: Any, o_ref: Any) -> None:
        pltpu.emit_pipeline(inner, grid=(2, 3), in_specs=[parts], out_specs=[blocks])(x_ref, o_ref)

    x = ramp(2, 32, 384)
    result = run(call(body, S(16, 384), in_specs=[ANY], out_specs=ANY), x, form=form)
    equal(result, np.concatenate([x[1, :8], x[1, 16:24]]))


def test_a_bounded_slice_outside_of_its_array() -> None:
    """JAX's own pipeline copies nothing there."""
    said = refusal(segments((0, 16), (40, 8)), ramp(32, 128), form="pallas")
    assert "block [40, 8, 0]" in said and "[32, 128]" in said


@feature("L17", "L18")
@pytest.mark.parametrize("lanes", [False, True])
@pytest.mark.parametrize("form", ["pallas", "mosaic", "tiles"])
def test_bounded_slices_of_any_size(lanes: bool, form: str) -> None:
    """JAX promises that they are whole tiles: what a last tile has behind its slice is poison."""
    shape, bound, unit = ((8, 512), 256, 128) if lanes else ((64, 128), 24, 8)
    slices = [(256, 200), (0, 254)] if lanes else [(32, 16), (8, 9), (0, 3)]
    table = np.array(slices, np.int32)

    def body(table_ref: Any, x_ref: Any, _: Any, o_ref: Any) -> None:
        def segment(i: Any) -> Any:
            part = pl.ds(pl.multiple_of(table_ref[i, 0], unit), table_ref[i, 1])
            return (0, part) if lanes else (part, 0)

        block = (8, pl.BoundedSlice(bound)) if lanes else (pl.BoundedSlice(bound), 128)
        spec = pl.BlockSpec(block, segment)
        pltpu.emit_pipeline(copy, grid=(len(table),), in_specs=[spec], out_specs=[spec])(
            x_ref, o_ref
        )

    program = call(
        body,
        S(*shape),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), ANY, ANY],
        out_specs=ANY,
        input_output_aliases={2: 0},
    )
    x, old = ramp(*shape), -ramp(*shape)
    expected = np.array(old)
    for start, size in slices:
        whole = -(-size // unit) * unit
        for part, what in ((whole, np.nan), (size, x)):
            box = np.s_[:, start : start + part] if lanes else np.s_[start : start + part]
            expected[box] = what if part != size else np.asarray(x)[box]
    # Blocks have rows that nobody wrote, and the pipeline copies some of them.
    equal(run(program, table, x, old, form=form, checks=("race", "sync")), expected)


def sized_copy(multiple: int, poke: int | None = None, **options: Any) -> Any:
    """Copies rows 8 to 8 + n; the kernel promises that n is a multiple of something.

    Maybe it writes another row of the target while the transfer is under way.
    """

    def body(n_ref: Any, x_ref: Any, o_ref: Any, done: Any) -> None:
        o_ref[...] = jnp.zeros_like(o_ref)
        rows = pl.ds(8, pl.multiple_of(n_ref[0], multiple))
        transfer = pltpu.make_async_copy(x_ref.at[rows], o_ref.at[rows], done)
        transfer.start()
        if poke is not None:
            o_ref[poke] = jnp.ones((128,))
        transfer.wait()

    smem, vmem = pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)
    program = call(body, S(32, 128), in_specs=[smem, ANY], out_specs=vmem, scratch_shapes=[DMA(())])
    return run(program, np.array([3], np.int32), ramp(32, 128), **options)


def test_a_promised_size_is_rounded_up_to_the_end_of_its_tile() -> None:
    result = sized_copy(8, checks=("race",))
    expected = np.zeros((32, 128))
    expected[8:16] = np.nan
    expected[8:11] = ramp(32, 128)[8:11]
    equal(result, expected)


def test_a_promise_of_several_tiles_binds() -> None:
    with pytest.raises(pallasite.Diagnostic, match="multiple of 16") as caught:
        sized_copy(16)
    assert caught.value.code == "broken-promise"


def test_writing_behind_a_rounded_transfer_is_a_race() -> None:
    sized_copy(8, poke=16, checks=("race",))
    with pytest.raises(pallasite.Diagnostic) as caught:
        sized_copy(8, poke=12, checks=("race",))
    assert caught.value.code == "data-race"


def by_hand(early_wait: bool, early_fetch: bool) -> Any:
    """Two buffers, four blocks; or one that reads too early, or fetches into a buffer in use."""

    def body(x_ref: Any, o_ref: Any, buffers: Any, arrived: Any) -> None:
        def fetch(step: int) -> Any:
            slot = step % 2
            rows = pl.ds(8 * step, 8)
            return pltpu.make_async_copy(x_ref.at[rows], buffers.at[slot], arrived.at[slot])

        fetch(0).start()
        for step in range(4):
            if step < 3 and not early_fetch:
                fetch(step + 1).start()
            if not early_wait:
                fetch(step).wait()
            if early_fetch and step == 0:
                fetch(1).start()
            if early_fetch and step < 2:
                fetch(step + 2).start()
            o_ref[pl.ds(8 * step, 8)] = buffers[step % 2]
            if early_wait:
                fetch(step).wait()

    scratch = [pltpu.VMEM((2, 8, 128), jnp.float32), DMA((2,))]
    return call(body, S(32, 128), in_specs=[ANY], scratch_shapes=scratch)


@feature("L32", "L33", "Z02")
def test_slots_in_use_are_left_alone() -> None:
    x = ramp(32, 128)
    for seed in range(4):
        equal(run(by_hand(False, False), x, seed=seed), x)
    assert "race" in refusal(by_hand(True, False), x, checks=("race",))
    assert "race" in refusal(by_hand(False, True), x, checks=("race",))


@feature("L01", "L02")
@pytest.mark.parametrize("buffers", [1, 2])
def test_buffering_of_a_call(buffers: int) -> None:
    mode = pl.Buffered(buffers)
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=mode)
    out = pl.BlockSpec((8, 128), lambda i: (i, 0))
    x = noise(32, 128)
    program = call(copy, S(32, 128), grid=(4,), in_specs=[spec], out_specs=out)
    for seed in range(3):
        equal(run(program, x, seed=seed), x)
    assert outcome(program, x).memory["vmem_peak_bytes"] == (buffers + 2) * 4096
