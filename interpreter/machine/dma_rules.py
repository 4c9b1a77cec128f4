"""Rules that transfers must keep: they must not outlive their ends, or break what the kernel
promises.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pallasite.diagnostics import ExecutionError, Note, SourceLocation, allocation
from pallasite.interpreter.machine.faults import ONE_VISIT
from pallasite.interpreter.machine.views import Ref

if TYPE_CHECKING:
    from pallasite.interpreter.machine.dma import Transfer


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


def check_aliases(transfer: Transfer, flying: Iterable[Transfer]) -> None:
    """Refuses to read, through an aliased input, what is being written through the output."""
    for other in flying:
        for read, write in ((transfer, other), (other, transfer)):
            if write.remote or not write.target.buffer.aliased:
                continue
            if not read.read and _share_elements(read.source, write.reach or write.target):
                raise broken_alias(
                    f"{transfer.describe()} overlaps {other.describe()}, which nobody has waited "
                    f"for: one reads what the other writes",
                    transfer.location,
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
