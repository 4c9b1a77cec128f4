"""Copies within a core that nobody observes land as all others do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import Float16Type, MemRefType, f32
from xdsl.ir import Attribute

from pallasite.diagnostics import ExecutionError
from pallasite.dialects.tpu import DMASemaphoreType, MemorySpaceAttr
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.machine.views import Ref
from pallasite.targets import get_target

V5E = get_target("v5e")
ROWS = 64


def made(core: Core, space: str, element: Attribute = f32, shape: Sequence[int] = (8, 128)) -> Ref:
    return core.allocate(MemRefType(element, shape, memory_space=MemorySpaceAttr(space)))


def start(core: Core, source: Ref, target: Ref, semaphore: Ref, plain: bool) -> None:
    if plain:
        core.start(source, target, semaphore, target.byte_count, None)
    else:
        core.enqueue(source, target, semaphore)


def run(core: Core, seed: int, plain: bool) -> object:
    """What a program leaves that starts copies of rows and waits for them, as `seed` says."""
    random = np.random.default_rng(seed)
    source, target = (made(core, space, shape=(ROWS, 128)) for space in ("any", "vmem"))
    semaphores = made(core, "semaphore_mem", DMASemaphoreType(), (3,))
    source.write(random.standard_normal((ROWS, 128)).astype(np.float32))
    counts = [semaphores.slice((n,), (1,)).keep(()) for n in range(3)]
    owed = [0, 0, 0]
    seen: list[bytes] = []

    def program():
        for _ in range(40):
            which, rows = int(random.integers(3)), int(random.integers(1, 9))
            row, place = (int(n) for n in random.integers(0, ROWS - 8, 2))
            box = target.slice((place, 0), (rows, 128))
            start(core, source.slice((row, 0), (rows, 128)), box, counts[which], plain)
            owed[which] += box.byte_count
            which, part = int(random.integers(3)), int(random.integers(1, 5))
            # Part of what is in flight, of which the newest lands first.
            amount = owed[which] // part
            owed[which] -= amount
            yield from core.wait(counts[which], amount)
            seen.append(target.read().tobytes())
        for count, amount in zip(counts, owed, strict=True):
            yield from core.wait(count, amount)

    core.machine.run([(core, program())])
    engine = core.machine.engine
    assert not engine.flying and not any(core.semaphore(count).value for count in counts)
    return seen, target.read().tobytes(), engine.started, engine.bits


@pytest.mark.parametrize("seed", range(4))
def test_they_land_in_the_same_order(seed: int) -> None:
    plain, other = (run(Machine(V5E).cores[0], seed, plain) for plain in (True, False))
    assert plain == other


def error(element: Attribute, freed: bool, shape: Sequence[int], plain: bool) -> ExecutionError:
    """What a copy says to a target of other elements, of another shape or that is gone."""
    core = Machine(V5E).cores[0]
    source, semaphore = made(core, "any"), made(core, "semaphore_mem", DMASemaphoreType(), ())
    token = core.mark()
    target = made(core, "vmem", element, shape)

    def program():
        start(core, source, target, semaphore, plain)
        if freed:
            core.release(token)
        yield from core.wait(semaphore, target.byte_count)

    with pytest.raises(ExecutionError) as caught:
        core.machine.run([(core, program())])
    return caught.value


@pytest.mark.parametrize(
    "element, freed, shape",
    [(Float16Type(), False, (8, 128)), (f32, True, (8, 128)), (f32, False, (16, 128))],
)
def test_what_is_wrong_is_told_alike(element: Attribute, freed: bool, shape: list[int]) -> None:
    plain, other = (error(element, freed, shape, plain) for plain in (True, False))
    assert (plain.code, plain.message) == (other.code, other.message)
