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

from typing import TYPE_CHECKING

import numpy as np

from pallasite.diagnostics import Note, SourceLocation, allocation
from pallasite.interpreter.machine.accesses import Access
from pallasite.interpreter.machine.dma import Transfer
from pallasite.interpreter.machine.memory import Buffer
from pallasite.interpreter.machine.observers import Observer
from pallasite.interpreter.machine.regions import span_text, whole_region
from pallasite.interpreter.machine.rivals import rival_notes
from pallasite.interpreter.machine.semaphores import Semaphore
from pallasite.interpreter.machine.uses import Arrival, Clock, Gathered, History, Use
from pallasite.interpreter.machine.views import Ref

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core
    from pallasite.interpreter.machine.machine import Machine

_CODE = "data-race"
_SAME_WORK = (
    "both run this line for the same part: give each a part of its own, by lax.axis_index of the "
    "axes of the mesh; of a pipeline over a mesh with two axes, name both: core_axis_name="
    '("core", "subcore")'
)
"""What two cores do that run one program as if they were alone."""
_PARTLY = (
    "the waits before were for a part of what the semaphore counts, and a DMA lands in any order: "
    "wait for all of it before a part is used, or start a copy for each part, with a semaphore of "
    "its own"
)


class RaceCheck(Observer):
    """Finds data races."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._cores = {core: number for number, core in enumerate(machine.cores)}
        self._start()

    def _start(self) -> None:
        count = len(self._cores)
        self._ordered = not self.machine.engine.unordered
        self._clocks = np.eye(count, dtype=np.int64)
        self._histories: dict[Buffer, History] = {}
        self._gathered: dict[Semaphore, Gathered] = {}
        self._halves: dict[Transfer, list[tuple[Use, History]]] = {}
        self._published: dict[Transfer, Clock] = {}

    def _history(self, buffer: Buffer) -> History:
        history = self._histories.get(buffer)
        if history is None:
            history = self._histories[buffer] = History()
        return history

    # Accesses.

    def read(self, core: Core, access: Access, at: SourceLocation | None) -> None:
        self._access(core, access, False, at)

    def write(self, core: Core, access: Access, at: SourceLocation | None) -> None:
        self._access(core, access, True, at)

    def add(self, core: Core, access: Access, at: SourceLocation | None) -> None:
        self._access(core, access, True, at, atomic=True)

    def _access(
        self,
        core: Core,
        access: Access,
        write: bool,
        at: SourceLocation | None,
        *,
        atomic: bool = False,
    ) -> None:
        buffer = access.ref.buffer
        several = len(self._cores) > 1
        history = self._histories.get(buffer)
        # A core cannot race with itself, only with transfers in flight and other cores.
        if not several and (history is None or not history.flying):
            return
        if history is None:
            history = self._history(buffer)
        number = self._cores[core]
        clock = self._clocks[number]
        use = Use(access.region(), write, core, at, number, int(clock[number]), atomic=atomic)
        self._compare(use, history, clock, buffer, number)
        if several:
            history.settle(use)

    def _compare(self, use: Use, history: History, clock: Clock, buffer: Buffer, core: int) -> None:
        # Reads do not race with each other.
        write, transfer = use.write, use.transfer
        for other in history.flying.near(use.region):
            if (write or other.write) and (transfer is None or other.transfer is not transfer):
                self._check(use, other, clock, buffer, core)
        for number, settled in history.settled.items():
            if write or number < 0:
                user = number if number >= 0 else ~number
                if user != core and clock[user] < settled.newest:
                    for other in settled.near(use.region):
                        self._check(use, other, clock, buffer, core)

    def _check(self, use: Use, other: Use, clock: Clock, buffer: Buffer, core: int) -> None:
        if not use.region.overlaps(other.region) or other.before(clock):
            return
        if use.adds and other.adds:
            return
        # Two lines race as often as they are executed.
        if self.told(_CODE, use.location, str(other.location)):
            return
        low = max(use.region.low, other.region.low)
        high = min(use.region.high, other.region.high)
        name = buffer.title
        notes = [
            Note(
                f"{other.actor} {other.verb} {other.region.extent} of {name}, and nothing orders "
                "the two",
                other.location,
            ),
            Note(f"missing: {self._missing(other, core)}", use.location),
        ]
        if other.transfer is not None and other.write and other.number < 0:
            notes += rival_notes(other.transfer)
        if other.partly and other.number < 0 and len(notes) == 2:
            notes.append(Note(_PARTLY))
        if use.repeats(other):
            notes.append(Note(_SAME_WORK))
        notes += allocation(name, buffer.location)
        self.report(
            _CODE,
            f"{use.actor}, which {use.verb} {use.region.extent} of {name}, races with "
            f"{other.actor} on {span_text(low, high)}",
            use.location,
            notes,
            str(other.location),
        )

    def _missing(self, other: Use, core: int) -> str:
        """The synchronisation that would put `other` into the past of a core."""
        cores = self.machine.cores
        transfer = other.transfer
        if transfer is None or other.number >= 0:
            first = cores[other.number]
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

    # Transfers.

    def dma_start(self, transfer: Transfer) -> None:
        number = self._cores[transfer.sender]
        clock = self._clocks[number].copy()
        self._clocks[number, number] += 1
        self._published[transfer] = clock
        target = transfer.reach or transfer.target
        buffer: Buffer | None = target.buffer
        if transfer.remote:
            buffer = transfer.receiver.memory(buffer.memory.kind).at(buffer.address)
        halves = self._halves[transfer] = [
            self._half(transfer, transfer.source, transfer.source.buffer, False, clock, number)
        ]
        if buffer is not None:
            halves.append(self._half(transfer, target, buffer, True, clock, number))

    def _half(
        self, transfer: Transfer, ref: Ref, buffer: Buffer, write: bool, clock: Clock, core: int
    ) -> tuple[Use, History]:
        use = Use(whole_region(ref), write, transfer.sender, transfer.location, transfer=transfer)
        history = self._history(buffer)
        self._compare(use, history, clock, buffer, core)
        history.flying.add(use)
        return use, history

    def dma_read(self, transfer: Transfer) -> None:
        clock, semaphore = self._published.get(transfer), transfer.source_semaphore
        if clock is not None and semaphore is not None:
            halves = self._halves[transfer][:1]
            self._arrive(semaphore, Arrival(transfer, transfer.source_amount, clock, halves))

    def dma_done(self, transfer: Transfer) -> None:
        clock = self._published.pop(transfer, None)
        if clock is not None:
            halves, ordered = self._halves.pop(transfer), transfer.remote and self._ordered
            arrival = Arrival(transfer, transfer.target_amount, clock, halves, ordered)
            self._arrive(transfer.target_semaphore, arrival)

    # Semaphores.

    def _arrive(self, semaphore: Semaphore, arrival: Arrival) -> None:
        gathered = self._gathered.get(semaphore)
        if gathered is None:
            gathered = self._gathered[semaphore] = Gathered(np.zeros_like(arrival.clock))
        gathered.arrivals.append(arrival)

    def _gather(self, semaphore: Semaphore, clock: Clock) -> Gathered:
        gathered = self._gathered.get(semaphore)
        if gathered is None:
            gathered = self._gathered[semaphore] = Gathered(clock.copy())
        else:
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
        # Nobody but its owner waits for a semaphore, and he has now joined all that is certain.
        gathered = self._gathered.get(semaphore)
        if gathered is None:
            return
        number = self._cores[core]
        clock = self._clocks[number]
        np.maximum(clock, gathered.clock, out=clock)
        arrivals = gathered.take_certain(semaphore.value, semaphore.pending)
        if not gathered.arrivals:
            del self._gathered[semaphore]
        self._join(number, clock, arrivals)

    def _join(self, number: int, clock: Clock, arrivals: list[Arrival]) -> None:
        """Puts transfers into the past of a core."""
        for arrival in arrivals:
            np.maximum(clock, arrival.clock, out=clock)
        time, several = int(clock[number]), len(self._cores) > 1
        for arrival in arrivals:
            for use, history in arrival.uses:
                if use.number >= 0:
                    use.also += number, time
                    continue
                use.number, use.time = number, time
                history.flying.remove(use)
                if several:
                    history.settle(use)

    # Ends.

    def released(self, core: Core, buffer: Buffer) -> None:
        self._histories.pop(buffer, None)

    def finish(self) -> None:
        # Programs that follow each other on one machine do not overlap.
        self._start()
