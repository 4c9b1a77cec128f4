"""Thousands of copies may be in flight, and each costs as much as the first."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import MemRefType, f32

from pallasite.diagnostics import ExecutionError
from pallasite.dialects.tpu import DMASemaphoreType, MemorySpaceAttr
from pallasite.interpreter.machine import dma_rules
from pallasite.interpreter.machine.machine import Machine
from pallasite.targets import get_target

ROWS = 5000


class Copies:
    """Rows of `new` and of `old`, which shares its memory with an output, copied to the latter."""

    def __init__(self, checks: tuple[str, ...] = ()) -> None:
        self.machine = Machine(get_target("v5e"), checks=checks)
        (self.core,) = self.machine.cores
        rows = MemRefType(f32, (ROWS, 128), memory_space=MemorySpaceAttr("any"))
        self.new, self.shared = self.core.allocate(rows, "%new"), self.core.allocate(rows, "%old")
        self.shared.buffer.aliased = True
        space = MemorySpaceAttr("semaphore_mem")
        self.sem = self.core.allocate(MemRefType(DMASemaphoreType(), (), memory_space=space))
        self.numbers = np.arange(ROWS * 128, dtype=np.float32).reshape(ROWS, 128)
        self.new.write(self.numbers)

    def row(self, array: Any, number: int) -> Any:
        return array.slice((number, 0), (1, 128)).keep((1,))

    def start(self, source: Any, target: Any) -> None:
        self.core.enqueue(source, target, self.sem, None, at=None, peer=None)

    def all(self) -> Generator[Any, Any, None]:
        for number in range(ROWS):
            self.start(self.row(self.new, number), self.row(self.shared, number))
        for _ in range(ROWS):
            yield from self.core.wait(self.sem, 512)


@pytest.mark.parametrize("checks", [(), ("race", "sync")])
def test_rows_go_to_an_aliased_output(
    checks: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[Any] = []

    def noted(*pair: Any) -> None:
        compared.append(pair)

    monkeypatch.setattr(dma_rules, "_compare", noted)
    copies = Copies(checks)
    copies.machine.run([(copies.core, copies.all())])
    assert (copies.shared.read() == copies.numbers).all()
    assert not copies.machine.findings and not compared


@pytest.mark.parametrize("reads_first", [False, True])
def test_what_reads_the_alias_of_what_is_written_is_refused(reads_first: bool) -> None:
    copies = Copies()
    one, other = copies.row(copies.shared, 1), copies.row(copies.shared, 2)
    read = copies.row(copies.shared, 1), copies.row(copies.new, 1)
    written = copies.row(copies.new, 0), one
    copies.start(copies.row(copies.new, 3), other)
    first, second = (read, written) if reads_first else (written, read)
    copies.start(*first)
    with pytest.raises(ExecutionError) as caught:
        copies.start(*second)
    assert caught.value.code == "broken-promise"
