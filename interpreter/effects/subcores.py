"""What only subcores of SparseCores do: barriers, additions to each other's SMEM, and transfers
that gather and scatter (spec/tpu_dialect.md 3.8)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, cast

import numpy as np

from pallasite.diagnostics import SourceLocation
from pallasite.dialects import tpu
from pallasite.dialects.arith import known_integer
from pallasite.dialects.integers import wrap
from pallasite.dialects.locations import source_location
from pallasite.dialects.tpu.cores import VECTOR_SUBCORE
from pallasite.dialects.tpu.dma import is_gather
from pallasite.interpreter.effects.observed import is_repeated
from pallasite.interpreter.machine import indirect
from pallasite.interpreter.machine.accesses import Box
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.semaphores import Pause, Wait, amount_of
from pallasite.interpreter.machine.sparse import Subcore
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.meanings import Facts, effect

Steps = Generator[Wait, None, Any]


def subcore_of(
    present: Sequence[bool], kind: str, at: SourceLocation | None
) -> Callable[[Core, Sequence[int]], Core | None]:
    """The subcore of `kind` that ids address: a device, a SparseCore and a subcore, as `present`.

    None without ids.
    """

    def fn(core: Core, place: Sequence[int]) -> Core | None:
        if not place:
            return None
        ids = iter(place)
        device, index, number = (next(ids) if there else None for there in present)
        return cast(Subcore, core).subcore(kind, device, index, number, at)

    return fn


@effect(tpu.BarrierOp, blocking=True)
def barrier(op: tpu.BarrierOp, facts: Facts) -> Callable[[Core, int], Steps]:
    """Waits for the other vector subcores of this SparseCore."""
    at = source_location(op)
    return lambda core, number: cast(Subcore, core).barrier_of(number, at)


@effect(tpu.FetchAndAddSyncOp, blocking=True)
def fetch_and_add(op: tpu.FetchAndAddSyncOp, facts: Facts) -> Callable[..., Steps]:
    """Adds to a word of a vector subcore of this SparseCore, at once, and gives the old value.

    It orders nothing else. Any number of subcores may add to one word, and may ask for it again
    and again until another one has added; a plain load or store of it has to be ordered with
    them, as by a barrier after it is set (`plsc.fetch_and_add`). Who adds the constant 0,
    and does not ask again, loads the word.
    """
    at = source_location(op)
    rank = len(op.indices)
    loads = known_integer(op.value) == 0 and not is_repeated(op)

    def fn(core: Core, ref: Ref, *operands: int) -> Steps:
        index, (value, number) = operands[:rank], operands[rank:]
        other = cast(Subcore, core).subcore(VECTOR_SUBCORE, None, None, number, at)
        yield Pause()
        there = ref.on(other.memory(ref.buffer.memory.kind), at)
        if core.observer is not None:
            box = Box(there, index, (1,) * rank)
            told = core.observer.read if loads else core.observer.add
            told(core, box, at)
        old = there.load_scalar(index, at)
        there.store_scalar(index, wrap(old + value, 32), at)
        return old

    return fn


@effect(tpu.EnqueueIndirectDmaOp)
def enqueue_indirect(op: tpu.EnqueueIndirectDmaOp, facts: Facts) -> Callable[..., None]:
    """Starts a gather or a scatter of the rows that offsets name, in memory or in a vector."""
    at = source_location(op)
    gathers = is_gather(op.source.type, op.target.type)
    filtered, adds = op.offset_filter is not None, bool(op.add.value.data)

    def fn(core: Core, source: Ref, target: Ref, offsets: Any, semaphore: Ref, *rest: int) -> None:
        places = offsets
        if isinstance(offsets, Ref):
            if core.observer is not None:
                box = Box(offsets, (0,) * len(offsets.shape), offsets.shape)
                core.observer.read(core, box, at)
            places = offsets.read(at)
        rows = indirect.Rows(
            np.asarray(places).reshape(-1),
            rank=len(np.shape(places)),
            ignored=rest[0] if filtered else None,
            place=offsets if isinstance(offsets, Ref) else None,
        )
        indirect.start(core, source, target, semaphore, rows, gathers=gathers, adds=adds, at=at)

    return fn


@effect(tpu.WaitIndirectDmaOp, blocking=True)
def wait_indirect(op: tpu.WaitIndirectDmaOp, facts: Facts) -> Callable[..., Steps]:
    """Waits for as many bytes as the side has that lies in VMEM."""
    at = source_location(op)
    gathers = is_gather(op.src.type, op.dst.type)

    def fn(core: Core, semaphore: Ref, source: Ref, target: Ref) -> Steps:
        return core.wait(semaphore, amount_of(semaphore, target if gathers else source), at)

    return fn
