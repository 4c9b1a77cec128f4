"""Allocation: capacity, who owns what, scopes, peaks."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import MemRefType, f32

from pallasite.diagnostics import ExecutionError, SourceLocation
from pallasite.dialects.tpu import MemorySpaceAttr
from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.machine.memory import Memory
from pallasite.targets import get_target


def test_exhaustion_lists_the_owners():
    memory = Memory("vmem", 8192, "core 0")
    memory.allocate(4096, "%acc", SourceLocation("k.py", 3))
    memory.allocate(1000, "%x")
    with pytest.raises(ExecutionError) as caught:
        memory.allocate(4096, "%y", SourceLocation("k.py", 9))
    error = caught.value
    assert error.code == "vmem-exhausted"
    assert str(error.location) == "k.py:9"
    assert "vmem of core 0 has 8192 bytes, 5120 in use, cannot allocate 4096 more" in error.message
    assert [n.message for n in error.notes] == ["%acc holds 4096 bytes", "%x holds 1024 bytes"]


def test_scopes_return_memory_and_the_peak_stays():
    core = Machine(get_target("v5e")).cores[0]
    tile = MemRefType(f32, (16, 128), memory_space=MemorySpaceAttr("vmem"))
    outer = core.allocate(tile)
    token = core.mark()
    inner = core.allocate(tile)
    assert core.vmem.used_bytes == 2 * 8192
    core.release(token)
    assert (core.vmem.used_bytes, core.vmem.peak_bytes) == (8192, 16384)
    outer.read()
    with pytest.raises(ExecutionError, match="after the end of its scope"):
        inner.read()
    again = core.allocate(tile)
    assert again.address == inner.address


def test_internal_scratch_outlives_scopes():
    core = Machine(get_target("v5e")).cores[0]
    type = MemRefType(f32, (72, 128), memory_space=MemorySpaceAttr("vmem"))
    token = core.mark()
    first = core.internal_scratch(type)
    core.release(token)
    assert core.internal_scratch(type) is first
    first.read()


def test_small_arrays_are_padded_to_tiles():
    core = Machine(get_target("v5e")).cores[0]
    core.allocate(MemRefType(f32, (9, 129), memory_space=MemorySpaceAttr("vmem")))
    assert core.vmem.used_bytes == 16 * 256 * 4


def test_hbm_belongs_to_the_device():
    machine = Machine(get_target("v4"), devices=2, cores=2)
    type = MemRefType(f32, (8, 128), memory_space=MemorySpaceAttr("any"))
    first = machine.devices[1].cores[0].allocate(type)
    second = machine.devices[1].cores[1].allocate(type)
    assert first.address != second.address
    assert machine.devices[0].hbm.used_bytes == 0
