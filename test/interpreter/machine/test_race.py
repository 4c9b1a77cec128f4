"""The race detector: seeded races are found under every policy, correct programs are silent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import MemRefType, f32

from pallasite.diagnostics import SourceLocation
from pallasite.dialects.tpu import DMASemaphoreType, MemorySpaceAttr, SemaphoreType
from pallasite.interpreter.machine import race
from pallasite.interpreter.machine.accesses import Box, Rows
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.machine.order import Order
from pallasite.interpreter.machine.regions import span_text
from pallasite.interpreter.machine.register_access import access
from pallasite.interpreter.machine.rows import pattern
from pallasite.targets import get_target

POLICIES = ("eager", "on_wait", "random")


class Kernel:
    """What a test program works on, on one core."""

    def __init__(self, core: Core) -> None:
        self.core = core

        def array(space: str, name: str) -> Any:
            type = MemRefType(f32, (32, 128), memory_space=MemorySpaceAttr(space))
            return core.allocate(type, name)

        def semaphore(kind: Any, name: str) -> Any:
            space = MemorySpaceAttr("semaphore_mem")
            return core.allocate(MemRefType(kind, (), memory_space=space), name)

        self.source, self.target = array("any", "%source"), array("vmem", "%target")
        self.sent = semaphore(DMASemaphoreType(), "%sent")
        self.arrived = semaphore(DMASemaphoreType(), "%arrived")
        self.ready = semaphore(SemaphoreType(), "%ready")
        self.source.write(np.zeros((32, 128), np.float32))

    def copy(self, row: int = 0, rows: int = 32, line: int = 1, device: int | None = None) -> None:
        box = ((row, 0), (rows, 128))
        self.core.enqueue(
            self.source.slice(*box), self.target.slice(*box), self.arrived,
            None if device is None else self.sent, at=SourceLocation("k.py", line),
            peer=None if device is None else self.core.peer(device, None),
        )  # fmt: skip

    def wait(self, rows: int = 32) -> Any:
        return self.core.wait(self.arrived, rows * 512)

    def load(self, ref: Any, row: int = 0, rows: int = 32, line: int = 2) -> None:
        ref.load((row, 0), (rows, 128))
        assert self.core.observer is not None
        at = SourceLocation("k.py", line)
        self.core.observer.read(self.core, Box(ref, (row, 0), (rows, 128)), at)

    def store(self, ref: Any, row: int = 0, rows: int = 32, line: int = 2) -> None:
        ref.store((row, 0), np.ones((rows, 128), np.float32))
        assert self.core.observer is not None
        at = SourceLocation("k.py", line)
        self.core.observer.write(self.core, Box(ref, (row, 0), (rows, 128)), at)


def races(program: Callable[[Kernel], Any], policy: str, devices: int = 1) -> list[str]:
    machine = Machine(get_target("v5e"), devices=devices, order=Order(policy, 1), checks=("race",))
    kernels = [Kernel(core) for core in machine.cores]
    machine.run([(k.core, program(k)) for k in kernels])
    assert all(finding.code == "data-race" for finding in machine.findings)
    return sorted(f"{finding.location} {finding.notes[0].location}" for finding in machine.findings)


def test_a_pair_of_lines_is_put_into_words_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store of a row races with 40 copies of it, and every copy with those before it."""
    worded: list[str] = []

    def noted(low: int, high: int) -> str:
        worded.append(span_text(low, high))
        return worded[-1]

    monkeypatch.setattr(race, "span_text", noted)

    def program(k: Kernel) -> Any:
        for row in range(10):
            for _ in range(40):
                k.copy(row, 1, line=3)
            for line in (1, 2):
                k.store(k.target, row, 1, line)
        yield from k.wait(400)

    assert races(program, "on_wait") == ["k.py:1 k.py:3", "k.py:2 k.py:3", "k.py:3 k.py:3"]
    assert len(worded) == 3


