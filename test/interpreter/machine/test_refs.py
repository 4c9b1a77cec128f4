"""Refs against NumPy: boxes, strides, masks, views, for every element width."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    IntegerType,
    f32,
    i1,
)

from pallasite.diagnostics import ExecutionError, SourceLocation
from pallasite.interpreter.machine.codec import codec
from pallasite.interpreter.machine.memory import Memory
from pallasite.interpreter.machine.recast import bitcast, reinterpret, reshape
from pallasite.interpreter.machine.views import MOST_VIEWS, Part, Ref
from pallasite.layouts.tiling import Tiling, contiguous_strides, infer_tiling, native_tiling

BF16 = BFloat16Type()
ELEMENTS = [
    f32, BF16, Float16Type(), Float8E4M3FNType(), Float8E5M2Type(), i1,
    *(IntegerType(bits) for bits in (32, 16, 8, 4, 2)),
]  # fmt: skip


def make(shape, element, tiling=None, **flags) -> Ref:
    memory = Memory("vmem", 1 << 26)
    bits = codec(element).bits
    tiling = tiling or infer_tiling(shape, bits)
    buffer = memory.allocate(-(-tiling.elements(shape) * bits // 8), "buffer", **flags)
    return Ref.of(buffer, element, shape, tiling)


def numbers(shape, element, seed=0) -> np.ndarray:
    random = np.random.default_rng(seed)
    carrier = codec(element).carrier
    if carrier == np.bool_:
        return random.integers(0, 2, shape).astype(np.bool_)
    # Values that every type holds exactly; i2 has only four.
    low, high = (-2, 2) if codec(element).bits == 2 else (-8, 8)
    return random.integers(low, high, shape).astype(carrier)


def layouts(shape, bits):
    untiled = Tiling((), contiguous_strides(shape, ()))
    inferred = infer_tiling(shape, bits)
    return [native_tiling(shape, bits), inferred, untiled]


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
@pytest.mark.parametrize("shape", [(300,), (40, 300), (3, 24, 130), (8, 128), (1, 1)])
def test_what_is_written_is_read(element, shape):
    for tiling in layouts(shape, codec(element).bits):
        ref = make(shape, element, tiling)
        array = numbers(shape, element)
        ref.write(array)
        np.testing.assert_array_equal(ref.read(), array)
        assert ref.read().dtype == array.dtype


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(ELEMENTS), st.sampled_from([(300,), (40, 300), (3, 24, 130)]), st.data())
def test_random_boxes_with_strides_and_masks(element, shape, data):
    ref = make(shape, element, data.draw(st.sampled_from(layouts(shape, codec(element).bits))))
    array = numbers(shape, element)
    ref.write(array)
    steps = tuple(data.draw(st.sampled_from([1, 1, 2, 3])) for _ in shape)
    starts = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
    sizes = tuple(
        data.draw(st.integers(1, 1 + (n - 1 - s) // k))
        for n, s, k in zip(shape, starts, steps, strict=True)
    )
    box = tuple(
        slice(s, s + (n - 1) * k + 1, k) for s, n, k in zip(starts, sizes, steps, strict=True)
    )
    np.testing.assert_array_equal(ref.load(starts, sizes, steps), array[box])
    new = numbers(sizes, element, seed=1)
    mask = numbers(sizes, i1, seed=2) if data.draw(st.booleans()) else None
    ref.store(starts, new, mask, steps)
    array[box] = new if mask is None else np.where(mask, new, array[box])
    np.testing.assert_array_equal(ref.read(), array)


def test_stride_zero_reads_one_element_again():
    ref = make((16, 128), f32)
    array = numbers((16, 128), f32)
    ref.write(array)
    loaded = ref.load((3, 0), (8, 128), (0, 1))
    np.testing.assert_array_equal(loaded, np.broadcast_to(array[3], (8, 128)))


def test_bf16_keeps_every_bit_pattern():
    ref = make((512, 128), BF16)
    patterns = np.arange(1 << 16, dtype=np.uint32).reshape(512, 128)
    ref.write((patterns << 16).view(np.float32))
    np.testing.assert_array_equal(ref.read().view(np.uint32) >> 16, patterns)
    raw = np.concatenate([ref.load((r, 0), (1, 128)) for r in range(512)])
    np.testing.assert_array_equal(raw.view(np.uint32) >> 16, patterns)


def test_add_rounds_to_the_element_type():
    ref = make((16, 128), BF16)
    ref.write(np.full((16, 128), 256, np.float32))
    ref.store((0, 0), np.full((16, 128), 1, np.float32), add=True)
    np.testing.assert_array_equal(ref.read(), 256)


def test_scalars():
    ref = make((7,), IntegerType(32))
    ref.store_scalar((3,), -5)
    assert ref.load_scalar((3,)) == -5
    value = make((2, 2), f32, zero=True).load_scalar((1, 1))
    assert value == 0 and isinstance(value, np.float32)


def test_scalars_are_inside():
    ref = make((7, 300), IntegerType(32)).slice((2, 5), (3, 200))
    ref.write(numbers((3, 200), IntegerType(32)))
    for index in ((3, 0), (0, 200), (-1, 0)):
        with pytest.raises(ExecutionError, match="outside"):
            ref.load_scalar(index)
        with pytest.raises(ExecutionError, match="outside"):
            ref.store_scalar(index, 1)
    for index in ((0, 0), (2, 199), (1, 130)):
        assert ref.load_scalar(index) == ref.read()[index]
        ref.store_scalar(index, 77)
        assert ref.read()[index] == 77


def test_the_latest_views_are_remembered():
    count = MOST_VIEWS + 10
    ref = make((8 * count, 128), f32)
    views = [ref.slice((8 * k, 0), (8, 128)) for k in range(count)]
    assert ref.slice((8 * (count - 1), 0), (8, 128)) is views[-1]
    assert ref.slice((0, 0), (8, 128)) is not views[0]
    assert len(ref.views) == MOST_VIEWS


def test_fresh_memory_is_poison():
    assert np.isnan(make((8, 128), f32).read()).all()
    assert np.isnan(make((16, 128), BF16).read()).all()


@pytest.mark.parametrize("element", [f32, BF16, IntegerType(8), IntegerType(4)], ids=str)
def test_slices_of_slices(element):
    ref = make((4, 64, 300), element)
    array = numbers((4, 64, 300), element)
    ref.write(array)
    view = ref.slice((2, 5, 17), (1, 50, 200)).keep((1, 2)).slice((3, 100), (7, 90))
    np.testing.assert_array_equal(view.read(), array[2, 8:15, 117:207])
    row = ref.slice((1, 9, 0), (1, 1, 300)).keep((2,))
    np.testing.assert_array_equal(row.read(), array[1, 9])
    row.write(array[0, 0])
    np.testing.assert_array_equal(ref.read()[1, 9], array[0, 0])


@pytest.mark.parametrize("element", [f32, BF16, IntegerType(4)], ids=str)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_parts_are_slices_of_which_dimensions_are_kept(element, data):
    shape = data.draw(st.sampled_from([(4, 3, 20, 200), (5, 40, 130), (6, 300), (7,)]))
    whole = make(shape, element)
    sizes = tuple([data.draw(st.sampled_from([1, n, n // 2])) for n in shape])
    kept = tuple([d for d, n in enumerate(sizes) if n != 1 or data.draw(st.booleans())])
    part = Part(sizes, kept)
    # The part of whole refs, of others that lie alike, and of those that do not.
    half = tuple([n - n // 2 for n in shape])
    refs = [whole, make(shape, element), whole.slice([n // 2 for n in shape], half), whole]
    for ref in refs:
        places = [
            st.integers(0, max(n - size, 0)) | st.integers(-1, n + 1)
            for n, size in zip(ref.shape, sizes, strict=True)
        ]
        starts = tuple([data.draw(place) for place in places])
        try:
            expected = ref.slice(starts, sizes).keep(kept)
        except ExecutionError as error:
            with pytest.raises(ExecutionError) as caught:
                part.of(ref, *starts)
            assert str(caught.value) == str(error)
            continue
        found = part.of(ref, *starts)
        for name in ("buffer", "shape", "digits", "starts", "base", "blocks", "ends", "bit_count"):
            assert getattr(found, name) == getattr(expected, name), name


def test_a_slice_without_elements_may_be_anywhere():
    whole = make((16, 128), f32)
    assert whole.slice((-32, 0), (0, 128)).shape == (0, 128)
    assert whole.slice((40, 4), (8, 0)).shape == (8, 0)
    with pytest.raises(ExecutionError):
        whole.slice((0, 0), (-1, 0))


def test_a_slice_may_end_in_the_padding_of_the_last_tile():
    ref = make((20, 128), f32)
    assert ref.slice((16, 0), (8, 128)).shape == (8, 128)
    with pytest.raises(ExecutionError, match="outside memref"):
        ref.slice((13, 0), (8, 128))
    with pytest.raises(ExecutionError, match="outside memref"):
        ref.slice((16, 0), (9, 128))


def test_reshape_merges_and_splits_leading_dimensions():
    ref = make((16, 2, 128), f32)
    array = numbers((16, 2, 128), f32)
    ref.write(array)
    np.testing.assert_array_equal(reshape(ref, (32, 128)).read(), array.reshape(32, 128))
    deep = make((4, 16, 100), BF16)
    other = numbers((4, 16, 100), BF16)
    deep.write(other)
    np.testing.assert_array_equal(reshape(deep, (64, 100)).read(), other.reshape(64, 100))
    np.testing.assert_array_equal(reshape(deep, (2, 2, 16, 100)).read()[1, 1], other[3])
    with pytest.raises(ExecutionError, match="no reshape"):
        reshape(make((4, 12, 200), f32), (48, 200))


def test_bitcast_rescales_rows():
    ref = make((16, 256), f32)
    words = np.arange(16 * 256, dtype=np.int32).reshape(16, 256) + (7 << 16)
    bitcast(ref, (16, 256), IntegerType(32)).write(words)
    halves = bitcast(ref, (32, 256), IntegerType(16))
    loaded = halves.read()
    np.testing.assert_array_equal(loaded[0::2], words.astype(np.int16))
    np.testing.assert_array_equal(loaded[1::2], words >> 16)
    quarter = bitcast(halves, (64, 256), IntegerType(8))
    np.testing.assert_array_equal(quarter.read()[0::4], words.astype(np.int8))
    back = bitcast(quarter.slice((8, 0), (16, 256)), (4, 256), IntegerType(32))
    np.testing.assert_array_equal(back.read(), words[2:6])


def test_reinterpret_single_rows():
    ref = make((20, 128), f32)
    array = numbers((20, 128), f32)
    ref.write(array)
    single = reinterpret(ref, (20, 128), f32, Tiling(((1, 128),), (1, 1)))
    np.testing.assert_array_equal(single.read(), array)
    with pytest.raises(ExecutionError, match="no reinterpret"):
        reinterpret(ref, (25, 128), f32, Tiling(((1, 128),), (1, 1)))


def test_out_of_bounds_names_index_shape_and_place():
    ref = make((16, 128), f32)
    at = SourceLocation("kernel.py", 12)
    with pytest.raises(ExecutionError) as caught:
        ref.load((9, 0), (8, 128), None, at)
    assert caught.value.code == "out-of-bounds"
    assert caught.value.location == at
    assert "load of shape [8, 128] at [9, 0] is outside memref of shape [16, 128]" in str(
        caught.value
    )
    with pytest.raises(ExecutionError):
        ref.store((-1, 0), np.zeros((1, 128), np.float32))
    with pytest.raises(ExecutionError):
        ref.load((0, 0), (9, 128), (2, 1))


def test_tracking_marks_what_was_written():
    ref = make((16, 128), BF16)
    ref.buffer.track()
    ref.store((3, 5), np.zeros((2, 7), np.float32))
    marks = ref.initialised((0, 0), (16, 128))
    assert marks is not None and marks.sum() == 14 and marks[3:5, 5:12].all()
