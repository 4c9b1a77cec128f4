"""Refs and semaphores that live for a part of a kernel."""

from __future__ import annotations

from xdsl.ir import Block

from pallasite.dialects import memref
from pallasite.dialects.pallas import RunScopedOp, YieldOp
from pallasite.dialects.tpu import SemAllocOp
from pallasite.dialects.types import memory_space
from pallasite.frontend.jaxprs.internals import jax_core, pallas_primitives
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
    return e.emit(memref.AllocaOp(operands=[[], []], result_types=[kind]))
