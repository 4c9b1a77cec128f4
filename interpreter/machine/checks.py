"""The simple sanitizers: uninitialised reads and synchronisation left unfinished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pallasite.diagnostics import Note, SourceLocation
from pallasite.interpreter.machine import boxes, rows
from pallasite.interpreter.machine.dma import Transfer
from pallasite.interpreter.machine.memory import Buffer
from pallasite.interpreter.machine.observers import Observer
from pallasite.interpreter.machine.race import RaceCheck
from pallasite.interpreter.machine.regions import rows_region, span_text
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
        steps = tuple(strides or (1,) * len(shape))
        element = [int(i) + int(f) * s for i, f, s in zip(index, first, steps, strict=True)]
        count = int(written.size - np.count_nonzero(written))
        starts = tuple(a + int(b) for a, b in zip(ref.starts, index, strict=True))
        offsets = boxes.gather(ref.digits, starts, shape, steps)[~written] + ref.base
        bits = ref.codec.bits
        span = int(offsets.min()) * bits // 8, -(-(int(offsets.max()) + 1) * bits // 8)
        self._report(core, ref, f"{count} of {written.size} elements", element, span, at)

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
        empty = [[int(n) for n in register] for register in np.argwhere(~written)]
        places = [
            [int(i) + n * s for i, n, s in zip(index, register, steps, strict=True)]
            if steps else [int(i) for i in index]
            for register in empty
        ]  # fmt: skip
        single = shape[len(steps) :]
        regions = [
            rows_region(ref, rows.plan(ref, "load", place, single, (), sublanes, offsets, at))
            for place in (places[0], places[-1])
        ]
        span = min(r.low for r in regions), max(r.high for r in regions)
        self._report(core, ref, f"{count} of {written.size} registers", places[0], span, at)

    def _report(
        self,
        core: Core,
        ref: Ref,
        what: str,
        first: list[int],
        span: tuple[int, int],
        at: SourceLocation | None,
    ) -> None:
        buffer = ref.buffer
        notes = [Note("missing: a store, or a DMA that was waited for, to these bytes", at)]
        if buffer.location is not None:
            notes.append(Note(f"{buffer.title} is allocated here", buffer.location))
        self.report(
            "uninitialised-read",
            f"{core} loads {what} of {buffer.title} that were never written, the first at {first}, "
            f"within {span_text(*span)}",
            at,
            notes,
            buffer.title,
        )


class SyncCheck(Observer):
    """Finds transfers that nobody waited for and semaphores left non-zero (check `sync`)."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._left: set[Semaphore] = set()
        self._owners = {str(core): core for core in machine.cores}

    def released(self, core: Core, buffer: Buffer) -> None:
        if buffer.memory is core.semaphore_memory:
            for index in range(buffer.address // 4, (buffer.address + buffer.size) // 4):
                semaphore = core.semaphores.get(index)
                if semaphore is not None:
                    self._not_zero(semaphore, "scope")
            return
        for transfer in self.machine.engine.flying:
            target = transfer.target.buffer if not transfer.remote else None
            if transfer.target_semaphore.passed:
                continue  # A later kernel waits for it.
            if buffer is target or (buffer is transfer.source.buffer and not transfer.read):
                self._unawaited(transfer, f"when the scope of {buffer.title} ends", buffer)

    def finish(self) -> None:
        for transfer in self.machine.engine.flying:
            if not transfer.target_semaphore.passed:
                self._unawaited(transfer, "at the end of the kernel", transfer.target.buffer)
        for core in self.machine.cores:
            for semaphore in core.semaphores.values():
                self._not_zero(semaphore, "kernel")
            for unit in core.mxus.values():
                for what, at in unit.leftovers():
                    self.report("mxu-not-empty", f"{what} by the end of the kernel", at)

    def _not_zero(self, semaphore: Semaphore, end: str) -> None:
        if semaphore.value and not semaphore.passed and semaphore not in self._left:
            self._left.add(semaphore)
            notes = [Note(f"missing: a wait by {semaphore.owner} for {semaphore.value} on it")]
            if semaphore.location is not None:
                notes.append(Note("the semaphore is allocated here", semaphore.location))
            self.report(
                "semaphore-not-zero",
                f"{semaphore} holds {semaphore.value} at the end of the {end}; "
                f"{semaphore.credited_by or 'somebody'} added to it last",
                semaphore.credited_at or semaphore.location,
                notes,
                str(semaphore),
            )

    def _unawaited(self, transfer: Transfer, when: str, buffer: Buffer) -> None:
        semaphore = transfer.target_semaphore
        notes = [
            Note(
                f"missing: a wait by {semaphore.owner} for {transfer.target_amount} on {semaphore}"
            )
        ]
        if buffer.location is not None:
            notes.append(Note(f"{buffer.title} is allocated here", buffer.location))
        self.report(
            "unawaited-dma",
            f"{transfer.describe()} is still in flight {when}",
            transfer.location,
            notes,
        )

    def signal(
        self, core: Core, semaphore: Semaphore, amount: int, at: SourceLocation | None
    ) -> None:
        self._too_late(core, semaphore, "signals", at)

    def dma_start(self, transfer: Transfer) -> None:
        if transfer.remote:
            at = transfer.location
            self._too_late(
                transfer.sender, transfer.target_semaphore, "sends a DMA that signals", at
            )

    def _too_late(
        self, core: Core, semaphore: Semaphore, verb: str, at: SourceLocation | None
    ) -> None:
        owner = self._owners[semaphore.owner]
        if owner.finished:
            self.report(
                "signal-after-end",
                f"{core} {verb} {semaphore}, but {owner} has finished",
                at,
                [Note(f"missing: a wait on it by {owner} before its end", semaphore.location)],
            )


CHECKS: dict[str, type[Observer]] = {"init": InitCheck, "race": RaceCheck, "sync": SyncCheck}
"""Checks that are observers. `bounds` needs none: every access is always checked.

Register accesses are checked against their buffer only: register forms fold offsets into slices and
then address what lies beyond the slice, as the old C++ passes did.
"""
