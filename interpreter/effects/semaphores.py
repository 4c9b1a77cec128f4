"""Semaphores (spec/tpu_dialect.md 3.8)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from pallasite.diagnostics import Unsupported
from pallasite.dialects import tpu
from pallasite.dialects.locations import allocation_place, source_location
from pallasite.interpreter import values
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
    name = f"%{op.result.name_hint}" if op.result.name_hint else "semaphore"
    return lambda core: core.allocate(type, name, at)


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

    def fn(core: Core, ref: Ref) -> Steps:
        semaphore = core.semaphore(ref, at)
        core.machine.engine.hurry(semaphore, semaphore.value + 1)
        yield Pause()
        return values.wrap(semaphore.value, 32)

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
    if op.subcore_id is not None:
        raise no_subcores(op)
    has_device, has_core = op.device_id is not None, op.core_id is not None

    def fn(core: Core, ref: Ref, amount: int, *place: int) -> None:
        device = place[0] if has_device else None
        index = place[-1] if has_core else None
        core.signal(core.peer(device, index, at), ref, amount, at)

    return fn


def no_subcores(op: Any) -> Unsupported:
    """The refusal of an op that addresses SparseCore subcores."""
    return Unsupported(
        "subcore",
        f"{op.name} addresses a SparseCore subcore; only TensorCores are modelled",
        source_location(op),
    )
