"""Which credits to a semaphore a wait has certainly taken, for the check `race`.

A wait for n ends once n has arrived, from whichever sources. So a credit is certainly before the
end of a wait only if the wait could not have ended without it, in any order of events that the
program allows. All credits that might have come first count as alternatives, even if they came
after the wait in this run: all that do not know of the wait and do not follow the credit itself.
The result thus does not depend on which core was faster. Bytes of a transfer count one by one; a
signal arrives as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pallasite.diagnostics import SourceLocation
from pallasite.interpreter.machine.uses import History, Use

Clock = NDArray[np.int64]
"""A vector clock: per core, the time up to which its accesses are in the past."""


@dataclass(eq=False, slots=True)
class Credit:
    """A signal, or what a transfer adds when its target was written or its source was read."""

    amount: int
    issuer: int
    """The core that signals, or starts the transfer."""
    clock: Clock
    """The clock of the issuer at that time."""
    location: SourceLocation | None
    uses: list[tuple[Use, History]] | None = None
    """The accesses of a transfer that have ended once it adds the credit; None for a signal."""
    ordered: bool = False
    """Whether it is of a transfer that arrives before all that its issuer sends there later."""
    landed: bool = False
    number: int = 0
    """Its number among all credits to the semaphore."""
    time: int = 0
    """The time of the issuer's own clock."""
    behind: int = 0
    """The sum of the amounts that can only arrive after it."""

    @property
    def leads(self) -> bool:
        """Whether there may be credits that can only arrive after this one."""
        return self.uses is None or self.ordered

    @property
    def reach(self) -> int:
        """`behind`, and of a signal, which arrives as a whole, what may be missing of it."""
        return self.behind if self.uses is not None else self.behind + self.amount - 1

    def precedes(self, later: Credit) -> bool:
        """Whether a credit that is issued later can only arrive after this one."""
        if self.uses is None:
            return bool(later.clock[self.issuer] > self.time)
        return self.ordered and later.ordered and later.issuer == self.issuer


KEPT = 64
"""Waits that are remembered for a semaphore to which a single core adds."""
Key = tuple[int, int]
"""The numbers of a credit and of a wait of one semaphore."""
Doubts = set[Key]
"""Credits that a wait has taken only by chance, each with the wait."""


@dataclass(eq=False, slots=True)
class _Taken:
    """A credit that a wait has certainly taken."""

    credit: Credit
    key: Key
    waiter: int
    time: int
    """The time of the waiter's clock before the wait."""
    spare: int
    """How much more may arrive first without the wait ending without the credit; below 0 it might
    have."""


@dataclass(frozen=True)
class Count:
    """A read of the count of a semaphore."""

    core: int
    time: int
    """The time of that core's clock."""
    location: SourceLocation | None

    def before(self, credit: Credit) -> bool:
        """Whether `credit` can only arrive after the read."""
        return bool(credit.clock[self.core] >= self.time)


