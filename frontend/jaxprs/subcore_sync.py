"""Subcores among themselves: barriers, semaphores, the numbers of others, parallel loops, logs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from xdsl.dialects.builtin import IndexType, IntegerAttr, StringAttr, UnitAttr, i32, i64
from xdsl.ir import Block, SSAValue

from pallasite.dialects import arith, scf
from pallasite.dialects.tpu import (
    BarrierOp,
    LogBufferOp,
    LogOp,
    SemReadOp,
    SemSignalOp,
    SemWaitOp,
)
from pallasite.dialects.types import dense_integers
from pallasite.frontend.jaxprs.devices import Destination, axis_index, device_and_cores
from pallasite.frontend.jaxprs.internals import (
    core_type,
    debugging,
    mesh_of_memory,
    pallas_primitives,
    state_types,
    subcore_primitives,
    tpu_core,
)
from pallasite.frontend.jaxprs.refs import viewed
from pallasite.frontend.jaxprs.rules import Result, subcore_rule
from pallasite.frontend.jaxprs.semaphores import COUNT_KEPT
from pallasite.frontend.jaxprs.tracer import Equation, Tracer

PARALLEL = "sc.parallel_access"
"""Unit attribute of an `scf.for` whose turns do not depend on what others store."""
UNROLL = "sc.loop_unroll_factor"
"""Integer attribute of an `scf.for`: how many turns the compiler should write out."""


@subcore_rule(subcore_primitives.barrier_p)
def _barrier(e: Equation) -> Result:
    number = e.emit(arith.ConstantOp(IntegerAttr(0, IndexType())))
    e.add(BarrierOp(operands=[number]))
    return []


# Semaphores


def mesh_of(aval: Any) -> Any:
    """The mesh of the cores that have a ref; None if these are the cores that run."""
    return mesh_of_memory(aval.memory_space)


def destination(tracer: Tracer, device_id: Any, avals: Any, kind: Any, mesh: Any) -> Destination:
    """The destination that `device_id` names, of the cores of `mesh` (`mesh_of`)."""
    own = tracer.surroundings
    target = own.core if mesh is None else core_type(mesh)
    axes = tuple(own.names if mesh is None else mesh.shape)
    device, named = None, dict[Hashable, SSAValue]()
    if device_id is not None:
        device, named = device_and_cores(tracer, device_id, avals, kind, axes)
    foreign = [name for name in axes if name not in own.names]
    missing = [name for name in foreign if name not in named]
    if target is not own.core and missing:
        raise tracer.unsupported(
            f"a subcore of another kind is named by its axes, '{missing[0]}' is missing",
            f'write device_id={{"{missing[0]}": number}}',
            code="bad-device-id",
        )
    if mesh is None or (not foreign and target is own.core):
        # JAX names no other subcore of its own mesh.
        return Destination(device)

    def position(name: Hashable) -> SSAValue:
        return named[name] if name in named else axis_index(tracer, name)

    if target is tpu_core.CoreType.SC_VECTOR_SUBCORE:
        return Destination(device, position(mesh.core_axis_name), position(mesh.subcore_axis_name))
    if target is not tpu_core.CoreType.SC_SCALAR_SUBCORE:
        raise tracer.unsupported(
            "a TensorCore named from a subcore", "let subcores and TensorCores meet through HBM"
        )
    on_vector = own.core is tpu_core.CoreType.SC_VECTOR_SUBCORE
    given = mesh.axis_name in named
    return Destination(device, position(mesh.axis_name) if given or on_vector else None)


@subcore_rule(pallas_primitives.semaphore_signal_p)
def _signal(e: Equation) -> Result:
    tree = e.params["args_tree"]
    ref, transforms, amount, device_id, core = tree.unflatten(e.arguments)
    aval, _, _, id_avals, _ = tree.unflatten(e.inputs)
    semaphore = viewed(e.tracer, e.tracer.value(ref), transforms)
    mesh, where = mesh_of(aval), Destination()
    if device_id is not None or mesh is not None:
        where = destination(e.tracer, device_id, id_avals, e.params["device_id_type"], mesh)
    where = where.on_core(e, core)
    e.add(SemSignalOp(operands=[semaphore, e.tracer.value(amount), *where.operands]))
    return []


@subcore_rule(pallas_primitives.semaphore_wait_p)
def _wait(e: Equation) -> Result:
    ref, transforms, amount, decrement = e.params["args_tree"].unflatten(e.arguments)
    if not (decrement if isinstance(decrement, bool) else bool(decrement.value)):
        raise e.unsupported(*COUNT_KEPT)
    semaphore = viewed(e.tracer, e.tracer.value(ref), transforms)
    e.add(SemWaitOp(operands=[semaphore, e.tracer.value(amount)]))
    return []


@subcore_rule(pallas_primitives.semaphore_read_p)
def _read(e: Equation) -> Result:
    ref, transforms = e.params["args_tree"].unflatten(e.arguments)
    semaphore = viewed(e.tracer, e.tracer.value(ref), transforms)
    return e.emit(SemReadOp(operands=[semaphore], result_types=[i32]))


# Loops


@subcore_rule(subcore_primitives.parallel_loop_p)
def _parallel_loop(e: Equation) -> Result:
    low, high, step, consts, carry = e.params["tree"].unflatten(e.arguments)
    jaxpr = e.params["jaxpr"]
    carried = [e.tracer.value(v) for v in carry]
    block = Block(arg_types=[i32, *(value.type for value in carried)])
    first, last, stride = (e.tracer.value(v) for v in (low, high, step))
    with e.tracer.inside(block):
        results = e.tracer.run(jaxpr, list(block.args), consts)
        e.add(scf.YieldOp(*(e.tracer.value(v) for v in results)))
    op = scf.ForOp(first, last, stride, carried, block)
    op.attributes |= {PARALLEL: UnitAttr(), UNROLL: IntegerAttr(e.params["unroll"], i64)}
    e.add(op)
    return list(op.results)


# Logs


@subcore_rule(debugging.debug_print_p)
def _print(e: Equation) -> Result:
    """Of nothing, of one value, or of a ref."""
    if e.params["ordered"] or e.params["has_placeholders"] or len(e.arguments) > 1:
        raise e.unsupported(
            "an ordered print, a print with {} or of several values on a subcore",
            "print one value at a time, without placeholders: pl.debug_print('x', x)",
        )
    tag = StringAttr(e.params["fmt"])
    values: Sequence[SSAValue] = e.operands()
    if values and isinstance(aval := e.inputs[0], state_types.AbstractRef):
        shape = dense_integers(aval.shape)
        e.add(LogBufferOp(operands=[values[0]], properties={"tag": tag, "shape": shape}))
        return []
    e.add(LogOp(operands=[values], properties={"tag": tag}))
    return []
