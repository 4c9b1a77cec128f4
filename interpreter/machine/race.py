"""The race detector (check `race`): two accesses, one a write, that nothing orders.

Every core has a vector clock; a signal or the enqueueing of a DMA publishes it, a successful wait
joins what the semaphore has gathered (spec/pallas_semantics.md 5.1). A transfer reads its source
and writes its target at some time between its start and the wait that takes its credit, so both
halves are recorded when it starts, and stay unordered with everything until a wait on the semaphore
that they credit; from then on they count as accesses of the waiting core at that time. That is
exact, because only the core that owns a semaphore can wait for it. Nothing needs to go wrong: a
race is found in every interleaving in which both accesses happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pallasite.diagnostics import Note, SourceLocation
from pallasite.interpreter.machine import rows
from pallasite.interpreter.machine.dma import Transfer
from pallasite.interpreter.machine.memory import Buffer
from pallasite.interpreter.machine.observers import Observer
from pallasite.interpreter.machine.regions import (
    Region,
    box_region,
    rows_region,
    span_text,
    whole_region,
)
from pallasite.interpreter.machine.semaphores import Semaphore
from pallasite.interpreter.machine.views import Ref

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core, Machine

Clock = NDArray[np.int64]
Mask = NDArray[np.bool_] | None


@dataclass(eq=False)
class Access:
    """One access of a core, or one half of a transfer."""

    region: Region
    write: bool
    core: Core
    location: SourceLocation | None
    times: list[tuple[int, int]]
    """(core, clock) pairs, from each of which on the access is in the past; none in flight."""
    transfer: Transfer | None = None

    @property
    def actor(self) -> str:
        """Who does it, for messages."""
        if self.transfer is not None:
            return self.transfer.describe()
        return f"a {'store' if self.write else 'load'} by {self.core}"

    def before(self, clock: Clock) -> bool:
        """Whether the access is in the past of whoever has `clock`."""
        return any(clock[core] >= time for core, time in self.times)


def _verb(access: Access) -> str:
    return "writes" if access.write else "reads"


@dataclass(eq=False)
class History:
    """The accesses to one buffer that may still race."""

    flying: list[Access] = field(default_factory=list[Access])
    settled: dict[int, dict[Any, Access]] = field(default_factory=dict[int, dict[Any, Access]])
    """By core, the latest access to each region; an older one to the same region adds nothing."""

    def settle(self, access: Access) -> None:
        core = access.times[0][0]
        self.settled.setdefault(core, {})[access.region.key, access.write] = access


@dataclass(eq=False)
class Gathered:
    """What a wait for a semaphore joins: clocks published to it, transfers that credited it."""

    clock: Clock
    accesses: list[tuple[Access, History]] = field(default_factory=list[tuple[Access, "History"]])


class RaceCheck(Observer):
    """Finds data races."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._cores = {core: number for number, core in enumerate(machine.cores)}
        self._start()

    def _start(self) -> None:
        count = len(self._cores)
        self._clocks = np.eye(count, dtype=np.int64)
        self._histories: dict[Buffer, History] = {}
        self._gathered: dict[Semaphore, Gathered] = {}
        self._halves: dict[Transfer, list[tuple[Access, History]]] = {}
        self._published: dict[Transfer, Clock] = {}

    def _history(self, buffer: Buffer) -> History:
        if buffer not in self._histories:
            self._histories[buffer] = History()
        return self._histories[buffer]

    # --- accesses ---------------------------------------------------------------------------

    def read(
        self,
        core: Core,
        ref: Ref,
        index: Sequence[int],
        shape: tuple[int, ...],
        strides: Sequence[int] | None,
        at: SourceLocation | None,
    ) -> None:
        if self._of_interest(ref):
            self._access(core, ref, box_region(ref, index, shape, strides), False, at)

    def write(
        self,
        core: Core,
        ref: Ref,
        index: Sequence[int],
        shape: tuple[int, ...],
        strides: Sequence[int] | None,
        at: SourceLocation | None,
        mask: Mask = None,
    ) -> None:
        if self._of_interest(ref):
            self._access(core, ref, box_region(ref, index, shape, strides, mask), True, at)

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
        if self._of_interest(ref):
            plan = rows.plan(ref, "load", index, shape, steps, sublanes, offsets, at)
            self._access(core, ref, rows_region(ref, plan), False, at)

    def write_rows(
        self,
        core: Core,
        ref: Ref,
        index: Sequence[int],
        shape: tuple[int, ...],
        steps: tuple[int, ...],
        sublanes: tuple[bool, ...],
        offsets: tuple[int, ...],
        at: SourceLocation | None,
        mask: Mask = None,
    ) -> None:
        if self._of_interest(ref):
            plan = rows.plan(ref, "store", index, shape, steps, sublanes, offsets, at)
            where = None if mask is None else rows.word_mask(mask, shape).transpose(plan.order)
            self._access(core, ref, rows_region(ref, plan, where), True, at)

    def _of_interest(self, ref: Ref) -> bool:
        # A core cannot race with itself, only with transfers in flight and other cores.
        if len(self._cores) > 1:
            return True
        history = self._histories.get(ref.buffer)
        return history is not None and bool(history.flying)

    def _access(
        self, core: Core, ref: Ref, region: Region, write: bool, at: SourceLocation | None
    ) -> None:
        number = self._cores[core]
        clock = self._clocks[number]
        access = Access(region, write, core, at, [(number, int(clock[number]))])
        history = self._history(ref.buffer)
        self._compare(access, history, clock, ref.buffer, number)
        if len(self._cores) > 1:
            history.settle(access)

    def _compare(
        self, access: Access, history: History, clock: Clock, buffer: Buffer, core: int
    ) -> None:
        for other in history.flying:
            if other.transfer is not access.transfer or access.transfer is None:
                self._check(access, other, clock, buffer, core)
        for number, settled in history.settled.items():
            if number != core:
                for other in settled.values():
                    self._check(access, other, clock, buffer, core)

    def _check(
        self, access: Access, other: Access, clock: Clock, buffer: Buffer, core: int
    ) -> None:
        if not (access.write or other.write) or other.before(clock):
            return
        if not access.region.overlaps(other.region):
            return
        low = max(access.region.low, other.region.low)
        high = min(access.region.high, other.region.high)
        name = buffer.title
        notes = [
            Note(
                f"{other.actor} {_verb(other)} {other.region.extent} of {name}, and nothing orders "
                "the two",
                other.location,
            ),
            Note(f"missing: {self._missing(other, core)}", access.location),
        ]
        if buffer.location is not None:
            notes.append(Note(f"{name} is allocated here", buffer.location))
        self.report(
            "data-race",
            f"{access.actor}, which {_verb(access)} {access.region.extent} of {name}, races with "
            f"{other.actor} on {span_text(low, high)}",
            access.location,
            notes,
            str(other.location),
        )

    def _missing(self, other: Access, core: int) -> str:
        """The synchronisation that would put `other` into the past of a core."""
        cores = self.machine.cores
        transfer = other.transfer
        if transfer is None or other.times:
            first = cores[other.times[0][0]]
            return f"a signal from {first} after its access, and a wait for it by {cores[core]}"
        semaphore, amount = transfer.target_semaphore, transfer.target_amount
        if not other.write and transfer.source_semaphore is not None:
            semaphore, amount = transfer.source_semaphore, transfer.source_amount
        wait = f"a wait by {semaphore.owner} for {amount} on {semaphore} between the two"
        if semaphore.owner == str(cores[core]):
            if other.write and transfer.remote:
                sender = transfer.sender
                return f"{wait}, or a signal to {sender}, and a wait for it, before the DMA starts"
            return wait
        return f"{wait}, and then a signal from {semaphore.owner} to {cores[core]}"

    # --- transfers --------------------------------------------------------------------------

    def dma_start(self, transfer: Transfer) -> None:
        number = self._cores[transfer.sender]
        clock = self._clocks[number].copy()
        self._clocks[number, number] += 1
        self._published[transfer] = clock
        target = transfer.target
        buffer: Buffer | None = target.buffer
        if transfer.remote:
            buffer = transfer.receiver.memory(buffer.memory.kind).at(buffer.address)
        halves = self._halves[transfer] = []
        ends = [(transfer.source, transfer.source.buffer, False), (target, buffer, True)]
        for ref, place, write in ends:
            if place is None:
                continue
            access = Access(whole_region(ref), write, transfer.sender, transfer.location, [], transfer)
            history = self._history(place)
            self._compare(access, history, clock, place, number)
            history.flying.append(access)
            halves.append((access, history))

    def dma_read(self, transfer: Transfer) -> None:
        clock = self._published.get(transfer)
        if clock is not None and transfer.source_semaphore is not None:
            gathered = self._gather(transfer.source_semaphore, clock)
            gathered.accesses += self._halves[transfer][:1]

    def dma_done(self, transfer: Transfer) -> None:
        clock = self._published.pop(transfer, None)
        if clock is not None:
            gathered = self._gather(transfer.target_semaphore, clock)
            gathered.accesses += self._halves.pop(transfer)

    # --- semaphores -------------------------------------------------------------------------

    def _gather(self, semaphore: Semaphore, clock: Clock) -> Gathered:
        gathered = self._gathered.get(semaphore)
        if gathered is None:
            gathered = self._gathered[semaphore] = Gathered(np.zeros_like(clock))
        np.maximum(gathered.clock, clock, out=gathered.clock)
        return gathered

    def signal(
        self, core: Core, semaphore: Semaphore, amount: int, at: SourceLocation | None
    ) -> None:
        number = self._cores[core]
        self._gather(semaphore, self._clocks[number])
        self._clocks[number, number] += 1

    def wait(
        self, core: Core, semaphore: Semaphore, amount: int, at: SourceLocation | None
    ) -> None:
        gathered = self._gathered.get(semaphore)
        if gathered is None:
            return
        number = self._cores[core]
        clock = self._clocks[number]
        np.maximum(clock, gathered.clock, out=clock)
        for access, history in gathered.accesses:
            if not access.times:
                history.flying.remove(access)
                access.times.append((number, int(clock[number])))
                if len(self._cores) > 1:
                    history.settle(access)
            else:
                access.times.append((number, int(clock[number])))
        gathered.accesses.clear()

    # --- ends -------------------------------------------------------------------------------

    def released(self, core: Core, buffer: Buffer) -> None:
        self._histories.pop(buffer, None)

    def finish(self) -> None:
        # Programs that follow each other on one machine do not overlap.
        self._start()
