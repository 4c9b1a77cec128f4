"""Semaphores: signal, wait, read, the barrier semaphore, and delays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from pallasite.dialects.tpu import (
    DelayOp,
    SemBarrierOp,
    SemReadOp,
    SemSignalOp,
    SemWaitOp,
)
from pallasite.frontend.jaxprs.devices import destination_of
from pallasite.frontend.jaxprs.internals import (
    core_of_memory,
    pallas_primitives,
    tpu_primitives,
)
from pallasite.frontend.jaxprs.refs import viewed
from pallasite.frontend.jaxprs.rules import Result, rule
from pallasite.frontend.jaxprs.tracer import Equation, Value

COUNT_KEPT = (
    "a wait that leaves the count as it is, of which JAX lowers one that takes it away",
    "wait with decrement=True and signal again, pl.semaphore_signal(sem, n), or look at "
    "pl.semaphore_read(sem)",
)
"""What is said of a wait with decrement=False, and what to do instead."""


def _semaphore(e: Equation, ref: Value, transforms: Sequence[Any], aval: Any) -> SSAValue:
    if core_of_memory(aval.memory_space) is not None:
        raise e.unsupported(
            "a semaphore of other cores than the TensorCore", "use a semaphore of the TensorCore"
        )
    return viewed(e.tracer, e.tracer.value(ref), transforms)


@rule(pallas_primitives.semaphore_signal_p)
def _signal(e: Equation) -> Result:
    tree = e.params["args_tree"]
    ref, transforms, amount, device_id, core = tree.unflatten(e.arguments)
    aval, _, _, id_avals, _ = tree.unflatten(e.inputs)
    semaphore = _semaphore(e, ref, transforms, aval)
    where = destination_of(e.tracer, device_id, id_avals, e.params["device_id_type"])
    where = where.on_core(e, core)
    e.add(SemSignalOp(operands=[semaphore, e.tracer.value(amount), *where.operands]))
    return []


@rule(pallas_primitives.semaphore_wait_p)
def _wait(e: Equation) -> Result:
    tree = e.params["args_tree"]
    ref, transforms, amount, decrement = tree.unflatten(e.arguments)
    aval, *_ = tree.unflatten(e.inputs)
    if not (decrement if isinstance(decrement, bool) else bool(decrement.value)):
        raise e.unsupported(*COUNT_KEPT)
    semaphore = _semaphore(e, ref, transforms, aval)
    e.add(SemWaitOp(operands=[semaphore, e.tracer.value(amount)]))
    return []


@rule(pallas_primitives.semaphore_read_p)
def _read(e: Equation) -> Result:
    ref, transforms = e.params["args_tree"].unflatten(e.arguments)
    aval, _ = e.params["args_tree"].unflatten(e.inputs)
    semaphore = _semaphore(e, ref, transforms, aval)
    return e.emit(SemReadOp(operands=[semaphore], result_types=[i32]))


@rule(tpu_primitives.get_barrier_semaphore_p)
def _barrier_semaphore(e: Equation) -> Result:
    return e.emit(SemBarrierOp(result_types=[e.result_type]))


@rule(pallas_primitives.delay_p)
def _delay(e: Equation) -> Result:
    e.add(DelayOp(operands=[e.operand(0)]))
    return []
