"""Regions, traces and delays. Regions and traces have no custom form, only the generic one."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerType, VectorType, f32, i32
from xdsl.irdl import (
    EqAttrConstraint,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_result_def,
)
from xdsl.traits import (
    IsTerminator,
    Pure,
    RecursiveMemoryEffect,
    ReturnLike,
    SingleBlockImplicitTerminator,
)
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.constraints import verify_no_arguments
from pallasite.dialects.tpu.base import ANY, I32_ATTR, STRING_ATTR, TpuOp, operand, operands
from pallasite.dialects.types import is_float


@irdl_op_definition
class YieldOp(TpuOp):
    """Ends a region and gives its results."""

    name = "tpu.yield"

    arguments = operands(ANY)

    traits = traits_def(Pure(), IsTerminator(), ReturnLike())
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"


@irdl_op_definition
class RegionOp(TpuOp):
    """A scope for the memory and semaphores that its body allocates."""

    name = "tpu.region"

    outputs = var_result_def(ANY)
    body = region_def()

    traits = traits_def(RecursiveMemoryEffect(), SingleBlockImplicitTerminator(YieldOp))

    def verify_(self) -> None:
        for type in self.outputs.types:
            if not (is_float(type) or isinstance(type, IntegerType | IndexType | VectorType)):
                raise VerifyException(f"a region yields scalars and vectors, got {type}")
        check_yielded(self)


@irdl_op_definition
class TraceOp(TpuOp):
    """Runs its body under a name that profiles show."""

    name = "tpu.trace"

    message = prop_def(STRING_ATTR)
    level = prop_def(I32_ATTR)
    outputs = var_result_def(ANY)
    body = region_def()

    traits = traits_def(RecursiveMemoryEffect(), SingleBlockImplicitTerminator(YieldOp))

    def verify_(self) -> None:
        check_yielded(self)


def check_yielded(op: RegionOp | TraceOp) -> None:
    """What the body yields are the results; nothing is passed to it."""
    verify_no_arguments(op.body, "the body")
    # A body without a block, or without its end, is complete: it yields nothing.
    last = op.body.blocks[-1].last_op if op.body.blocks else None
    yielded = last.operand_types if isinstance(last, YieldOp) else ()
    if tuple(yielded) != tuple(op.outputs.types):
        given, expected = (
            f"({', '.join(map(str, types))})" for types in (yielded, op.outputs.types)
        )
        raise VerifyException(f"expected the body to yield {expected}, got {given}")


@irdl_op_definition
class TraceStartOp(TpuOp):
    """Opens a named span of profiles; the next unmatched `tpu.trace_stop` closes it."""

    name = "tpu.trace_start"

    message = prop_def(STRING_ATTR)
    level = prop_def(I32_ATTR)


@irdl_op_definition
class TraceStopOp(TpuOp):
    """Closes the innermost open span."""

    name = "tpu.trace_stop"


@irdl_op_definition
class TraceValueOp(TpuOp):
    """Shows a scalar in profiles."""

    name = "tpu.trace_value"

    value = operand(EqAttrConstraint(i32) | EqAttrConstraint(f32))
    label = prop_def(STRING_ATTR)

    assembly_format = "$value `,` $label attr-dict `:` type($value)"


@irdl_op_definition
class DelayOp(TpuOp):
    """Waits for some nanoseconds."""

    name = "tpu.delay"

    nanos = operand(i32)

    assembly_format = "$nanos attr-dict"


OPERATIONS = (
    RegionOp,
    YieldOp,
    TraceOp,
    TraceStartOp,
    TraceStopOp,
    TraceValueOp,
    DelayOp,
)
