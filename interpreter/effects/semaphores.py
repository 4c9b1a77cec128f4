"""Semaphores (spec/tpu_dialect.md 3.8)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from pallasite.diagnostics import Note, Unsupported
from pallasite.dialects import tpu
from pallasite.dialects.in_words import in_words
from pallasite.dialects.integers import wrap
from pallasite.dialects.locations import allocated_name, allocation_place, source_location
from pallasite.dialects.tpu.cores import TENSOR_CORE, memory_core, own_core
from pallasite.dialects.types import AnyMemRef
from pallasite.interpreter.effects.observed import is_repeated
from pallasite.interpreter.effects.subcores import subcore_of
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.semaphores import Pause, Wait
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.meanings import Facts, effect

Steps = Generator[Wait, None, Any]


@effect(tpu.SemAllocOp)
def alloc(op: tpu.SemAllocOp, facts: Facts) -> Callable[[Core], Ref]:
    """Fresh semaphores for the enclosing scope."""
    at = allocation_place(op)
    type = op.result.type
    name = allocated_name(op, "semaphore")
    shape = type.get_shape()
    return lambda core: core.allocate(type, name, at, shape=shape)


@effect(tpu.SemBarrierOp)
def barrier(op: tpu.SemBarrierOp, facts: Facts) -> Callable[[Core], Ref]:
    """The barrier semaphore, at the same place on every core of every device."""
    type = op.result.type
    element = type.element_type
    return lambda core: core.barrier(element)


@effect(tpu.SemReadOp, blocking=True)
def read(op: tpu.SemReadOp, facts: Facts) -> Callable[[Core, Ref], Steps]:
    """The present count. Whoever polls one must let the others go on."""
    at = source_location(op)
    watched = op.results[0].first_use is not None and not is_repeated(op)

    def fn(core: Core, ref: Ref) -> Steps:
        semaphore = core.semaphore(ref, at)
        core.machine.engine.hurry(semaphore, semaphore.value + 1)
        yield Pause()
        if watched and core.observer is not None:
            core.observer.count(core, semaphore, at)
        return wrap(semaphore.value, 32)

    return fn


@effect(tpu.SemWaitOp, blocking=True)
def wait(op: tpu.SemWaitOp, facts: Facts) -> Callable[[Core, Ref, int], Steps]:
    """Blocks until the count suffices, then takes the amount."""
    at = source_location(op)
    return lambda core, ref, amount: core.wait(ref, amount, at)


@effect(tpu.SemSignalOp)
def signal(op: tpu.SemSignalOp, facts: Facts) -> Callable[..., None]:
    """Adds to a semaphore here, on another core, or on another device."""
    at = source_location(op)
    peer = peer_of(op, op.semaphore.type)

    def fn(core: Core, ref: Ref, amount: int, *place: int) -> None:
        core.signal(peer(core, place) or core, ref, amount, at)

    return fn


def peer_of(
    op: tpu.SemSignalOp | tpu.EnqueueDmaOp, semaphore: AnyMemRef
) -> Callable[[Core, Sequence[int]], Core | None]:
    """Whom the ids of `op`, its last operands, address on behalf of a core; None without ids."""
    at = source_location(op)
    present = [op.device_id is not None, op.core_id is not None, op.subcore_id is not None]
    kind = memory_core(semaphore) or own_core(op)
    if own_core(op) != TENSOR_CORE:
        return subcore_of(present, kind, at)
    if op.subcore_id is not None:
        raise Unsupported(
            "subcore",
            f"{in_words(op)} addresses a subcore of a SparseCore from a TensorCore",
            at,
            [Note("a TensorCore reaches other TensorCores: leave subcore_index away")],
        )
    has_device, has_core, _ = present

    def fn(core: Core, place: Sequence[int]) -> Core | None:
        if not place:
            return None
        return core.peer(place[0] if has_device else None, place[-1] if has_core else None, at)

    return fn
