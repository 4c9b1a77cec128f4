"""The DMA engines: asynchronous copies between any two refs (spec/pallas_semantics.md 3.7).

A transfer is enqueued, its source is read, its target is written; a remote one credits the source
semaphore on the sender after the reading and the target semaphore on the receiver after the
writing, a local one only its target semaphore. DMA semaphores rise by bytes, regular ones by one.
Transfers from one core to another arrive in the order in which they were started, as on one route
between chips; kernels that count arrivals on one semaphore rely on it (JAX's own all-gather does).
An engine that is `unordered` does not promise that. Otherwise, when the two halves happen is the
policy's choice, within what the hardware allows:

* `eager`: both at once when the transfer is enqueued;
* `on_wait`: as late as possible, when somebody waits for the semaphore it credits; of several
  transfers the newest goes first, because nothing orders them;
* `random`: at any point in between, by seed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pallasite.diagnostics import ExecutionError, Note, SourceLocation
from pallasite.interpreter.machine.copies import copy_elements, snapshot
from pallasite.interpreter.machine.dma_rules import (
    Aliases,
    check_in_scope,
    check_written_once,
)
from pallasite.interpreter.machine.memory import Buffer
from pallasite.interpreter.machine.order import Order
from pallasite.interpreter.machine.regions import whole_region
from pallasite.interpreter.machine.rivals import meet
from pallasite.interpreter.machine.rounding import fill_edge, spoil_behind
from pallasite.interpreter.machine.semaphores import Semaphore
from pallasite.interpreter.machine.views import Ref

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core

STIRRED = 32
"""How many transfers in flight one event may move on: enough for any order to occur."""
MOST_IN_FLIGHT = 1 << 16
"""Transfers in flight for each core of the machine. On the hardware, a core waits while its queue
is full, so that kernels may start any number before they wait."""


@dataclass(eq=False, slots=True)
class Transfer:
    """One copy in flight."""

    sender: Core
    receiver: Core
    source: Ref
    target: Ref
    """As the sender names it: of a remote transfer, the twin on the receiver is meant."""
    source_semaphore: Semaphore | None
    target_semaphore: Semaphore
    source_amount: int
    target_amount: int
    location: SourceLocation | None = None
    remote: bool = False
    reach: Ref | None = None
    """The target with what is overwritten behind it, if the transfer is one of whole tiles."""
    edge: bool = False
    """Whether that is a block which reaches over the edge of the source's array."""
    data: Ref | None = None
    """A copy of the source, between the two halves of a transfer."""
    read: bool = False
    done: bool = False
    add: bool = False
    """Whether it adds to what its target holds, which others may do at the same time."""
    rival: SourceLocation | None = None
    """Where one began that was in flight with it, in no order, on the same semaphore."""

    plain: bool = False
    """Whether it only copies, within a core, and nobody is told of it (`Engine.hurry`)."""

    @property
    def parts(self) -> Sequence[Transfer]:
        """What checks see of it: transfers from a box to a box."""
        return (self,)

    @property
    def bits(self) -> int:
        """Bits of the elements that it moves, padding not counted."""
        return self.source.bit_count

    def take(self) -> None:
        """Reads the source."""
        self.data = snapshot(self.source)

    def put(self, target: Ref) -> None:
        """Writes `target`, the target on the receiver, with what was read or is there now."""
        copy(self.data or self.source, target, self.location)

    def land(self) -> bool:
        """Copies, if that is all prepared and nothing is wrong; else does nothing."""
        return False

    def drop_data(self) -> None:
        """Forgets what was read."""
        if self.data is not None:
            self.data.buffer.forget()
            self.data = None

    @property
    def is_empty(self) -> bool:
        """Whether it moves nothing and adds nothing to a semaphore."""
        return 0 in self.source.shape and not self.source_amount and not self.target_amount

    def describe(self) -> str:
        """What messages call it: its ends, its core and its line."""
        where = f" enqueued at {self.location}" if self.location else ""
        source, target = self.source.buffer.title, self.target.buffer.title
        there = f" of {self.receiver}" if self.remote else ""
        return f"the DMA of {self.extent} from {source} to {target}{there} by {self.sender}{where}"

    @property
    def extent(self) -> str:
        """How much it moves, for messages."""
        return f"{list(self.source.shape)} x {self.source.element}"


def copy(source: Ref, target: Ref, at: SourceLocation | None = None) -> None:
    """Copies the elements of `source` to `target` at once."""
    if source.shape != target.shape or source.codec.bits != target.codec.bits:
        raise unlike(source, target, at)
    if source.buffer.freed or target.buffer.freed:
        source.alive(at)
        target.alive(at)
    copy_elements(source, target)


