"""The notes of the race detector (`race.py`) about two accesses that race: what would order them,
and why the existing waits do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pallasite.diagnostics import Note, allocation
from pallasite.dialects.tpu.cores import VECTOR_SUBCORE
from pallasite.interpreter.machine.credits import Credits
from pallasite.interpreter.machine.memory import Buffer
from pallasite.interpreter.machine.rivals import rival_notes
from pallasite.interpreter.machine.semaphores import Semaphore
from pallasite.interpreter.machine.sparse import Subcore
from pallasite.interpreter.machine.uses import Use

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core
    from pallasite.interpreter.machine.dma import Transfer

_SAME_WORK = (
    "both run this line for the same part: give each a part of its own, by lax.axis_index of the "
    "axes of the mesh; of a pipeline over a mesh with two axes, name both: core_axis_name="
    '("core", "subcore"), and leave out no_pipelining, which leaves out the shares of cores'
)
"""What two cores do that run one program as if they were alone."""
_PARTLY = (
    "the waits before were for a part of what the semaphore counts, and a DMA lands in any order: "
    "wait for all of it before a part is used, or start a copy for each part, with a semaphore of "
    "its own"
)


_OTHERS = (
    "give each of them a semaphore of its own, or wait for all of them before what any of them "
    "tells of is used"
)
OVERLAPPING = (
    Note("its source and its target overlap, and a DMA copies in any order"),
    Note("copy to another buffer, or load the source and store it"),
)
"""Of a copy to a place that it also reads."""
COUNTED = (
    Note(
        "missing: pl.semaphore_wait(sem, n), or copy.wait(), before; or ask until it has come, in "
        "a jax.lax.while_loop"
    ),
)
"""Of a count that is asked for once."""


def race_notes(
    use: Use,
    other: Use,
    buffer: Buffer,
    core: int,
    cores: Sequence[Core],
    semaphores: Mapping[Semaphore, Credits],
) -> list[Note]:
    """The notes about `use`, by core number `core`, and the earlier access `other`."""
    name = buffer.title
    notes = [
        Note(
            f"{other.actor} {other.verb} {other.region.extent} of {name}, and nothing orders "
            "the two",
            other.location,
        ),
        Note(f"missing: {_missing(use, other, core, cores)}", use.location),
    ]
    if other.transfer is not None and other.write and other.number < 0:
        notes += rival_notes(other.transfer)
    if other.partly and other.number < 0 and len(notes) == 2:
        notes.append(Note(_PARTLY))
    notes += _luck(other, core, cores, semaphores)
    if use.repeats(other) and not use.atomic and not other.atomic:
        notes.append(Note(_SAME_WORK))
    return [*notes, *allocation(name, buffer.location)]


def _missing(use: Use, other: Use, core: int, cores: Sequence[Core]) -> str:
    """The synchronisation that would put `other` into the past of a core, and how to write it."""
    transfer, here = other.transfer, cores[core]
    if transfer is None or other.number >= 0:
        return _signal(use, cores[other.number], here)
    semaphore, amount = transfer.target_semaphore, transfer.target_amount
    how = "copy.wait_recv()" if transfer.remote else "copy.wait()"
    if not other.write and transfer.source_semaphore is not None:
        semaphore, amount = transfer.source_semaphore, transfer.source_amount
        how = "copy.wait_send()"
    wait = (
        f"a wait by {semaphore.owner} for {semaphore.amount(amount)} on {semaphore} between the "
        f"two ({how})"
    )
    if semaphore.owner != str(here):
        return f"{wait}, and then a signal from {semaphore.owner} to {here} ({_SIGNAL})"
    if other.write and transfer.remote:
        sender = transfer.sender
        return f"{wait}, or a signal to {sender}, and a wait for it, before the DMA starts"
    return wait


_SIGNAL = "pl.semaphore_signal(sem, device_id=...) and pl.semaphore_wait(sem)"


def scope_notes(transfer: Transfer, buffer: Buffer) -> list[Note]:
    """The notes about a transfer to a buffer that its receiver allocates while it is under way."""
    sender, receiver = transfer.sender, transfer.receiver
    return [
        Note(
            f"missing: a signal from {receiver} to {sender} after the allocation, and a wait for "
            f"it before the DMA starts ({_SIGNAL})",
            transfer.location,
        ),
        Note("scratch_shapes of the kernel are there from the start, on every core"),
        *allocation(buffer.title, buffer.location),
    ]


def _signal(use: Use, first: Core, here: Core) -> str:
    """The note about what would tell the core `here` of an access by `first`."""
    signal = f"a signal from {first} after its access, and a wait for it by {here} ({_SIGNAL})"
    if isinstance(first, Subcore) and isinstance(here, Subcore) and first.core is here.core:
        both_vector = first.kind == here.kind == VECTOR_SUBCORE
        return f"plsc.subcore_barrier() between the two, or {signal}" if both_vector else signal
    transfer = use.transfer
    if transfer is not None and use.write and transfer.remote and transfer.receiver is first:
        return (
            f"{signal}; or, if the DMA comes first, copy.wait_recv() by {first} before its access"
        )
    return signal


def _luck(
    other: Use, core: int, cores: Sequence[Core], semaphores: Mapping[Semaphore, Credits]
) -> list[Note]:
    """The note about a signal that tells of `other`, but which may not have ended the wait: another
    one may have."""
    if other.number < 0:
        return []
    for semaphore, credits in semaphores.items():
        missed = credits.missed(core, other.number, other.time)
        if missed is not None:
            signal, rival = missed
            return [
                Note(
                    f"this wait by {cores[core]} on {semaphore} may end without the signal that "
                    "tells of the access",
                    credits.location,
                ),
                Note("that signal", signal.location),
                Note("what may come in its place", rival and rival.location),
                Note(_OTHERS),
            ]
    return []
