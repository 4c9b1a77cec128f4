"""Register loads and stores against the physical picture: rows of 128 words."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import BFloat16Type, IntegerType, f32

from pallasite.diagnostics import ExecutionError
from pallasite.interpreter import values
from pallasite.interpreter.machine import recast, rows
from pallasite.interpreter.machine.codec import codec
from pallasite.interpreter.machine.memory import Memory
from pallasite.interpreter.machine.views import Ref
from pallasite.layouts.tiling import Tiling, native_tiling

BF16 = BFloat16Type()
ELEMENTS = [f32, BF16, IntegerType(8), IntegerType(4)]


def make(shape, element, tiling=None) -> Ref:
    bits = codec(element).bits
    tiling = tiling or native_tiling(shape, bits)
    buffer = Memory("vmem", 1 << 24).allocate(tiling.elements(shape) * bits // 8, "buffer")
    words = np.random.default_rng(0).integers(0, 1 << 30, len(buffer.bytes) // 4)
    # No NaN patterns: arrays are compared by value.
    buffer.bytes.view(np.uint32)[:] = words & 0x3FFF3FFF
    return Ref.of(buffer, element, shape, tiling)


def load(ref: Ref, index, *wanted) -> np.ndarray:
    """The registers of `rows.pattern(*wanted)` at `index`."""
    pattern = rows.pattern(*wanted)
    return rows.read(ref, rows.plan(ref, "load", index, pattern, None), pattern.shape)


def store(ref: Ref, index, array: np.ndarray, *wanted, mask=None) -> None:
    """Stores `array` to the registers of `rows.pattern(array.shape, *wanted)` at `index`."""
    found = rows.plan(ref, "store", index, rows.pattern(array.shape, *wanted), None)
    rows.write(ref, found, array, mask, add=False)


def physical(ref: Ref) -> np.ndarray:
    return ref.buffer.bytes.view(np.uint32).reshape(-1, 128)


def register(words: np.ndarray, element) -> np.ndarray:
    return values.from_words(np.ascontiguousarray(words), element)


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_one_register_is_eight_rows_of_words(element):
    packing = codec(element).packing
    ref = make((8 * packing * 4, 384), element)
    shape = (8, 128) if packing == 1 else (8, 128, packing)
    loaded = load(ref, (8 * packing * 2, 256), shape)
    first = (2 * 3 + 2) * 8
    np.testing.assert_array_equal(loaded, register(physical(ref)[first : first + 8], element))


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_a_grid_is_its_registers_and_is_row_major_inside(element):
    packing = codec(element).packing
    ref = make((3, 8 * packing * 4, 384), element)
    tail = (8, 128) if packing == 1 else (8, 128, packing)
    steps = (1, 8 * packing, 128)
    grid = load(ref, (1, 8 * packing, 0), (2, 3, 3, *tail), steps)
    for g in np.ndindex(2, 3, 3):
        at = [1 + g[0], 8 * packing * (1 + g[1]), 128 * g[2]]
        np.testing.assert_array_equal(grid[g], load(ref, at, tail))
    order = (0, 1, 3, 5, 2, 4) if packing > 1 else (0, 1, 3, 2, 4)
    assert grid.transpose(order).flags.c_contiguous
    target = make((3, 8 * packing * 4, 384), element)
    store(target, (1, 8 * packing, 0), grid, steps)
    box = (2, 8 * packing * 3, 384)
    origin = (1, 8 * packing, 0)
    np.testing.assert_array_equal(target.load(origin, box), ref.load(origin, box))


def test_sublane_masks_strides_and_shuffles():
    ref = make((64, 128), f32)
    flat = physical(ref).view(np.float32)
    mask = (True, False, True, True, True, True, True, False)
    loaded = load(ref, (3, 0), (8, 128), (), mask, tuple(4 * s for s in range(8)))
    for s in range(8):
        if mask[s]:
            np.testing.assert_array_equal(loaded[s], flat[3 + 4 * s])
        else:
            assert np.isnan(loaded[s]).all()
    shuffle = (0, 4, 1, 5, 2, 6, 3, 7)
    loaded = load(ref, (8, 0), (8, 128), (), rows.ALL, shuffle)
    np.testing.assert_array_equal(loaded, flat[[8 + o for o in shuffle]])
    replicated = load(ref, (5, 0), (8, 128), (), rows.ALL, (0,) * 8)
    np.testing.assert_array_equal(replicated, np.broadcast_to(flat[5], (8, 128)))
    value = np.arange(1024, dtype=np.float32).reshape(8, 128)
    store(ref, (16, 0), value, (), mask, shuffle)
    for s in range(8):
        same = (flat[16 + shuffle[s]] == value[s]).all()
        assert same == mask[s]


def test_the_base_row_may_be_negative_where_sublanes_are_masked_off():
    ref = make((8, 128), f32)
    mask = (False,) * 3 + (True,) * 5
    loaded = load(ref, (-3, 0), (8, 128), (), mask)
    np.testing.assert_array_equal(loaded[3:], ref.read()[:5])
    with pytest.raises(ExecutionError, match=r"at \[-3, 0\] is outside memref of shape \[8, 128\]"):
        load(ref, (-3, 0), (8, 128))


@pytest.mark.parametrize("row", [-3, 1])
def test_the_only_row_of_a_dimension_has_no_rows_around_it(row):
    single = recast.reshape(make((4, 8, 128), f32), (4, 2, 4, 1, 128))
    mask = (False,) * 3 + (True,) * 5
    load(single, (1, 0, 0, 0, 0), (8, 128), (), mask)
    with pytest.raises(ExecutionError, match=rf"at \[1, 0, 0, {row}, 0\] is outside"):
        load(single, (1, 0, 0, row, 0), (8, 128), (), mask)


def test_registers_start_at_lane_zero():
    ref = make((8, 256), f32)
    with pytest.raises(ExecutionError) as caught:
        load(ref, (0, 5), (8, 128))
    assert caught.value.code == "unaligned-register-access"


def test_narrow_tiles_of_packed_types_interleave_columns():
    # Memory tile (8,128)(2,1): four rows of words per tile; a register holds two tiles.
    tiling = Tiling(((8, 128), (2, 1)), (2, 1))
    ref = make((16, 256), BF16, tiling)
    array = np.arange(16 * 256, dtype=np.float32).reshape(16, 256) % 251
    ref.write(array)
    loaded = load(ref, (8, 0), (8, 128, 2))
    left = array[8:16, :128].reshape(4, 2, 128).transpose(0, 2, 1)
    right = array[8:16, 128:].reshape(4, 2, 128).transpose(0, 2, 1)
    np.testing.assert_array_equal(loaded, np.concatenate([left, right]))


@pytest.mark.parametrize("element", [f32, BF16], ids=str)
def test_word_masks(element):
    packing = codec(element).packing
    ref = make((8 * packing, 128), element)
    before = ref.read()
    tail = (8, 128) if packing == 1 else (8, 128, packing)
    mask = np.arange(1024).reshape(8, 128) % 3 == 0
    store(ref, (0, 0), np.ones(tail, np.float32), mask=mask)
    chosen = np.repeat(mask, packing, axis=0)
    np.testing.assert_array_equal(ref.read(), np.where(chosen, 1, before))


def test_steps_that_skip_rows_inside_tiles():
    ref = make((64, 128), f32)
    grid = load(ref, (0, 0), (3, 1, 8, 128), (12, 128))
    flat = physical(ref).view(np.float32)
    for g in range(3):
        np.testing.assert_array_equal(grid[g, 0], flat[12 * g : 12 * g + 8])


def test_one_dimensional_arrays():
    ref = make((4096,), BF16)
    array = np.arange(4096, dtype=np.float32) % 256
    ref.write(array)
    grid = load(ref, (0,), (2, 8, 128, 2), (2048,))
    np.testing.assert_array_equal(grid.transpose(0, 1, 3, 2).reshape(-1), array)
