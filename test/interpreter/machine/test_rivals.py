"""Findings about a transfer while another one that counts on its semaphore is in flight."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import MemRefType, f32

from pallasite.diagnostics import SourceLocation
from pallasite.dialects.tpu import DMASemaphoreType, MemorySpaceAttr
from pallasite.interpreter.machine.accesses import Box
from pallasite.interpreter.machine.machine import Machine
from pallasite.targets import get_target

BYTES = 8 * 128 * 4


def ref(core, name, shape, space, element=f32, argument=False):
    return core.allocate(
        MemRefType(element, shape, memory_space=MemorySpaceAttr(space)), name, argument=argument
    )


def findings(check: str, semaphores: int, waits: int):
    """Two copies start, at kernel.py:1 and kernel.py:2; the target of the first is loaded."""
    machine = Machine(get_target("v5e"), checks=(check,))
    (core,) = machine.cores
    source = ref(core, "%x", (16, 128), "any", argument=True)
    source.write(np.zeros((16, 128), np.float32))
    target = ref(core, "%buffer", (16, 128), "vmem")
    done = [ref(core, "%done", (), "semaphore_mem", DMASemaphoreType()) for _ in range(semaphores)]

    def program():
        for n, row in enumerate((0, 8)):
            parts = (r.slice((row, 0), (8, 128)) for r in (source, target))
            core.enqueue(*parts, done[n % semaphores], at=SourceLocation("kernel.py", n + 1))
        for n in range(waits):
            yield from core.wait(done[n % semaphores], BYTES)
        core.observer.read(core, Box(target, (0, 0), (8, 128)), SourceLocation("kernel.py", 4))

    machine.run([(core, program())])
    return machine.findings


@pytest.mark.parametrize("check", ["race", "init"])
def test_a_wait_that_may_be_for_another_transfer(check):
    (found,) = findings(check, 1, 1)
    rival, advice = [
        note
        for note in found.notes
        if "either may land" in note.message or "of its own" in note.message
    ]
    assert str(rival.location) == "kernel.py:2" and "same semaphore" in rival.message
    assert "pltpu.SemaphoreType.DMA((2,))" in advice.message


@pytest.mark.parametrize("check", ["race", "init"])
@pytest.mark.parametrize(("semaphores", "waits"), [(2, 1), (1, 2)])
def test_both_ways_out(check, semaphores, waits):
    assert not findings(check, semaphores, waits)


@pytest.mark.parametrize("check", ["race", "init"])
def test_no_rival_on_a_semaphore_of_its_own(check):
    (found,) = findings(check, 2, 0)
    assert not any("same semaphore" in note.message for note in found.notes)
