"""The race detector (check `race`): finds two accesses, at least one a write, that nothing orders.

Every core has a vector clock. A signal or the start of a DMA publishes it, and a successful wait
joins the clocks that the semaphore has gathered (spec/pallas_semantics.md 5.1). A transfer reads
its source and writes its target at some time between its start and the wait that takes its credit.
Both halves are therefore recorded when it starts and are unordered with everything until a wait on
the semaphore that they credit; from then on they count as accesses of the waiting core at that
time. That is exact, because only the core that owns a semaphore can wait for it. Data need not be
corrupted for a race to be found: it is found in every interleaving in which both accesses happen.

A wait joins only the credits without which it could not have ended (`credits`). Whether another
signal might have come in place of one may show only later in the run. The recorded events of the
whole run are then replayed without those joins, until nothing new is doubtful.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pallasite.diagnostics import Note, SourceLocation
from pallasite.interpreter.machine.accesses import Access
from pallasite.interpreter.machine.credits import Clock, Count, Credit, Credits, Doubts
from pallasite.interpreter.machine.dma import Transfer
from pallasite.interpreter.machine.memory import Buffer
from pallasite.interpreter.machine.observers import Observer
from pallasite.interpreter.machine.race_notes import COUNTED, OVERLAPPING, race_notes, scope_notes
from pallasite.interpreter.machine.regions import span_text, whole_region
from pallasite.interpreter.machine.semaphores import Semaphore
from pallasite.interpreter.machine.uses import History, Use
from pallasite.interpreter.machine.views import Ref

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core
    from pallasite.interpreter.machine.machine import Machine

_CODE = "data-race"

MOST_EVENTS = 2_000_000
"""Events of a run that are kept for a replay; a run with more of them is not replayed."""


def _reach(transfer: Transfer) -> Ref:
    """What a transfer may write, which can be more than its target."""
    return transfer.reach or transfer.target


def _is_shared(buffer: Buffer) -> bool:
    return buffer.memory.kind == "vmem_shared"


def _key(buffer: Buffer) -> object:
    """The key of an access history: the buffer, or in memory that subcores share the address."""
    return (buffer.memory, buffer.address) if _is_shared(buffer) else buffer


class RaceCheck(Observer):
    """Reports `data-race` for accesses, transfers and reads of semaphore counts that race.

    The public methods are the events of `Observer`. Those that change clocks or credits go through
    `_do`, which records them for a replay.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._cores = {core: number for number, core in enumerate(machine.cores)}
        self._start({})

    def _start(self, doubtful: dict[Semaphore, Doubts]) -> None:
        """Forgets everything. `doubtful` lists waits, by semaphore, that may not have needed a
        credit."""
        count = len(self._cores)
        self._ordered = not self.machine.engine.order.unordered
        self._clocks = np.eye(count, dtype=np.int64)
        self._histories: dict[object, History] = {}
        self._credits: dict[Semaphore, Credits] = {}
        self._issued: dict[Transfer, tuple[Credit | None, Credit]] = {}
        self._early: dict[Transfer, Clock] = {}
        """Transfers to buffers not yet allocated, with the clocks of their senders."""
        self._waited: set[int] = set()
        """Numbers of the cores that have completed a wait."""
        self._births: dict[Buffer, int] = {}
        """The time (of its core's clock) of each allocation after that core's first wait."""
        self._doubtful = doubtful
        self._events: list[tuple[Any, ...]] | None = None
        """The recorded events, in order; None for a single core, in a replay, or after too many."""
        if count > 1 and not doubtful:
            self._events = []

    def _do(self, step: Callable[..., None], *given: Any) -> None:
        """Carries out one step, an unbound method of this class, and records it for a replay."""
        if self._events is not None:
            self._events.append((step, *given))
            if len(self._events) > MOST_EVENTS:
                self._events = None
        step(self, *given)

    def _history(self, buffer: Buffer) -> History:
        key = _key(buffer)
        history = self._histories.get(key)
        if history is None:
            history = self._histories[key] = History()
        return history

    # Accesses.

    def read(self, core: Core, access: Access, at: SourceLocation | None) -> None:
        self._access(core, access, at, write=False)

    def write(self, core: Core, access: Access, at: SourceLocation | None) -> None:
        self._access(core, access, at, write=True)

    def add(self, core: Core, access: Access, at: SourceLocation | None) -> None:
        self._access(core, access, at, write=True, atomic=True)

    def block(self, core: Core, source: Access, target: Access, at: SourceLocation | None) -> None:
        self._access(core, source, at, write=False, block=True)
        self._access(core, target, at, write=True, block=True)

    def _access(
        self,
        core: Core,
        access: Access,
        at: SourceLocation | None,
        *,
        write: bool,
        atomic: bool = False,
        block: bool = False,
    ) -> None:
        buffer = access.ref.buffer
        several = len(self._cores) > 1
        history = self._histories.get(_key(buffer))
        # A core cannot race with itself, only with transfers in flight and other cores.
        if not several and (history is None or not history.flying):
            return
        if history is None:
            history = self._history(buffer)
        number = self._cores[core]
        clock = self._clocks[number]
        use = Use(access.region(), write, core, at, number, int(clock[number]))
        use.atomic, use.block = atomic, block
        self._compare(use, history, clock, buffer, number)
        if several and history.settle(use) and self._events is not None:
            self._events.append((RaceCheck._again, use, buffer))

    def _again(self, use: Use, buffer: Buffer) -> None:
        """Replays an access that was recorded."""
        history = self._history(buffer)
        self._compare(use, history, self._clocks[use.number], buffer, use.number)
        history.settle(use)

    def _compare(self, use: Use, history: History, clock: Clock, buffer: Buffer, core: int) -> None:
        """Checks `use` against transfers in flight and against accesses of other cores."""
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
        """Reports `use` and `other` if they overlap, are unordered, and are not two additions."""
        if not use.region.overlaps(other.region) or other.before(clock):
            return
        if use.adds and other.adds:
            return
        # Two source lines that race do so at every execution; they are reported once.
        if self.told(_CODE, use.location, str(other.location)):
            return
        low = max(use.region.low, other.region.low)
        high = min(use.region.high, other.region.high)
        self.report(
            _CODE,
            f"{use.actor}, which {use.verb} {use.region.extent} of {buffer.title}, races with "
            f"{other.actor} on {span_text(low, high)}",
            use.location,
            race_notes(use, other, buffer, core, self.machine.cores, self._credits),
            str(other.location),
        )

    # Transfers.

    def dma_start(self, transfer: Transfer) -> None:
        self._do(RaceCheck._begin, transfer, self._written(transfer))

    def _written(self, transfer: Transfer) -> Buffer | None:
        """The buffer that a transfer writes; None if its receiver has not yet allocated it."""
        buffer = transfer.target.buffer
        if not transfer.remote:
            return buffer
        return transfer.receiver.memory(buffer.memory.kind).at(buffer.address)

    def _begin(self, transfer: Transfer, buffer: Buffer | None) -> None:
        number = self._cores[transfer.sender]
        clock = self._clocks[number].copy()
        self._clocks[number, number] += 1
        source = self._half(transfer, transfer.source, transfer.source.buffer, clock, write=False)
        halves = [source]
        if buffer is None:
            self._early[transfer] = clock
        else:
            halves.append(self._half(transfer, _reach(transfer), buffer, clock, write=True))
            if buffer is transfer.source.buffer:
                self._overlap(*(use for use, _ in halves))
        at, semaphore, sent = transfer.location, transfer.source_semaphore, None
        if semaphore is not None:
            sent = Credit(transfer.source_amount, number, clock, at, halves[:1])
            self._issue(semaphore, sent)
        ordered = transfer.remote and self._ordered
        received = Credit(transfer.target_amount, number, clock, at, halves, ordered)
        self._issue(transfer.target_semaphore, received)
        self._issued[transfer] = sent, received

    def _half(
        self, transfer: Transfer, ref: Ref, buffer: Buffer, clock: Clock, *, write: bool
    ) -> tuple[Use, History]:
        use = Use(whole_region(ref), write, transfer.sender, transfer.location, transfer=transfer)
        history = self._history(buffer)
        self._compare(use, history, clock, buffer, self._cores[transfer.sender])
        history.flying.add(use)
        return use, history

    def _overlap(self, source: Use, target: Use) -> None:
        """Reports a copy whose target partly overlaps its source; a copy onto itself is
        harmless."""
        one, other = source.region, target.region
        if one.key == other.key or not one.overlaps(other) or target.transfer is None:
            return
        low, high = max(one.low, other.low), min(one.high, other.high)
        name = target.transfer.target.buffer.title
        self.report(
            _CODE,
            f"{target.actor} reads and writes {span_text(low, high)} of {name}",
            target.location,
            OVERLAPPING,
        )

    def dma_read(self, transfer: Transfer) -> None:
        if transfer in self._issued and transfer.source_semaphore is not None:
            self._do(RaceCheck._read, transfer, transfer.source_semaphore)

    def _read(self, transfer: Transfer, semaphore: Semaphore) -> None:
        sent, _ = self._issued[transfer]
        if sent is not None:
            self._credits[semaphore].land(sent)

    def dma_done(self, transfer: Transfer) -> None:
        if transfer in self._issued:
            buffer = self._written(transfer) if transfer.remote else None
            self._do(RaceCheck._done, transfer, buffer)

    def _done(self, transfer: Transfer, buffer: Buffer | None) -> None:
        _, received = self._issued.pop(transfer)
        clock = self._early.pop(transfer, None)
        if buffer is not None and clock is not None and received.uses is not None:
            received.uses.append(self._half(transfer, _reach(transfer), buffer, clock, write=True))
        born = self._births.get(buffer) if buffer is not None else None
        if buffer is not None and born is not None:
            if received.clock[self._cores[transfer.receiver]] < born:
                self.report(
                    _CODE,
                    f"{transfer.describe()} races with the allocation of {buffer.title} there: it "
                    "may come before that",
                    transfer.location,
                    scope_notes(transfer, buffer),
                    str(buffer.location),
                )
        self._credits[transfer.target_semaphore].land(received)

    # Semaphores.

    def _of(self, semaphore: Semaphore) -> Credits:
        credits = self._credits.get(semaphore)
        if credits is None:
            credits = self._credits[semaphore] = Credits(self._doubtful.get(semaphore, set()))
        return credits

    def signal(
        self, core: Core, semaphore: Semaphore, amount: int, at: SourceLocation | None
    ) -> None:
        self._do(RaceCheck._signal, self._cores[core], semaphore, amount, at)

    def _signal(
        self, number: int, semaphore: Semaphore, amount: int, at: SourceLocation | None
    ) -> None:
        credit = Credit(amount, number, self._clocks[number].copy(), at)
        self._issue(semaphore, credit)
        self._of(semaphore).land(credit)
        self._clocks[number, number] += 1

    def wait(
        self, core: Core, semaphore: Semaphore, amount: int, at: SourceLocation | None
    ) -> None:
        self._do(RaceCheck._wait, self._cores[core], semaphore, amount, semaphore.value, at)

    def _wait(
        self, number: int, semaphore: Semaphore, amount: int, left: int, at: SourceLocation | None
    ) -> None:
        # Only its owner waits for a semaphore; it now joins every credit that is certain.
        credits, clock = self._of(semaphore), self._clocks[number]
        certain = credits.wait(number, amount, left, int(clock[number]), at)
        self._waited.add(number)
        # Accesses before and after the wait must have different times.
        clock[number] += 1
        self._join(number, clock, certain)
        for credit in credits.in_part():
            for use, _ in credit.uses or ():
                use.partly = True

    def _join(self, number: int, clock: Clock, certain: list[Credit]) -> None:
        """Joins the clocks of signals and transfers, `certain`, into that of core `number`."""
        for credit in certain:
            np.maximum(clock, credit.clock, out=clock)
            credit.clock = clock[:0]
        time, several = int(clock[number]), len(self._cores) > 1
        for credit in certain:
            for use, history in credit.uses or ():
                if use.number >= 0:
                    use.also += number, time
                    continue
                use.number, use.time = number, time
                history.flying.remove(use)
                if several:
                    history.settle(use)
            if credit.uses:
                credit.uses = []

    def count(self, core: Core, semaphore: Semaphore, at: SourceLocation | None) -> None:
        self._do(RaceCheck._count, self._cores[core], semaphore, at)

    def _count(self, number: int, semaphore: Semaphore, at: SourceLocation | None) -> None:
        clock = self._clocks[number]
        question = Count(number, int(clock[number]), at)
        credit = self._of(semaphore).count(question, clock)
        if credit is not None:
            self._count_races(semaphore, question, credit)

    def _issue(self, semaphore: Semaphore, credit: Credit) -> None:
        """Notes that `credit` is on its way to `semaphore`; reads of the count may race with it."""
        credits = self._of(semaphore)
        credits.issue(credit)
        for question in credits.counts:
            if not question.before(credit):
                self._count_races(semaphore, question, credit)

    def _count_races(self, semaphore: Semaphore, question: Count, credit: Credit) -> None:
        cores = self.machine.cores
        what = "a signal" if credit.uses is None else "a DMA"
        self.report(
            _CODE,
            f"{cores[question.core]} reads the count of {semaphore}, which races with {what} by "
            f"{cores[credit.issuer]}: it may have been counted, or not",
            question.location,
            [Note(f"{what} by {cores[credit.issuer]}", credit.location), *COUNTED],
            str(credit.location),
        )

    # Scopes.

    def allocated(self, core: Core, buffer: Buffer) -> None:
        # What a core allocates before its first wait counts as there when other cores begin.
        if self._cores[core] in self._waited and not _is_shared(buffer):
            self._do(RaceCheck._allocate, self._cores[core], buffer)

    def _allocate(self, number: int, buffer: Buffer) -> None:
        self._births[buffer] = int(self._clocks[number, number])

    def released(self, core: Core, buffer: Buffer) -> None:
        self._do(RaceCheck._release, buffer)

    def _release(self, buffer: Buffer) -> None:
        # Other subcores may still use shared memory here, or allocate the same address again.
        if not _is_shared(buffer):
            self._histories.pop(buffer, None)
        self._births.pop(buffer, None)

    def finish(self) -> None:
        events, doubtful = self._events, dict[Semaphore, Doubts]()
        while events and self._doubt(doubtful):
            self._start(doubtful)
            for step, *given in events:
                step(self, *given)
        # Programs that follow each other on one machine do not overlap.
        self._start({})

    def _doubt(self, doubtful: dict[Semaphore, Doubts]) -> bool:
        """Adds doubts found by this replay to `doubtful`; False if there were no new ones."""
        before = sum(map(len, doubtful.values()))
        for semaphore, credits in self._credits.items():
            if credits.doubts:
                doubtful.setdefault(semaphore, set()).update(credits.doubts)
        return sum(map(len, doubtful.values())) > before
