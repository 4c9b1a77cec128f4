"""Reductions over some dimensions, and the positions of largest and smallest elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax

from pallasite.diagnostics import WITHOUT_X64
from pallasite.dialects.pallas import ArgReduceOp, ReduceOp
from pallasite.frontend.jaxprs.advice import COMBINED
from pallasite.frontend.jaxprs.rules import Result, rule
from pallasite.frontend.jaxprs.tracer import Equation
from pallasite.frontend.jaxprs.types import is_float

_KINDS: dict[Any, str] = {
    lax.reduce_sum_p: "add",
    lax.reduce_max_p: "max",
    lax.reduce_min_p: "min",
}
_LOGIC: dict[Any, str] = {lax.reduce_or_p: "or", lax.reduce_and_p: "and"}
_ARG: dict[Any, str] = {lax.argmax_p: "max", lax.argmin_p: "min"}


@rule(*_KINDS)
def _reduce(e: Equation) -> Result:
    dtype = e.inputs[0].dtype
    if not is_float(dtype) and dtype != np.int32:
        raise e.unsupported(
            f"'{e.name}' of {dtype}: vectors are reduced as floats or int32",
            _as_signed(_KINDS[e.equation.primitive], dtype),
            code="unsupported-type",
        )
    return _reduced(e, _KINDS[e.equation.primitive])


def _as_signed(kind: str, dtype: Any) -> str:
    """What to write instead of a reduction of integers; float32 does not hold all words."""
    if dtype != np.uint32:
        return "cast to int32 first, which holds all numbers of the type, and the result back"
    if kind == "add":
        return "add x.astype(jnp.int32), whose sums wrap alike, and cast the result back"
    return (
        f"order as int32 with the first bit turned: jnp.{kind}(x.astype(jnp.int32) ^ -2**31, "
        "axis) ^ -2**31, and cast the result back"
    )


@rule(*_LOGIC)
def _any_or_all(e: Equation) -> Result:
    if e.inputs[0].dtype != np.bool_:
        raise e.unsupported(
            f"'{e.name}' of {e.inputs[0].dtype}",
            "compare with zero first, x != 0, to ask for any or all",
            COMBINED.format(f"{_LOGIC[e.equation.primitive]}_"),
            code="unsupported-type",
        )
    return _reduced(e, _LOGIC[e.equation.primitive])


def _reduced(e: Equation, kind: str) -> Result:
    axes = sorted(int(axis) for axis in e.params["axes"])
    if not axes:
        return e.arguments
    return e.emit(ReduceOp(kind, e.operand(0), axes))


@rule(*_ARG)
def _position(e: Equation) -> Result:
    dtype, index, axes = e.inputs[0].dtype, e.params["index_dtype"], e.params["axes"]
    if dtype != np.float32 or index != np.int32:
        kind, advice = _ARG[e.equation.primitive], list[str]()
        if dtype in (np.int32, np.uint32):
            # Numbers beyond 2**24 would meet as float32.
            words = "" if dtype == np.int32 else " of words, with n = x.astype(jnp.int32) ^ -2**31"
            x = "x" if dtype == np.int32 else "n"
            advice = [
                f"take the first place that has the {kind}imum{words}: jnp.min(jnp.where({x} == "
                f"jnp.{kind}({x}, axis, keepdims=True), lax.broadcasted_iota(jnp.int32, x.shape, "
                "axis), x.shape[axis]), axis)"
            ]
        elif dtype != np.float32:
            advice = ["cast to float32 first, which holds all numbers of the type"]
        if index == np.int64:
            advice.append(f"use lax.{e.name}(x, axis, jnp.int32), {WITHOUT_X64}")
        elif index != np.int32:
            advice.append("ask for int32, and cast the result")
        if dtype == np.bool_:
            advice.append("jnp.select looks for its first true condition so: nest jnp.where")
        raise e.unsupported(
            f"'{e.name}' of {dtype} as {index}: positions are int32, of float32",
            *advice,
            code="unsupported-type",
        )
    if len(axes) != 1:
        raise e.unsupported(f"'{e.name}' along {len(axes)} axes", "reshape to one axis first")
    return e.emit(ArgReduceOp(_ARG[e.equation.primitive], e.operand(0), int(axes[0])))
