"""Semaphores: counters that cores wait on (spec/pallas_semantics.md 3.4).

A regular semaphore counts units, a DMA semaphore bytes. Waiting is one atomic step: block until the
count suffices, then subtract. A semaphore keeps the tasks blocked on it and the transfers that are
going to credit it, so neither the scheduler nor the DMA engine ever searches.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pallasite.diagnostics import ExecutionError, Note, SourceLocation

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core
    from pallasite.interpreter.machine.dma import Transfer
    from pallasite.interpreter.machine.scheduler import Task
    from pallasite.interpreter.machine.views import Ref


class Wait(Protocol):
    """What a core's program yields: it wants to go on once `ready()`."""

    def ready(self) -> bool:
        """Whether the program may be resumed now."""
        ...

    def describe(self) -> str:
        """What it waits for, for the deadlock message."""
        ...


def _nothing() -> Generator[Wait]:
    yield from ()


_NO_WAITS = _nothing()
list(_NO_WAITS)  # Whoever iterates it finds it at its end.


@dataclass(eq=False)
class Semaphore:
    """One counter of one core."""

    owner: str
    index: int
    name: str = ""
    location: SourceLocation | None = None
    value: int = 0
    waiters: list[Task] = field(default_factory=list["Task"])
    pending: list[Transfer] = field(default_factory=list["Transfer"])
    """Transfers in flight that will credit this semaphore, oldest first."""
    credited_by: Core | None = None
    credited_at: SourceLocation | None = None
    """Who added to it last, and where: for diagnostics."""
    taken_at: SourceLocation | None = None
    """Where it was last waited for."""
    passed: bool = False
    """Its count comes from, or goes to, another kernel: an operand or result of the call."""
    number: int = 0
    """Its place among those of an array of `shape`, in row-major order."""
    shape: tuple[int, ...] = ()
    bytes: bool = False
    """Whether it counts bytes: those of DMAs."""

    def credit(self, amount: int, by: Core | None = None, at: SourceLocation | None = None) -> None:
        """Adds `amount` and wakes the tasks whose wait is now satisfied."""
        self.value += amount
        self.credited_by, self.credited_at = by, at
        if self.waiters:
            blocked: list[Task] = []
            for task in self.waiters:
                if task.wait is None or task.wait.ready():
                    task.wake()
                else:
                    blocked.append(task)
            self.waiters[:] = blocked

    def take(self, amount: int, by: Core, at: SourceLocation | None) -> Generator[Wait]:
        """Takes what `by` has waited for; gives the waits that are left, which are none."""
        self.value -= amount
        self.taken_at = at
        if by.observer is not None:
            by.observer.wait(by, self, amount, at)
        return _NO_WAITS

    def left(self) -> Note:
        """That nobody has waited for what it holds, and where that was added."""
        return Note(
            f"{self} holds {self.amount(self.value)}, which {self.credited_by or 'somebody'} added "
            "here, and "
            "which nobody has waited for",
            self.credited_at,
        )

    def last_wait(self) -> list[Note]:
        """Where it was waited for before, if anywhere."""
        if self.taken_at is None:
            return []
        return [Note(f"the last wait for {self} that has ended was here", self.taken_at)]

    def amount(self, amount: int) -> str:
        """`amount`, and what of."""
        return f"{amount} bytes" if self.bytes else str(amount)

    def __str__(self) -> str:
        if not self.name:
            return f"semaphore #{self.index} of {self.owner}"
        place = self.number
        places = list[int]()
        for size in reversed(self.shape):
            place, here = divmod(place, size)
            places.insert(0, here)
        return f"{self.name}{places or ''} of {self.owner}"


@dataclass(frozen=True)
class Count:
    """Waits until `semaphore` holds at least `amount`."""

    semaphore: Semaphore
    amount: int
    location: SourceLocation | None = None
    transfers: bool = False
    """It is transfers that credit the semaphore, with their bytes."""

    def ready(self) -> bool:
        return self.semaphore.value >= self.amount

    def describe(self) -> str:
        where = f" at {self.location}" if self.location else ""
        semaphore = self.semaphore
        return (
            f"waits{where} for {semaphore.amount(self.amount)} on {semaphore}, which has "
            f"{semaphore.value}"
        )

    def blocking(self, core: Core) -> Generator[Wait]:
        """Blocks until it is ready; then `core` takes the amount."""
        while not self.ready():
            yield self
        self.semaphore.take(self.amount, core, self.location)

    def advice(self) -> str:
        """What a program does so that its waits end."""
        if not self.transfers:
            return "signal as much as is waited for: pl.semaphore_signal(sem, n)"
        if self.semaphore.value:
            return "wait for as many bytes as were copied: with the copy that was started"
        return "wait once for each copy that was started: copy.start(), then copy.wait()"


class Pause:
    """Lets the other cores run for a while; always ready."""

    def ready(self) -> bool:
        return True

    def describe(self) -> str:
        return "is ready"


def negative(amount: int, semaphore: Semaphore, at: SourceLocation | None) -> ExecutionError:
    """Nobody signals or waits for less than nothing."""
    return ExecutionError(
        "semaphore-amount", f"expected an amount of at least 0 for {semaphore}, got {amount}", at
    )


def amount_of(semaphore: Ref, ref: Ref) -> int:
    """What one transfer of `ref` adds to a semaphore: its bytes, or one to a regular one."""
    return ref.byte_count if semaphore.element.name == "tpu.dma_semaphore" else 1
