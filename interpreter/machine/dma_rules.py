"""Rules that transfers must keep: they must not outlive their ends, or break what the kernel
promises.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from pallasite.diagnostics import ExecutionError, Note, SourceLocation, allocation
from pallasite.interpreter.machine.faults import ONE_VISIT
from pallasite.interpreter.machine.memory import Buffer
from pallasite.interpreter.machine.views import Ref

if TYPE_CHECKING:
    from pallasite.interpreter.machine.dma import Transfer

_ROOM = 64
"""So many transfers of a buffer are kept before it is asked which of them are in flight."""


def check_in_scope(transfer: Transfer, ref: Ref) -> None:
    """Raises if the buffer that a transfer is about to touch is gone."""
    if ref.buffer.freed:
        name = ref.buffer.title
        raise ExecutionError(
            "use-after-free",
            f"{transfer.describe()} is still in flight after the scope of {name} has ended",
            transfer.location,
            [
                *allocation(name, ref.buffer.location),
                Note("wait for it before, on the core that has started it"),
                Note("cores that share a parallel axis have scratch and semaphores of their own"),
            ],
        )


def check_written_once(transfer: Transfer) -> None:
    """Notes that a block of an output is written back; refuses the second time."""
    target = transfer.target
    boxes = target.buffer.boxes
    if boxes is None or 0 in target.shape:
        return
    box = (target.base, target.starts, target.shape)
    if box in boxes:
        raise ExecutionError(
            "block-revisited",
            f"the block of shape {list(target.shape)} at {list(target.starts)} of "
            f"{target.buffer.title} is visited again, after other blocks",
            transfer.location,
            [
                Note("it was written back before", boxes[box]),
                ONE_VISIT,
            ],
        )
    boxes[box] = transfer.location


def _share_elements(a: Ref, b: Ref) -> bool:
    """Whether two refs are boxes of one array that overlap; check `race` knows other cases."""
    if a.buffer is not b.buffer or a.digits != b.digits or a.base != b.base:
        return False
    columns = zip(a.starts, a.shape, b.starts, b.shape, strict=True)
    return all(s < t + m and t < s + n for s, n, t, m in columns)


class _Touching:
    """Transfers that read, or write, memory which an input and an output share, by its buffer."""

    def __init__(self, flying: Container[Transfer]) -> None:
        self._flying = flying
        self._known: dict[Buffer, list[Transfer]] = {}
        self._room: dict[Buffer, int] = {}

    def add(self, buffer: Buffer, transfer: Transfer) -> None:
        """Adds a transfer; now and then, forgets those that are not in flight any more."""
        known = self._known.setdefault(buffer, [])
        if len(known) >= self._room.get(buffer, _ROOM):
            known[:] = self.of(buffer)
            self._room[buffer] = max(_ROOM, 2 * len(known))
        known.append(transfer)

    def of(self, buffer: Buffer) -> list[Transfer]:
        """Those of `buffer` that are in flight."""
        return [known for known in self._known.get(buffer, ()) if known in self._flying]


class Aliases:
    """Refuses to read, through an aliased input, what is being written through the output."""

    def __init__(self, flying: Container[Transfer]) -> None:
        self._reads, self._writes = _Touching(flying), _Touching(flying)

    def check(self, transfer: Transfer) -> None:
        """Compares `transfer`, which is about to start, with those in flight, and notes it."""
        source, target = transfer.source.buffer, transfer.target.buffer
        if source.aliased:
            for other in self._writes.of(source):
                _compare(transfer, other, transfer, other)
            self._reads.add(source, transfer)
        if target.aliased and not transfer.remote:
            for other in self._reads.of(target):
                if other is not transfer:
                    _compare(other, transfer, transfer, other)
            self._writes.add(target, transfer)


def _compare(read: Transfer, write: Transfer, later: Transfer, other: Transfer) -> None:
    """Refuses the later of two transfers if one may read what the other one writes."""
    if not read.read and _share_elements(read.source, write.reach or write.target):
        raise broken_alias(
            f"{later.describe()} overlaps {other.describe()}, which nobody has waited for: one "
            "reads what the other writes",
            later.location,
            other.location,
        )


def broken_alias(
    what: str, at: SourceLocation | None, other: SourceLocation | None = None
) -> ExecutionError:
    """The diagnostic of an input that sees, or does not see, what goes through its alias."""
    note = (
        "an input and an output share this memory, and transfers of nearby steps overlap; do not "
        "read through the input what these steps write"
    )
    return ExecutionError("broken-promise", what, at, [Note(note, other)])