@dataclass(eq=False)
class Credits:
    """All credits to one semaphore."""

    doubtful: Doubts
    """Doubts of an earlier replay of the same events."""
    doubts: Doubts = field(default_factory=Doubts)
    """Doubts of this run or replay."""
    total: int = 0
    """The sum of all amounts that were issued."""
    landed: int = 0
    taken: int = 0
    issued: int = 0
    waits: int = 0
    waiter: int = -1
    location: SourceLocation | None = None
    """The location of the last wait."""
    counts: list[Count] = field(default_factory=list[Count])
    """The last reads of the count."""
    _open: list[Credit] = field(default_factory=list[Credit])
    """Credits that no wait has certainly taken."""
    _leading: int = 0
    """How many of them lead others."""
    _reach: int = 0
    """At most so far does `_spare` of one of them exceed what was taken less what was issued."""
    _arrived: list[Credit] = field(default_factory=list[Credit])
    """Credits of transfers that have landed since `in_part` was last asked."""
    _taken: list[_Taken] = field(default_factory=list[_Taken])
    _alone: int | None = None
    """The core that has issued all credits, each after the one before; -1 if several have."""

    def issue(self, credit: Credit) -> None:
        """Notes that `credit` is on its way."""
        credit.number, credit.time = self.issued, int(credit.clock[credit.issuer])
        self.issued += 1
        self.total += credit.amount
        for earlier in self._open if self._leading else ():
            if earlier.precedes(credit):
                earlier.behind += credit.amount
                self._reach = max(self._reach, earlier.reach)
        self._reach = max(self._reach, credit.reach)
        self._leading += credit.leads
        if self._alone is None:
            self._alone = credit.issuer if credit.leads else -1
        elif self._alone != credit.issuer or not credit.leads:
            self._alone = -1
        if self._alone < 0:
            self._disturb(credit)
        self._open.append(credit)

    def _disturb(self, credit: Credit) -> None:
        """Notes that `credit` might have arrived before waits that it does not know of, in place of
        what they took."""
        for taken in reversed(self._taken):
            if credit.clock[taken.waiter] > taken.time:
                return
            if not taken.credit.precedes(credit):
                taken.spare -= credit.amount
                if taken.spare < 0:
                    self.doubts.add(taken.key)

    def land(self, credit: Credit) -> None:
        """Notes that `credit` has arrived."""
        credit.landed = True
        self.landed += credit.amount
        if credit.uses is not None:
            self._arrived.append(credit)

    def wait(
        self, waiter: int, amount: int, left: int, time: int, at: SourceLocation | None
    ) -> list[Credit]:
        """The credits that a wait for `amount`, which leaves the count `left`, has certainly
        taken."""
        number = self.waits
        self.waits += 1
        self.taken += amount
        self.waiter, self.location = waiter, at
        # What was there before the program, and what checks are not told of, is nobody's.
        strange = self.taken + left - self.landed
        if strange > 0:
            self.total += strange
            self.landed += strange
        certain: list[Credit] = []
        still: list[Credit] = []
        if self.taken - self.total + self._reach < 0:
            return certain
        for credit in self._open:
            spare = self._spare(credit)
            if credit.landed and spare >= 0 and (credit.number, number) not in self.doubtful:
                certain.append(credit)
                key = credit.number, number
                self._taken.append(_Taken(credit, key, waiter, time, spare))
                if len(self._taken) > 2 * KEPT and self._alone is not None and self._alone >= 0:
                    del self._taken[:KEPT]
            else:
                still.append(credit)
        self._open = still
        self._leading = sum(credit.leads for credit in still)
        self._reach = max((credit.reach for credit in still), default=0)
        return certain

    def _spare(self, credit: Credit) -> int:
        """How much more might have arrived before the last wait with `credit` still certainly taken
        by it; negative if the wait might have ended without all of it."""
        return self.taken - self.total + credit.reach

    def count(self, question: Count, clock: Clock) -> Credit | None:
        """A credit that may or may not have arrived before a read of the count by whoever has
        `clock`; None if there is none."""
        self.counts = [*self.counts[1 - KEPT :], question]
        unknown = (c for c in self._open if c.uses is not None or clock[c.issuer] < c.time)
        return next(unknown, None)

    def in_part(self) -> list[Credit]:
        """Transfers that have landed since this was last asked; a wait since then has taken only a
        part of those that are still open, or a part of another one instead."""
        arrived, self._arrived = self._arrived, []
        return arrived

    def missed(self, waiter: int, core: int, time: int) -> tuple[Credit, Credit | None] | None:
        """A signal that knows of what `core` did at `time`, but which no wait by `waiter` has
        certainly taken, and what may have come in its place."""
        if self.waiter != waiter:
            return None
        for signal in self._open:
            if signal.uses is None and signal.clock[core] >= time:
                others = [*self._open, *(taken.credit for taken in self._taken)]
                return signal, next((o for o in others if o is not signal), None)
        return None
