"""Kept register accesses read and write what others do, now and after memory has changed."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import BFloat16Type, Float8E5M2Type, IntegerType, f32

from pallasite.diagnostics import ExecutionError
from pallasite.interpreter.machine import register_access, rows
from pallasite.interpreter.machine.codec import codec
from pallasite.interpreter.machine.memory import Memory
from pallasite.interpreter.machine.register_access import MOST_KEPT, access
from pallasite.interpreter.machine.rows import pattern
from pallasite.interpreter.machine.views import Ref
from pallasite.layouts.tiling import native_tiling

ELEMENTS = [f32, IntegerType(32), BFloat16Type(), IntegerType(16), IntegerType(8),
            Float8E5M2Type(), IntegerType(4)]  # fmt: skip
PATTERNS = {
    "one register": ((), (), rows.ALL, rows.CONSECUTIVE),
    "a grid": ((2, 2), (1, 128), rows.ALL, rows.CONSECUTIVE),
    "half a register": ((), (), (True,) * 4 + (False,) * 4, rows.CONSECUTIVE),
    "every other row": ((), (), rows.ALL, tuple(range(0, 16, 2))),
    "rows shuffled": ((), (), rows.ALL, (3, 1, 0, 2, 7, 6, 5, 4)),
}


def make(element, seed: int, tracked: bool = True) -> Ref:
    """An array of registers; no bit pattern is a NaN."""
    shape = (8 * 32, 256)
    bits = codec(element).bits
    tiling = native_tiling(shape, bits)
    memory = Memory("vmem", 1 << 24, tracked=tracked)
    buffer = memory.allocate(tiling.elements(shape) * bits // 8, "buffer")
    words = np.random.default_rng(seed).integers(0, 1 << 30, len(buffer.bytes) // 4)
    buffer.bytes.view(np.uint32)[:] = words & 0x3B3B3B3B
    return Ref.of(buffer, element, shape, tiling)


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("tracked", [True, False])
def test_kept_accesses_do_what_others_do(tracked, name, element):
    grid, steps, sublanes, offsets = PATTERNS[name]
    packing = codec(element).packing
    steps = tuple(s if s == 128 else 8 * packing for s in steps)
    shape = (*grid, 8, 128) if packing == 1 else (*grid, 8, 128, packing)
    wanted = pattern(shape, steps, sublanes, offsets)
    assert wanted is pattern(shape, steps, sublanes, offsets)
    kept, plain, source = (make(element, seed, tracked) for seed in (0, 0, 1))
    for turn in range(3):
        index = (8 * packing * (turn % 2), 0)
        found = access(kept, "load", index, wanted, None)
        loaded = found.load(kept)
        apart = rows.plan(plain, "load", index, wanted, None)
        expected = rows.read(plain, apart, shape)
        np.testing.assert_array_equal(loaded, expected)
        assert loaded.strides == expected.strides
        assert not np.shares_memory(loaded, kept.buffer.bytes)
        taken = pattern(shape, (8 * packing, 128)[: len(grid)])
        value = access(source, "load", (8 * packing * turn, 0), taken, None).load(source)
        found.store(kept, value)
        rows.write(plain, apart, value, None, add=False)
        np.testing.assert_array_equal(kept.buffer.bytes, plain.buffer.bytes)
        np.testing.assert_array_equal(kept.buffer.shadow, plain.buffer.shadow)
        mask = np.arange(1024).reshape(8, 128) % 3 == 0
        everywhere = np.broadcast_to(mask, (*grid, 8, 128))
        found.store(kept, value, everywhere)
        rows.write(plain, apart, value, everywhere, add=False)
        np.testing.assert_array_equal(kept.buffer.bytes, plain.buffer.bytes)
    assert access(kept, "load", (0, 0), wanted, None) is access(kept, "store", (0, 0), wanted, None)


def test_a_freed_ref_is_not_read_from_what_was_kept():
    ref, wanted = make(f32, 0), pattern((8, 128))
    access(ref, "load", (0, 0), wanted, None).load(ref)
    ref.buffer.freed = True
    with pytest.raises(ExecutionError, match="after the end of its scope"):
        access(ref, "load", (0, 0), wanted, None)


def test_a_ref_keeps_a_limited_number(monkeypatch):
    monkeypatch.setattr(register_access, "MOST_KEPT", 2)
    assert MOST_KEPT > 2
    ref, wanted = make(f32, 0), pattern((8, 128))
    for row in range(0, 256, 8):
        loaded = access(ref, "load", (row, 0), wanted, None).load(ref)
        apart = rows.plan(ref, "load", (row, 0), wanted, None)
        np.testing.assert_array_equal(loaded, rows.read(ref, apart, (8, 128)))
    assert len(ref.registers) == 2
