"""Transfers that are in flight together and count on one semaphore, in no certain order.

A wait for the bytes of one of them may end because another one has landed. So what looks like the
wait for a transfer may not be one. Findings about a transfer that was not waited for mention its
rival.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallasite.diagnostics import Note

if TYPE_CHECKING:
    from pallasite.interpreter.machine.dma import Transfer


def meet(transfer: Transfer, unordered: bool) -> None:
    """Notes that `transfer`, which starts, and one in flight are rivals of each other."""
    semaphore = transfer.target_semaphore
    for other in reversed(semaphore.pending):
        if other is transfer or other.target_semaphore is not semaphore:
            continue
        if unordered or not _one_route(transfer, other):
            transfer.rival, other.rival = other.location, transfer.location
            return


def _one_route(one: Transfer, other: Transfer) -> bool:
    """Whether both go from one core to another, where they arrive as they were started."""
    remote = one.remote and other.remote
    return remote and one.sender is other.sender and one.receiver is other.receiver


def rival_notes(transfer: Transfer) -> list[Note]:
    """Why the wait for `transfer` is missing although the program seems to have one."""
    if transfer.rival is None:
        return []
    return [
        Note(
            "this DMA was in flight, too, and counts on the same semaphore: either may land first, "
            "so a wait for one may end when the other has landed",
            transfer.rival,
        ),
        Note(
            "give each a semaphore of its own, as of pltpu.SemaphoreType.DMA((2,)), or wait for "
            "both before either is used"
        ),
    ]
