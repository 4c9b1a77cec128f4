"""Refs and semaphores that live for a part of a kernel."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, SSAValue

from pallasite.dialects import memref
from pallasite.dialects.pallas import RunScopedOp, StoreOp, YieldOp, whole
from pallasite.dialects.pallas.base import ref_type
from pallasite.dialects.tpu import SemAllocOp
from pallasite.dialects.types import memory_space
from pallasite.frontend.jaxprs.internals import jax_core, pallas_primitives, poison_buffers_enabled
from pallasite.frontend.jaxprs.rules import Result, rule
from pallasite.frontend.jaxprs.tracer import Equation
from pallasite.frontend.jaxprs.windows import name_arguments


@rule(pallas_primitives.run_scoped_p)
def _run_scoped(e: Equation) -> Result:
    if e.params["collective_axes"]:
        raise e.unsupported("memory shared by several cores", "leave out collective_axes=")
    jaxpr = e.params["jaxpr"]
    allocated = [e.tracer.type_of(variable.aval) for variable in jaxpr.invars]
    block = Block(arg_types=allocated)
    name_arguments(block, jaxpr.debug_info)
    with e.tracer.inside(block):
        for ref in block.args:
            _spoil(e, ref)
        # The constants of the body are what it uses from outside.
        results = e.tracer.run(jaxpr, list(block.args), e.arguments)
        e.add(YieldOp(*(e.tracer.value(v) for v in results)))
    op = RunScopedOp(block, [e.tracer.type_of(aval) for aval in e.outputs])
    e.add(op)
    return list(op.results)


@rule(jax_core.empty_ref_p)
def _empty_ref(e: Equation) -> Result:
    """Memory until the end of the region around it."""
    kind = e.result_type
    if memory_space(kind) == "semaphore_mem":
        return e.emit(SemAllocOp(result_types=[kind]))
    ref: Any = e.emit(memref.AllocaOp(operands=[[], []], result_types=[kind]))
    _spoil(e, ref)
    return ref


def _spoil(e: Equation, ref: SSAValue) -> None:
    """Fills VMEM that nobody has written, if `jax_pallas_poison_buffers` asks for it: with NaN, the
    least integer, or true, as JAX's own lowering does."""
    if not poison_buffers_enabled() or memory_space(ref.type) != "vmem":
        return
    kind = ref_type(ref)
    element = kind.element_type
    value: Any = float("nan")
    if isinstance(element, IntegerType):
        bits = element.width.data
        value = 1 if bits == 1 else -(1 << (bits - 1))
    filled = e.tracer.spread(e.tracer.scalar(value, element), kind.get_shape())
    e.add(StoreOp(filled, ref, whole(kind), None))