@pytest.mark.parametrize("policy", POLICIES)
class TestOneCore:
    def test_waited_copies_are_ordered(self, policy):
        def program(k):
            for _ in range(3):
                k.store(k.source)
                k.copy()
                yield from k.wait()
                k.load(k.target)
                k.store(k.target)

        assert races(program, policy) == []

    def test_load_of_the_target_before_the_wait(self, policy):
        def program(k):
            k.copy()
            k.load(k.target)
            yield from k.wait()

        assert races(program, policy) == ["k.py:2 k.py:1"]

    def test_store_to_the_source_before_the_wait(self, policy):
        def program(k):
            k.copy()
            k.load(k.source, line=3)
            k.store(k.source)
            yield from k.wait()

        assert races(program, policy) == ["k.py:2 k.py:1"]

    def test_other_rows_may_be_used_meanwhile(self, policy):
        def program(k):
            k.copy(0, 16)
            k.store(k.target, 16, 16)
            k.load(k.target, 17, 3)
            yield from k.wait(16)
            k.copy(16, 16)
            k.store(k.target, 0, 16)
            yield from k.wait(16)

        assert races(program, policy) == []

    def test_two_copies_to_one_place(self, policy):
        def program(k):
            k.copy(line=1)
            k.copy(16, 16, line=5)
            yield from k.wait(48)

        assert races(program, policy) == ["k.py:5 k.py:1"]

    def test_masked_stores_touch_what_the_mask_selects(self, policy):
        def program(k):
            k.core.enqueue(
                k.source.slice((0, 0), (8, 64)), k.target.slice((0, 0), (8, 64)), k.arrived,
                at=SourceLocation("k.py", 1),
            )  # fmt: skip
            for line, first in ((2, 64), (3, 63)):
                mask = np.broadcast_to(np.arange(128) >= first, (8, 128))
                at = SourceLocation("k.py", line)
                k.core.observer.write(k.core, Box(k.target, (0, 0), (8, 128), mask=mask), at)
            yield from k.core.wait(k.arrived, 8 * 64 * 4)

        assert races(program, policy) == ["k.py:3 k.py:1"]


@pytest.mark.parametrize("policy", POLICIES)
class TestDevices:
    def remote(self, k, handshake: bool, early: bool = False):
        """Both devices use their target, then send to the other's."""
        peer = 1 - k.core.device.index
        k.store(k.target, line=3)
        if handshake:
            k.core.signal(k.core.peer(peer, None), k.ready, 1)
            yield from k.core.wait(k.ready, 1)
        k.copy(device=peer)
        if early:
            k.store(k.source, line=4)
        yield from k.core.wait(k.sent, 32 * 512)
        k.store(k.source, line=5)
        yield from k.core.wait(k.arrived, 32 * 512)
        k.load(k.target, line=6)

    def test_a_handshake_orders_a_remote_copy(self, policy):
        assert races(lambda k: self.remote(k, True), policy, 2) == []

    def test_a_missing_handshake_is_a_race(self, policy):
        found = races(lambda k: self.remote(k, False), policy, 2)
        assert found and set(found) <= {"k.py:1 k.py:3", "k.py:3 k.py:1"}

    @pytest.mark.parametrize("handshake", [True, False])
    def test_rows_of_a_register_are_told_apart(self, policy, handshake):
        """Device 1 sends to the first 4 rows; device 0 stores to 2 of them, and to the last 4."""

        def program(k):
            place = k.core.device.index, k.core.observer
            rows = (True, True) + (False,) * 6, (False,) * 4 + (True,) * 4
            if place[0] == 0:
                for sublanes in rows:
                    where = access(k.target, "store", (0, 0), pattern((8, 128), (), sublanes), None)
                    at = SourceLocation("k.py", 3)
                    place[1].write(k.core, Rows(k.target, where, (0, 0)), at)
                if handshake:
                    k.core.signal(k.core.peer(1, None), k.ready, 1)
                yield from k.core.wait(k.arrived, 4 * 512)
            else:
                if handshake:
                    yield from k.core.wait(k.ready, 1)
                k.copy(0, 4, device=0)
                yield from k.core.wait(k.sent, 4 * 512)

        found = set(races(program, policy, 2))
        assert found <= ({"k.py:1 k.py:3", "k.py:3 k.py:1"} if not handshake else set())
        assert handshake or found

    def test_the_source_belongs_to_the_copy_until_it_is_sent(self, policy):
        found = races(lambda k: self.remote(k, True, early=True), policy, 2)
        assert "k.py:4 k.py:1" in found

    def test_signals_are_transitive(self, policy):
        def program(k):
            me = k.core.device.index
            machine = k.core.machine
            first = machine.cores[0]
            # Device 0 writes, tells 1, which tells 2, which overwrites device 0's target.
            if me == 0:
                k.store(k.target)
            else:
                yield from k.core.wait(k.ready, 1)
            if me < 2:
                k.core.signal(machine.cores[me + 1], k.ready, 1)
            else:
                k.copy(device=0)
                yield from k.core.wait(k.sent, 32 * 512)
            if me == 0:
                yield from first.wait(k.arrived, 32 * 512)
                k.load(k.target)

        assert races(program, policy, 3) == []
