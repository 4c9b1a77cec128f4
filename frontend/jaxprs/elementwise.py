"""Arithmetic and logic on every element: `arith` and `math` say it, chosen by the JAX type.

What has no operation is expanded as JAX's TPU lowering does: `logistic` is 1 / (1 + exp(-x)),
`neg` is 0 - x, `clamp` is min(max(x, low), high), and so on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from pallasite.diagnostics import Diagnostic
from pallasite.dialects import arith, math
from pallasite.dialects.tpu import ReciprocalOp, WeirdOp
from pallasite.frontend.jaxprs import types
from pallasite.frontend.jaxprs.internals import (
    ad_checkpoint,
    ad_util,
    jax_core,
    lax_internal,
    pallas_primitives,
    pallas_utils,
    pjit,
    primitives,
)
from pallasite.frontend.jaxprs.rules import Result, rule
from pallasite.frontend.jaxprs.tracer import Equation, Known
from pallasite.frontend.jaxprs.types import is_bool, is_float, is_integer, is_signed, is_unsigned

BinaryOp = Callable[[SSAValue, SSAValue], Operation]
UnaryOp = Callable[[SSAValue], Operation]

# Operations for floats, signed and unsigned integers; None where there is no meaning.
_BINARY: dict[Any, tuple[BinaryOp | None, BinaryOp | None, BinaryOp | None]] = {
    lax.add_p: (arith.AddfOp, arith.AddiOp, arith.AddiOp),
    ad_util.add_any_p: (arith.AddfOp, arith.AddiOp, arith.AddiOp),
    lax.sub_p: (arith.SubfOp, arith.SubiOp, arith.SubiOp),
    lax.mul_p: (arith.MulfOp, arith.MuliOp, arith.MuliOp),
    lax.div_p: (arith.DivfOp, arith.DivSIOp, arith.DivUIOp),
    lax.rem_p: (arith.RemFOp, arith.RemSIOp, arith.RemUIOp),
    lax.max_p: (arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp),
    lax.min_p: (arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp),
    lax.atan2_p: (math.Atan2Op, None, None),
    lax.shift_left_p: (None, arith.ShLIOp, arith.ShLIOp),
    lax.shift_right_arithmetic_p: (None, arith.ShRSIOp, arith.ShRSIOp),
    lax.shift_right_logical_p: (None, arith.ShRUIOp, arith.ShRUIOp),
}
_LOGIC: dict[Any, BinaryOp] = {
    lax.and_p: arith.AndIOp,
    lax.or_p: arith.OrIOp,
    lax.xor_p: arith.XOrIOp,
}
_UNARY: dict[Any, UnaryOp] = {
    lax.exp_p: math.ExpOp,
    lax.exp2_p: math.Exp2Op,
    lax.log_p: math.LogOp,
    lax.log1p_p: math.Log1pOp,
    lax.tanh_p: math.TanhOp,
    lax.sqrt_p: math.SqrtOp,
    lax.rsqrt_p: math.RsqrtOp,
    lax.sin_p: math.SinOp,
    lax.cos_p: math.CosOp,
    lax.tan_p: math.TanOp,
    lax.erf_p: math.ErfOp,
    lax.floor_p: math.FloorOp,
    lax.ceil_p: math.CeilOp,
}
_IDENTITIES = (
    lax.stop_gradient_p,
    lax_internal.copy_p,
    lax_internal.optimization_barrier_p,
    pjit.reshard_p,
    *primitives(jax_core, "stage_p"),
    ad_checkpoint.name_p,
)


@rule(*_BINARY)
def _binary(e: Equation) -> Result:
    if (wanted := e.params.get("out_dtype")) is not None and wanted != e.inputs[0].dtype:
        raise e.unsupported(f"'{e.name}' with out_dtype={wanted}", "cast the operands before")
    floats, signed, unsigned = _BINARY[e.equation.primitive]
    dtype = e.output.dtype
    op = floats if is_float(dtype) else signed if is_signed(dtype) else unsigned
    if op is None or not (is_float(dtype) or is_integer(dtype)):
        raise _wrong_type(e, dtype)
    return e.emit(op(e.spread(0), e.spread(1)))


@rule(*_LOGIC)
def _logic(e: Equation) -> Result:
    return e.emit(_LOGIC[e.equation.primitive](e.spread(0), e.spread(1)))


@rule(*_UNARY)
def _unary(e: Equation) -> Result:
    _exact_enough(e)
    if not is_float(e.output.dtype):
        raise _wrong_type(e, e.output.dtype)
    return e.emit(_UNARY[e.equation.primitive](e.operand(0)))


@rule(*_IDENTITIES)
def _identity(e: Equation) -> Result:
    return e.arguments


@rule(lax.not_p)
def _not(e: Equation) -> Result:
    ones = e.filled(-1)
    return e.emit(arith.XOrIOp(e.operand(0), ones))


@rule(lax.neg_p)
def _neg(e: Equation) -> Result:
    minus = arith.SubfOp if is_float(e.output.dtype) else arith.SubiOp
    return e.emit(minus(e.filled(0), e.operand(0)))


@rule(lax.abs_p)
def _abs(e: Equation) -> Result:
    if is_unsigned(e.output.dtype):
        return e.arguments
    absolute = math.AbsFOp if is_float(e.output.dtype) else math.AbsIOp
    return e.emit(absolute(e.operand(0)))


@rule(lax.square_p)
def _square(e: Equation) -> Result:
    x = e.operand(0)
    return e.emit((arith.MulfOp if is_float(e.output.dtype) else arith.MuliOp)(x, x))


@rule(lax.pow_p)
def _pow(e: Equation) -> Result:
    base, exponent = e.arguments[0], e.operand(1)
    kind = e.inputs[1].dtype
    if is_integer(kind):
        convert = arith.SIToFPOp if is_signed(kind) else arith.UIToFPOp
        shape = e.inputs[1].shape
        wanted = types.value_type(shape, types.element_type(e.output.dtype))
        exponent = e.emit(convert(exponent, wanted))
    exponent = e.tracer.spread(exponent, e.output.shape)
    if isinstance(base, Known) and base.value == 2:
        return e.emit(math.Exp2Op(exponent))
    return e.emit(math.PowFOp(e.spread(0), exponent))


@rule(lax.integer_pow_p)
def _integer_pow(e: Equation) -> Result:
    power = e.params["y"]
    return e.expand(lambda x: lax_internal._integer_pow(x, y=power))  # pyright: ignore[reportPrivateUsage]


@rule(lax.logistic_p)
def _logistic(e: Equation) -> Result:
    _exact_enough(e)
    power = e.emit(math.ExpOp(e.emit(arith.NegfOp(e.operand(0)))))
    one = e.filled(1.0)
    return e.emit(arith.DivfOp(one, e.emit(arith.AddfOp(one, power))))


@rule(lax.round_p)
def _round(e: Equation) -> Result:
    method = lax.RoundingMethod(e.params["rounding_method"])
    if method is lax.RoundingMethod.AWAY_FROM_ZERO:
        return e.emit(math.RoundOp(e.operand(0)))
    return e.emit(math.RoundEvenOp(e.operand(0)))


@rule(lax.clz_p)
def _clz(e: Equation) -> Result:
    return e.emit(math.CountLeadingZerosOp(e.operand(0)))


@rule(lax.population_count_p)
def _population_count(e: Equation) -> Result:
    if not e.output.shape:
        raise e.unsupported(
            "the scalar unit has no population count",
            "count the bits of a vector of it: "
            "jnp.max(lax.population_count(jnp.full((8, 128), n)))",
        )
    return e.emit(math.CtPopOp(e.operand(0)))


@rule(lax.sign_p)
def _sign(e: Equation) -> Result:
    dtype = e.output.dtype
    if not is_float(dtype):
        if is_unsigned(dtype):
            return e.expand(lambda x: (x != 0).astype(x.dtype))
        return e.expand(lambda x: (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype))
    # One with the sign bit of x; x itself where it is a zero or no number. Every generation that
    # we know computes this in 16 bits for bfloat16.
    narrow = types.bits(dtype) == 16
    word = jnp.uint16 if narrow else jnp.uint32
    one, sign = (0x3F80, 0x8000) if narrow else (0x3F800000, 0x80000000)

    def signed_one(x: Any) -> Any:
        wide = x if narrow else x.astype(jnp.float32)
        words = lax.bitcast_convert_type(wide, word)
        signed = lax.bitwise_or(word(one), lax.bitwise_and(words, word(sign)))
        signed = lax.bitcast_convert_type(signed, wide.dtype)
        return jnp.where(jnp.abs(wide) > 0.0, signed, wide).astype(x.dtype)

    return e.expand(signed_one)


@rule(lax.clamp_p)
def _clamp(e: Equation) -> Result:
    return e.expand(lambda low, x, high: jnp.minimum(jnp.maximum(x, low), high))


@rule(lax.erf_inv_p)
def _erf_inv(e: Equation) -> Result:
    return e.expand(pallas_utils.erf_inv_lowering_helper)


@rule(lax.nextafter_p)
def _nextafter(e: Equation) -> Result:
    if e.output.dtype != np.float32:
        raise _wrong_type(e, e.output.dtype)
    return e.expand(pallas_utils.nextafter_lowering_helper)


@rule(lax.is_finite_p)
def _is_finite(e: Equation) -> Result:
    if e.inputs[0].dtype != np.float32:
        raise e.unsupported(
            f"'is_finite' of {e.inputs[0].dtype}: TPUs tell infinities and NaN of float32",
            "convert it first: x.astype(jnp.float32); jax.nn.logsumexp asks so of its maximum",
            code="unsupported-type",
        )
    weird = e.emit(WeirdOp(operands=[e.operand(0)], result_types=[e.result_type]))
    return e.emit(arith.XOrIOp(weird, e.filled(True)))


@rule(pallas_primitives.reciprocal_p)
def _reciprocal(e: Equation) -> Result:
    if e.output.dtype != np.float32:
        raise e.unsupported(
            f"a reciprocal of {e.output.dtype}", "cast to float32 before, and back after"
        )
    return e.emit(
        ReciprocalOp(
            operands=[e.operand(0)],
            result_types=[e.result_type],
            properties={
                "approx": IntegerAttr.from_bool(e.params["approx"]),
                "full_range": IntegerAttr.from_bool(e.params["full_range"]),
            },
        )
    )


def _exact_enough(e: Equation) -> None:
    if e.params.get("accuracy") is not None:
        raise e.unsupported(f"'{e.name}' with accuracy=", "leave accuracy to the TPU")


def _wrong_type(e: Equation, dtype: Any) -> Diagnostic:
    advice = "cast the operands first"
    if is_bool(dtype):
        advice = "use logical operations, or cast to int32 first"
    return e.unsupported(f"'{e.name}' of {dtype}", advice, code="unsupported-type")
