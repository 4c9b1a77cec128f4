"""The simple sanitizers: uninitialised reads and synchronisation left unfinished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pallasite.diagnostics import Note, SourceLocation
from pallasite.interpreter.machine import rows
from pallasite.interpreter.machine.memory import Buffer
from pallasite.interpreter.machine.observers import Observer
from pallasite.interpreter.machine.race import RaceCheck
from pallasite.interpreter.machine.views import Ref

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core, Machine
    from pallasite.interpreter.machine.semaphores import Semaphore


class InitCheck(Observer):
    """Finds loads of elements that nobody has written (check `init`).

    A register load takes whole tiles, of which a kernel may need only a part: it is reported when a
    register has no written element at all.
    """

    def read(
        self,
        core: Core,
        ref: Ref,
        index: Sequence[int],
        shape: tuple[int, ...],
        strides: Sequence[int] | None,
        at: SourceLocation | None,
    ) -> None:
        written = ref.initialised(index, shape, strides)
        if written is None or written.all():
            return
        first = np.argwhere(~written)[0]
        steps = strides or (1,) * len(shape)
        element = [int(i) + int(f) * s for i, f, s in zip(index, first, steps, strict=True)]
        count = int(written.size - np.count_nonzero(written))
        self._report(core, ref, f"{count} of {written.size} elements", element, at)

    def read_rows(
        self,
        core: Core,
        ref: Ref,
        index: Sequence[int],
        shape: tuple[int, ...],
        steps: tuple[int, ...],
        sublanes: tuple[bool, ...],
        offsets: tuple[int, ...],
        at: SourceLocation | None,
    ) -> None:
        written = rows.initialised(ref, index, shape, steps, sublanes, offsets, at)
        if written is None or written.all():
            return
        count = int(written.size - np.count_nonzero(written))
        first = np.argwhere(~written)[0]
        element = [int(i) for i in index]
        if steps:
            element = [i + int(f) * s for i, f, s in zip(element, first, steps, strict=True)]
        self._report(core, ref, f"{count} of {written.size} registers", element, at)

    def _report(
        self, core: Core, ref: Ref, what: str, first: list[int], at: SourceLocation | None
    ) -> None:
        buffer = ref.buffer
        self.report(
            "uninitialised-read",
            f"{core} loads {what} of {buffer.name or buffer.memory.kind} that were never written, "
            f"the first at {first}",
            at,
            [Note("allocated here", buffer.location)] if buffer.location else (),
        )


class SyncCheck(Observer):
    """Finds transfers that nobody waited for and semaphores left non-zero (check `sync`)."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._left: set[Semaphore] = set()

    def released(self, core: Core, buffer: Buffer) -> None:
        if buffer.memory is core.semaphore_memory:
            for index in range(buffer.address // 4, (buffer.address + buffer.size) // 4):
                semaphore = core.semaphores.get(index)
                if semaphore is not None:
                    self._not_zero(semaphore, "scope")
            return
        for transfer in self.machine.engine.flying:
            target = transfer.target.buffer if not transfer.remote else None
            if buffer is target or (buffer is transfer.source.buffer and not transfer.read):
                self.report(
                    "unawaited-dma",
                    f"{transfer.describe()} is still in flight when the scope of "
                    f"{buffer.name or 'its buffer'} ends",
                    transfer.location,
                )

    def finish(self) -> None:
        for transfer in self.machine.engine.flying:
            self.report(
                "unawaited-dma",
                f"{transfer.describe()} is still in flight at the end of the kernel",
                transfer.location,
            )
        for core in self.machine.cores:
            for semaphore in core.semaphores.values():
                self._not_zero(semaphore, "kernel")
            for unit in core.mxus.values():
                for what, at in unit.leftovers():
                    self.report("mxu-not-empty", f"{what} by the end of the kernel", at)

    def _not_zero(self, semaphore: Semaphore, end: str) -> None:
        if semaphore.value and semaphore not in self._left:
            self._left.add(semaphore)
            self.report(
                "semaphore-not-zero",
                f"{semaphore} holds {semaphore.value} at the end of the {end}",
                semaphore.location,
            )


CHECKS: dict[str, type[Observer]] = {"init": InitCheck, "race": RaceCheck, "sync": SyncCheck}
"""Checks that are observers. `bounds` needs none: every access is always checked.

Register accesses are checked against their buffer only: register forms fold offsets into slices and
then address what lies beyond the slice, as the old C++ passes did.
"""
