"""Comparisons and choices: `arith.cmpi`, `arith.cmpf`, `arith.select`.

The predicate for `!=` of floats is the one that JAX's lowering writes and the TPU executes as true
on NaN (docs/internals/meanings.md, "Mosaic's `cmpf one`").
"""

from __future__ import annotations

from typing import Any

from jax import lax
from xdsl.ir import SSAValue

from pallasite.dialects import arith
from pallasite.frontend.jaxprs import types
from pallasite.frontend.jaxprs.rules import Result, rule
from pallasite.frontend.jaxprs.tracer import Equation
from pallasite.frontend.jaxprs.types import is_bool, is_float, is_unsigned

_PREDICATES: dict[Any, str] = {
    lax.eq_p: "eq",
    lax.ne_p: "ne",
    lax.lt_p: "lt",
    lax.le_p: "le",
    lax.gt_p: "gt",
    lax.ge_p: "ge",
}


@rule(*_PREDICATES)
def _compare(e: Equation) -> Result:
    dtype = e.inputs[0].dtype  # JAX compares values of one type
    predicate = _PREDICATES[e.equation.primitive]
    x, y = e.spread(0), e.spread(1)
    if is_bool(dtype):
        return _compare_booleans(e, predicate, x, y)
    if is_float(dtype):
        return e.emit(arith.CmpfOp(x, y, "one" if predicate == "ne" else "o" + predicate))
    if predicate not in ("eq", "ne"):
        predicate = ("u" if is_unsigned(dtype) else "s") + predicate
    return e.emit(arith.CmpiOp(x, y, predicate))


def _compare_booleans(e: Equation, predicate: str, x: SSAValue, y: SSAValue) -> SSAValue:
    """False is less than true."""
    match predicate:
        case "ne":
            return e.emit(arith.XOrIOp(x, y))
        case "eq":
            return _invert(e, e.emit(arith.XOrIOp(x, y)))
        case "lt":
            return e.emit(arith.AndIOp(_invert(e, x), y))
        case "le":
            return e.emit(arith.OrIOp(_invert(e, x), y))
        case "gt":
            return e.emit(arith.AndIOp(x, _invert(e, y)))
        case _:
            return e.emit(arith.OrIOp(x, _invert(e, y)))


def _invert(e: Equation, mask: SSAValue) -> SSAValue:
    return e.emit(arith.XOrIOp(mask, e.filled(True, bool)))


@rule(lax.select_n_p)
def _select(e: Equation) -> Result:
    which, *cases = e.arguments
    if len(cases) > 2:
        raise e.unsupported(
            f"a selection among {len(cases)} values", "nest jnp.where, or use lax.switch"
        )
    if len(cases) == 1:
        return cases[0]
    condition = e.tracer.value(which)
    if not is_bool(e.inputs[0].dtype):
        element = types.element_type(e.inputs[0].dtype)
        zero = e.tracer.spread(e.tracer.scalar(0, element), e.inputs[0].shape)
        condition = e.emit(arith.CmpiOp(condition, zero, "ne"))
    return e.emit(arith.SelectOp(condition, e.operand(2), e.operand(1)))
