"""Conversions between element types (spec/pallas_semantics.md section 4.3)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from pallasite.dialects import arith
from pallasite.dialects.tpu import BitcastOp
from pallasite.frontend.jaxprs import types
from pallasite.frontend.jaxprs.internals import tpu_primitives
from pallasite.frontend.jaxprs.rules import Result, rule
from pallasite.frontend.jaxprs.tracer import Equation, Known
from pallasite.frontend.jaxprs.types import (
    bits,
    is_bool,
    is_float,
    is_integer,
    is_signed,
    is_unsigned,
)


@rule(lax.convert_element_type_p)
def _convert(e: Equation) -> Result:
    old, new = e.inputs[0].dtype, e.output.dtype
    if old == new:
        return e.arguments
    wanted = e.result_type  # raises for types that no kernel has
    number = e.arguments[0]
    if isinstance(number, Known) and bits(old) > 32 and is_integer(old):
        # With jax_enable_x64 Python's integers are 64 bits wide until they meet an operand. Of
        # floats, the TPU compiler takes no such conversion.
        return Known(np.asarray(number.value, old).astype(new)[()], new)
    if is_float(old) and is_float(new) and bits(old) != bits(new):
        cast = arith.ExtFOp if bits(old) < bits(new) else arith.TruncFOp
        return e.emit(cast(e.operand(0), wanted))
    if is_integer(old) and is_integer(new):
        if bits(old) == bits(new) or e.operand(0).type == wanted:
            return e.operand(0)
        if bits(old) > bits(new):
            return e.emit(arith.TruncIOp(e.operand(0), wanted))
        return e.emit((arith.ExtSIOp if is_signed(old) else arith.ExtUIOp)(e.operand(0), wanted))
    if is_bool(old) and is_integer(new):
        return e.emit(arith.ExtUIOp(e.operand(0), wanted))
    if is_float(old) and is_integer(new):
        return e.emit((arith.FPToSIOp if is_signed(new) else arith.FPToUIOp)(e.operand(0), wanted))
    if is_integer(old) and is_float(new):
        return e.emit((arith.SIToFPOp if is_signed(old) else arith.UIToFPOp)(e.operand(0), wanted))
    return _in_steps(e, old, new)


def _in_steps(e: Equation, old: Any, new: Any) -> Result:
    """Conversions of and to bool, by way of 32-bit types."""
    if is_bool(old):
        return e.expand(lambda x: x.astype(jnp.int32).astype(new))
    if is_bool(new):
        wide = jnp.float32 if is_float(old) else jnp.uint32 if is_unsigned(old) else jnp.int32
        return e.expand(lambda x: x.astype(wide) != wide(0))
    raise e.unsupported(
        f"no TPU converts {old} to {new}", "convert to float32 in between", code="unsupported-type"
    )


@rule(lax.bitcast_convert_type_p)
def _same_bits(e: Equation) -> Result:
    old, new = e.inputs[0].dtype, e.params["new_dtype"]
    if bits(old) != bits(new):
        raise e.unsupported(
            f"lax.bitcast_convert_type from {old} to {new}, which are {bits(old)} and {bits(new)} "
            "bits wide",
            "use pltpu.bitcast, which packs along the second-minor dimension",
        )
    if types.element_type(old) == types.element_type(new):
        return e.operand(0)  # integers have no sign here
    if e.output.shape:
        return e.emit(BitcastOp(operands=[e.operand(0)], result_types=[e.result_type]))
    return e.emit(arith.BitcastOp(e.operand(0), e.result_type))


@rule(tpu_primitives.bitcast_p)
def _packed_bitcast(e: Equation) -> Result:
    if e.inputs[0].shape == e.output.shape and types.type_of(e.inputs[0]) == e.result_type:
        return e.operand(0)
    return e.emit(BitcastOp(operands=[e.operand(0)], result_types=[e.result_type]))