def unlike(source: Ref, target: Ref, at: SourceLocation | None) -> ExecutionError:
    """A copy whose ends have other shapes or widths of elements than each other."""
    return ExecutionError(
        "dma-shape",
        f"source is {list(source.shape)} x {source.element}, "
        f"target is {list(target.shape)} x {target.element}",
        at,
    )


class Engine:
    """All DMA engines of a machine."""

    def __init__(self, order: Order, cores: int = 1) -> None:
        self.limit = cores * MOST_IN_FLIGHT
        self.order = order
        self.random = order.source()
        self.flying: dict[Transfer, None] = {}
        """Transfers in flight, oldest first."""
        self.aliases = Aliases(self.flying)
        self.passes = False
        """Whether the kernel has semaphores that it passes on to later ones."""
        self.routes: dict[tuple[Core, Core], list[Transfer]] = {}
        """The remote ones among them, by sender and receiver, if these have an order."""
        self.dropped: list[Transfer] = []
        """Those that were never waited for, and of which an end was gone when the kernel ended."""
        self.started = 0
        """Transfers that were started, in all."""
        self.bits = 0
        """Bits of elements that they move, padding not counted."""

    def enqueue(self, transfer: Transfer) -> None:
        """Starts `transfer`."""
        if transfer.source.shape != transfer.target.shape and transfer.parts == (transfer,):
            copy(transfer.source, transfer.target, transfer.location)
        if len(self.flying) >= self.limit:
            raise ExecutionError(
                "too-many-dmas",
                f"{len(self.flying)} DMAs are in flight that nobody has waited for",
                transfer.location,
                [Note("wait for earlier ones first: copy.wait(), for as many as are started")],
            )
        if transfer.target.buffer.boxes is not None:
            check_written_once(transfer)
        if 0 in transfer.source.shape and transfer.is_empty:
            # A wait for nothing is none, so that no wait would ever land it.
            transfer.read = transfer.done = True
            self.started += 1
            return
        if self.passes:
            self.land_passed(transfer.source.buffer)
        if transfer.target.buffer.aliased or transfer.source.buffer.aliased:
            self.aliases.check(transfer)
        self.flying[transfer] = None
        if transfer.remote and not self.order.unordered:
            self.routes.setdefault((transfer.sender, transfer.receiver), []).append(transfer)
        self.started += 1
        self.bits += transfer.bits
        transfer.target_semaphore.pending.append(transfer)
        if transfer.source_semaphore is not None:
            transfer.source_semaphore.pending.append(transfer)
        observer = transfer.sender.observer
        if observer is not None:
            meet(transfer, self.order.unordered)
            for part in transfer.parts:
                observer.dma_start(part)
        if self.order.policy == "eager":
            self.finish(transfer)
        elif self.random is not None:
            self.stir(self.random)
        elif transfer.target_semaphore.waiters or transfer.source_semaphore is not None:
            self._serve_waiters(transfer)

    def has_to_read(self, ref: Ref) -> bool:
        """Whether a transfer in flight has not read its source yet, and some of it is in `ref`."""
        return any(
            transfer.source.buffer is ref.buffer
            and not transfer.read
            and whole_region(transfer.source).overlaps(whole_region(ref))
            for transfer in self.flying
        )

    def land_passed(self, buffer: Buffer) -> None:
        """Lands what a later kernel waits for before `buffer` is copied out of VMEM, or freed.

        On the hardware an operand in VMEM or SMEM stays there from kernel to kernel.
        """
        for earlier in list(self.flying) if self.passes else ():
            if earlier.target_semaphore.passed:
                if buffer is earlier.source.buffer or buffer is earlier.target.buffer:
                    self.finish(earlier)

    def _serve_waiters(self, transfer: Transfer) -> None:
        # Somebody is waiting already, so "as late as the wait allows" is now.
        if transfer.source_semaphore is not None and transfer.source_semaphore.waiters:
            self.read(transfer)
        if transfer.target_semaphore.waiters:
            self.finish(transfer)

    def hurry(self, semaphore: Semaphore, amount: int) -> None:
        """A core is about to wait until `semaphore` holds `amount`: lets what it needs land."""
        if self.random is not None:
            self.stir(self.random)
            return
        pending = semaphore.pending
        while semaphore.value < amount and pending and pending[-1].plain:
            self._land(pending[-1])
        while semaphore.value < amount:
            # The newest first; what cannot land yet stays in flight.
            for transfer in reversed(semaphore.pending):
                if self._advance(transfer, semaphore):
                    break
            else:
                break

    def _land(self, transfer: Transfer) -> None:
        """`finish` of a plain transfer, the last one that will credit its semaphore."""
        if not transfer.land():
            source, target = transfer.source, transfer.target
            if source.buffer.freed or target.buffer.freed:
                check_in_scope(transfer, source)
                check_in_scope(transfer, target)
            if source.codec.bits != target.codec.bits:
                raise unlike(source, target, transfer.location)
            copy_elements(source, target)
            if target.buffer.landed is not None:
                target.buffer.landed.add((target.base, target.starts, target.shape, target.digits))
        transfer.read = transfer.done = True
        del self.flying[transfer]
        semaphore = transfer.target_semaphore
        semaphore.pending.pop()
        semaphore.credit(transfer.target_amount, transfer.sender, transfer.location)

    def _advance(self, transfer: Transfer, semaphore: Semaphore) -> bool:
        """The half of a transfer that credits `semaphore`; False if that cannot happen yet."""
        if transfer.source_semaphore is semaphore and not transfer.read:
            self.read(transfer)
            return True
        self.finish(transfer)
        return transfer.done

    def stir(self, order: random.Random) -> None:
        """Moves a random choice of the transfers in flight on by a random number of halves."""
        flying = list(self.flying)
        if len(flying) > STIRRED:
            flying = order.sample(flying, STIRRED)
        for transfer in flying:
            choice = order.random()
            if choice < 0.25:
                self.finish(transfer)
            elif choice < 0.5:
                self.read(transfer)

    def land_one(self) -> bool:
        """Finishes one transfer in flight; False if there is none.

        Everybody sleeps, so every program has begun.
        """
        if not self.flying:
            return False
        if self.random is not None:
            self.finish(self.random.choice(list(self.flying)))
        else:
            self.finish(next(reversed(self.flying)))
        return True

    def read(self, transfer: Transfer) -> None:
        """The first half: reads the source and credits the source semaphore."""
        if transfer.read:
            return
        check_in_scope(transfer, transfer.source)
        if transfer.sender.recorder is not None:
            transfer.sender.recorder.give_up()
        transfer.take()
        self._was_read(transfer)

    def _was_read(self, transfer: Transfer) -> None:
        transfer.read = True
        observer = transfer.sender.observer
        if observer is not None:
            for part in transfer.parts:
                observer.dma_read(part)
        if transfer.source_semaphore is not None:
            transfer.source_semaphore.pending.remove(transfer)
            transfer.source_semaphore.credit(
                transfer.source_amount, transfer.sender, transfer.location
            )

    def finish(self, transfer: Transfer) -> None:
        """Both halves, or the second one: writes the target and credits its semaphore.

        Kernels enter together (spec/pallas_semantics.md 1.8, `skip_device_barrier`): what is sent
        to a core whose program has not begun stays in flight until its memory is there.
        """
        if transfer.done or (transfer.remote and not transfer.receiver.begun):
            return
        target = transfer.target
        if transfer.remote:
            if not self.order.unordered:
                route = self.routes[transfer.sender, transfer.receiver]
                while route[0] is not transfer:
                    self.finish(route[0])
                del route[0]
            memory = transfer.receiver.memory(target.buffer.memory.kind)
            target = target.on(memory, transfer.location)
        source = transfer.data or transfer.source
        if source.buffer.freed or target.buffer.freed:
            check_in_scope(transfer, source)
            check_in_scope(transfer, target)
        transfer.put(target)
        if transfer.sender.recorder is not None:
            transfer.sender.recorder.copied(source, target)
        if target.buffer.landed is not None:
            target.buffer.landed.add((target.base, target.starts, target.shape, target.digits))
        if transfer.reach is not None:
            spoil_behind(target, transfer.reach.shape, transfer.sender.recorder)
            if transfer.edge:
                fill_edge(transfer.source, target, transfer.reach.shape)
        if not transfer.read:
            self._was_read(transfer)
        transfer.done = True
        transfer.drop_data()
        del self.flying[transfer]
        observer = transfer.sender.observer
        if observer is not None:
            for part in transfer.parts:
                observer.dma_done(part)
        transfer.target_semaphore.pending.remove(transfer)
        transfer.target_semaphore.credit(transfer.target_amount, transfer.sender, transfer.location)

    def drop(self, transfer: Transfer) -> None:
        """Forgets a transfer whose source or target no longer exists."""
        self.dropped.append(transfer)
        del self.flying[transfer]
        if transfer.remote and not self.order.unordered:
            self.routes[transfer.sender, transfer.receiver].remove(transfer)
        transfer.target_semaphore.pending.remove(transfer)
        if transfer.source_semaphore is not None and not transfer.read:
            transfer.source_semaphore.pending.remove(transfer)
