"""The seams of the sanitizers: observers of a machine. The checks themselves are in `checks`.

An observer is told of every access, transfer, signal and wait, with the source location of the op.
A core without observers (`core.observer is None`) pays one comparison per op. Findings are
`Diagnostic`s in `Machine.findings`, one per place, and never stop the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pallasite.diagnostics import Diagnostic, Note, SourceLocation
from pallasite.interpreter.machine.accesses import Access
from pallasite.interpreter.machine.dma import Transfer
from pallasite.interpreter.machine.memory import Buffer
from pallasite.interpreter.machine.semaphores import Semaphore

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core
    from pallasite.interpreter.machine.machine import Machine

MOST_FINDINGS = 1000
"""Findings that one check reports; a kernel without source lines may have any number."""


class Observer:
    """Hooks, all of which do nothing here; `at` is the source location of the operation that
    acts."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._seen: set[tuple[str, SourceLocation | None, str]] = set()

    def read(self, core: Core, access: Access, at: SourceLocation | None) -> None:
        """A core loads some elements."""

    def write(self, core: Core, access: Access, at: SourceLocation | None) -> None:
        """A core has stored some elements."""

    def add(self, core: Core, access: Access, at: SourceLocation | None) -> None:
        """A core loads elements, its own or another's, and adds to them in one step."""

    def block(self, core: Core, source: Access, target: Access, at: SourceLocation | None) -> None:
        """A block of a grid or a pipeline is copied at once; in later forms transfers do that."""

    def dma_start(self, transfer: Transfer) -> None:
        """A transfer is enqueued."""

    def dma_read(self, transfer: Transfer) -> None:
        """A transfer has read its source; its source semaphore is about to be credited."""

    def dma_done(self, transfer: Transfer) -> None:
        """A transfer has written its target; its semaphore is about to be credited."""

    def signal(
        self, core: Core, semaphore: Semaphore, amount: int, at: SourceLocation | None
    ) -> None:
        """A core adds to a semaphore, its own or a remote one."""

    def wait(
        self, core: Core, semaphore: Semaphore, amount: int, at: SourceLocation | None
    ) -> None:
        """A core's wait has succeeded."""

    def count(self, core: Core, semaphore: Semaphore, at: SourceLocation | None) -> None:
        """A core is about to be told the count of a semaphore, once."""

    def allocated(self, core: Core, buffer: Buffer) -> None:
        """The scope of a buffer begins."""

    def released(self, core: Core, buffer: Buffer) -> None:
        """The scope of a buffer ends."""

    def finish(self) -> None:
        """All programs of a run have ended, before transfers left in flight land."""

    def told(self, code: str, at: SourceLocation | None, subject: str) -> bool:
        """Whether `report` would drop a finding at that place about that subject, so that it need
        not be put into words.

        The subject of a finding without a place is its message.
        """
        return (code, at, subject) in self._seen or len(self._seen) >= MOST_FINDINGS

    def report(
        self,
        code: str,
        message: str,
        at: SourceLocation | None,
        notes: Sequence[Note] = (),
        subject: str = "",
    ) -> None:
        """Records a finding, once per place and subject."""
        subject = message if at is None else subject
        if not self.told(code, at, subject):
            self._seen.add((code, at, subject))
            self.machine.findings.append(Diagnostic(code, message, at, list(notes), "finding"))


HOOKS = (
    "read", "write", "add", "block", "dma_start", "dma_read", "dma_done", "signal", "wait",
    "count", "allocated", "released", "finish",
)  # fmt: skip


class Observers(Observer):
    """Passes every event on to those of several observers that have a hook for it."""

    def __init__(self, machine: Machine, parts: Sequence[Observer]) -> None:
        super().__init__(machine)
        for hook in HOOKS:
            listening = [p for p in parts if getattr(type(p), hook) is not getattr(Observer, hook)]
            if listening:
                setattr(self, hook, _all_of([getattr(part, hook) for part in listening]))


def _all_of(hooks: Sequence[Callable[..., None]]) -> Callable[..., None]:
    if len(hooks) == 1:
        return hooks[0]

    def each(*event: Any) -> None:
        for hook in hooks:
            hook(*event)

    return each
