"""The simple sanitizers: uninitialised reads and synchronisation left unfinished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallasite.diagnostics import UNINITIALISED, Note, SourceLocation, allocation
from pallasite.interpreter.machine.accesses import Access
from pallasite.interpreter.machine.dma import Transfer
from pallasite.interpreter.machine.memory import Buffer
from pallasite.interpreter.machine.observers import Observer
from pallasite.interpreter.machine.race import RaceCheck
from pallasite.interpreter.machine.regions import span_text, whole_region
from pallasite.interpreter.machine.rivals import rival_notes

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core
    from pallasite.interpreter.machine.machine import Machine
    from pallasite.interpreter.machine.semaphores import Semaphore


FIRST_STORE = Note(
    "memory begins undefined, a block of an output also where its array is an input's, whose ref "
    "has what it held: what a kernel adds to it sets first, in a grid in the first step, under "
    "@pl.when(pl.program_id(axis) == 0)"
)


_WRITTEN = (
    "missing: a store, or a DMA that was waited for, to these bytes, or to those that they were "
    "copied from"
)
_AS_MUCH = (
    "wait for as much as comes: pl.semaphore_wait(sem, n) for signals of n in all, copy.wait() for "
    "each copy, copy.wait_recv() where one arrives"
)
_STARTED = "wait for every copy that is started: copy.wait()"
_PROLOGUE = "ep_initialize_"
"""What JAX's pipelines call the part that fetches blocks before the first step."""
_AHEAD = (
    "a pipeline with pl.Buffered(n) fetches n - 1 blocks before its first step, however few steps "
    "there are: write at most one buffer more than steps, or pl.Buffered(n, use_lookahead=True)"
)


class InitCheck(Observer):
    """Finds loads of elements that nobody has written (check `init`)."""

    def read(self, core: Core, access: Access, at: SourceLocation | None) -> None:
        found = access.unwritten()
        if found is None:
            return
        buffer = access.ref.buffer
        notes = [Note(_WRITTEN, at)]
        notes += self._coming(core, access) or [FIRST_STORE]
        notes += allocation(buffer.title, buffer.location)
        self.report(
            UNINITIALISED,
            f"{core} loads {found.amount} of {buffer.title} that were never written, the first at "
            f"{found.first}, within {span_text(*found.span)}",
            at,
            notes,
            buffer.title,
        )

    def add(self, core: Core, access: Access, at: SourceLocation | None) -> None:
        self.read(core, access, at)

    def _coming(self, core: Core, access: Access) -> list[Note]:
        """Of a transfer in flight that writes some of them, where it started."""
        buffer = access.ref.buffer
        for transfer in self.machine.engine.flying:
            target = transfer.target
            if transfer.receiver is not core or target.buffer.address != buffer.address:
                continue
            if target.buffer.memory.kind != buffer.memory.kind:
                continue
            if whole_region(target).overlaps(access.region()):
                semaphore, amount = transfer.target_semaphore, transfer.target_amount
                return [
                    Note(
                        f"{transfer.describe()} writes there: wait for it before, "
                        f"for {semaphore.amount(amount)} on {semaphore}",
                        transfer.location,
                    ),
                    *rival_notes(transfer),
                ]
        return []


class SyncCheck(Observer):
    """Finds transfers that nobody waited for and semaphores left non-zero (check `sync`)."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._left: set[Semaphore] = set()
        self._ahead: set[Transfer] = set()
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
            notes = [
                Note(
                    f"missing: a wait by {semaphore.owner} for "
                    f"{semaphore.amount(semaphore.value)} on it"
                ),
                *semaphore.last_wait(),
                Note(_AS_MUCH),
            ]
            notes += allocation("the semaphore", semaphore.location)
            self.report(
                "semaphore-not-zero",
                f"{semaphore} holds {semaphore.amount(semaphore.value)} at the end of the {end}; "
                f"{semaphore.credited_by or 'somebody'} added to it last",
                semaphore.credited_at or semaphore.location,
                notes,
                str(semaphore),
            )

    def _unawaited(self, transfer: Transfer, when: str, buffer: Buffer) -> None:
        semaphore = transfer.target_semaphore
        notes = [
            Note(
                f"missing: a wait by {semaphore.owner} for "
                f"{semaphore.amount(transfer.target_amount)} on {semaphore}"
            ),
            Note(_AHEAD if transfer in self._ahead else _STARTED),
        ]
        notes += allocation(buffer.title, buffer.location)
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
        if any(name.startswith(_PROLOGUE) for name in transfer.sender.spans):
            self._ahead.add(transfer)
        if transfer.remote:
            at = transfer.location
            self._too_late(
                transfer.sender, transfer.target_semaphore, "sends a DMA that signals", at
            )

    def _too_late(
        self, core: Core, semaphore: Semaphore, verb: str, at: SourceLocation | None
    ) -> None:
        owner = self._owners[semaphore.owner]
        if owner.finished and not semaphore.passed:
            self.report(
                "signal-after-end",
                f"{core} {verb} {semaphore}, but {owner} has finished",
                at,
                [
                    Note(f"missing: a wait on it by {owner} before its end", semaphore.location),
                    Note(_AS_MUCH),
                ],
            )


CHECKS: dict[str, type[Observer]] = {"init": InitCheck, "race": RaceCheck, "sync": SyncCheck}
"""Checks that are observers. `bounds` needs none: every access is always checked.

Register accesses are checked against their buffer only: register forms fold offsets into slices and
then address what lies beyond the slice, as the old C++ passes did.
"""
