"""Arrays of a call go to memory and come back bit by bit, whatever they hold and however tiled."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import MemRefType, bf16, f16, f32, i8, i32
from xdsl.ir import Attribute

from pallasite.dialects.tpu import MemorySpaceAttr
from pallasite.interpreter.arrays import element_named
from pallasite.interpreter.machine.copies import copy_elements, read_array, same_bits, write_array
from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.machine.views import Ref
from pallasite.layouts.tiling import Tiling
from pallasite.targets import get_target

F8 = element_named("float8_e5m2")
KINDS = [
    (f32, np.float32), (bf16, ml_dtypes.bfloat16), (f16, np.float16), (i32, np.int32),
    (i8, np.uint8), (F8, ml_dtypes.float8_e5m2),
]  # fmt: skip


def in_hbm(shape: tuple[int, ...], element: Attribute, checks: tuple[str, ...] = ()) -> Ref:
    core = Machine(get_target("v5e"), checks=checks).cores[0]
    type = MemRefType(element, shape, memory_space=MemorySpaceAttr("hbm"))
    return core.allocate(type, "x", argument=True)


@pytest.mark.parametrize(
    "shape", [(), (7,), (300,), (16, 256), (3, 20, 130), (2, 1, 5, 128), (64, 384)]
)
@pytest.mark.parametrize(("element", "dtype"), KINDS)
def test_every_bit_pattern_survives(shape: tuple[int, ...], element: Attribute, dtype: Any) -> None:
    count = max(int(np.prod(shape)), 1) * np.dtype(dtype).itemsize
    # Among them are NaNs whose payload no cast would keep.
    noise = np.random.default_rng(0).integers(0, 256, count, np.uint8)
    noise[: count // 2] |= 0x7C
    array = noise.view(dtype).reshape(shape)
    ref = in_hbm(shape, element)
    assert same_bits(array.dtype, ref)
    write_array(array, ref)
    out = np.empty(shape, dtype)
    read_array(ref, out)
    assert out.tobytes() == array.tobytes()
    held = ref.read()
    np.testing.assert_array_equal(held, array.astype(held.dtype))


def test_arrays_need_not_be_contiguous() -> None:
    array = np.arange(16 * 256, dtype=np.float32).reshape(256, 16).T
    ref = in_hbm((16, 256), f32)
    write_array(array, ref)
    np.testing.assert_array_equal(ref.read(), array)


@pytest.mark.parametrize("element", [bf16, i8])
def test_what_is_read_is_not_what_is_written_meanwhile(element: Attribute) -> None:
    tiled = in_hbm((64, 256), element)
    rows = Ref.of(tiled.buffer, element, tiled.shape, Tiling((), (256, 1)))
    for source, target in ((rows, tiled), (tiled, rows)):
        noise = np.random.default_rng(0).integers(-100, 100, tiled.shape)
        source.write(noise.astype(tiled.codec.carrier))
        copy_elements(source, target)
        np.testing.assert_array_equal(target.read(), noise)


def test_booleans_and_narrow_integers_are_converted() -> None:
    assert not same_bits(np.dtype(np.bool_), in_hbm((3,), i8))
    four = element_named("int4")
    assert not same_bits(np.dtype(ml_dtypes.int4), in_hbm((128,), four))


def test_an_array_counts_as_written() -> None:
    ref = in_hbm((16, 256), bf16, checks=("init",))
    box = (0, 0), (16, 256)
    assert ref.initialised(*box) is not None
    write_array(np.ones((16, 256), ml_dtypes.bfloat16), ref)
    assert ref.initialised(*box) is None


def test_a_buffer_that_is_written_at_once_is_not_filled_before() -> None:
    ref = in_hbm((16, 256), f32)
    before = ref.buffer.memory.host.used if ref.buffer.memory.host else 0
    ref.buffer.unfilled()
    assert len(ref.buffer.bytes) == ref.buffer.size
    assert ref.buffer.memory.host is not None
    assert ref.buffer.memory.host.used == before + ref.buffer.size
