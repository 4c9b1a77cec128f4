"""`math` on floats and integers, and `tpu.reciprocal` and `tpu.logistic`.

Narrow floats compute in float32 and round once. NumPy's float32 functions are within a few units in
the last place (spec/pallas_semantics.md section 4.9); `erf` and `erfc`, which NumPy lacks, follow
W. J. Cody's rational approximations (Math. Comp. 23, 1969) in float64.
"""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import bf16
from xdsl.ir import Attribute, Operation

from pallasite.dialects import math, tpu
from pallasite.interpreter.meanings import Facts, Function, meaning
from pallasite.interpreter.ops.convert import smallest_normal
from pallasite.interpreter.ops.kinds import (
    from_unsigned,
    is_vector,
    rounded,
    to_unsigned,
    wrapped,
)
from pallasite.interpreter.values import rounder, width

_ONE = np.float32(1)
_HALF = np.float32(0.5)

_ERF = (
    (1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2,
     3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3,
     2.84423683343917062e3),
)  # fmt: skip
"""Numerator and denominator, in x*x, of erf(x)/x for |x| <= 0.46875."""

_ERFC = (
    (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0,
     6.61191906371416295e1, 2.98635138197400131e2, 8.81952221241769090e2,
     1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3),
    (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2,
     1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3,
     3.43936767414372164e3, 1.23033935480374942e3),
)  # fmt: skip
"""Numerator and denominator, in x, of exp(x*x) * erfc(x) for 0.46875 <= x <= 4."""

_ERFC_TAIL = (
    (1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1,
     1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4),
    (1.0, 2.56852019228982242e0, 1.87295284992346725e0, 5.27905102951428412e-1,
     6.05183413124413191e-2, 2.33520497626869185e-3),
)  # fmt: skip
"""Numerator and denominator, in 1/(x*x), of the correction to 1/sqrt(pi) for x >= 4."""

_PER_SQRT_PI = 5.6418958354775628695e-1


_CHUNK = 8192
"""Elements that are evaluated at a time, so that intermediate results stay in the cache."""


def _horner(coefficients: tuple[float, ...], x: Any) -> Any:
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total *= x
        total += coefficient
    return total


def _ratio(coefficients: tuple[tuple[float, ...], ...], x: Any) -> Any:
    above, below = (_horner(c, x) for c in coefficients)
    above /= below
    return above


def _erfc_beyond(size: Any) -> Any:
    """erfc of |x| >= 0.46875; smaller |x| is taken as that."""
    square = size * size
    result = _ratio(_ERFC, np.clip(size, 0.46875, 4.0))
    if size.max(initial=0.0) > 4:
        per_square = 1 / np.maximum(square, 16.0)
        tail = (_PER_SQRT_PI - per_square * _ratio(_ERFC_TAIL, per_square)) / np.maximum(size, 4)
        result = np.where(size <= 4, result, tail)
    result *= np.exp(-square)
    return result


def _erf_and_erfc(x: Any) -> tuple[Any, Any]:
    x = x.astype(np.float64)
    size = np.abs(x)
    small = size <= 0.46875
    near_zero = x * _ratio(_ERF, np.where(small, size * size, 0.0))
    beyond = _erfc_beyond(size)
    erf = np.where(small, near_zero, np.copysign(1 - beyond, x))
    erfc = np.where(small, 1 - near_zero, np.where(x < 0, 2 - beyond, beyond))
    return erf, erfc


def _in_chunks(which: int) -> Function:
    def function(x: Any) -> Any:
        flat = np.ravel(x)
        result = np.empty(flat.shape, np.float32)
        for start in range(0, flat.size, _CHUNK):
            chunk = slice(start, start + _CHUNK)
            result[chunk] = _erf_and_erfc(flat[chunk])[which]
        return result.reshape(np.shape(x))[()]

    return function


def _round_away(x: Any) -> Any:
    """Half away from zero; `trunc` and the difference are exact."""
    whole = np.trunc(x)
    return whole + np.copysign((np.abs(x - whole) >= _HALF).astype(np.float32), x)


def _logistic(x: Any) -> Any:
    return _ONE / (_ONE + np.exp(-x))


def _power(base: Any, exponent: Any) -> Any:
    """Powers, computed element by element.

    If all elements have one exponent, NumPy computes a root, a quotient or a product, which round
    differently (and a root of -inf is NaN), so each element gets its own exponent.
    """
    shape = np.broadcast_shapes(np.shape(base), np.shape(exponent))
    exponents = np.empty(shape or (1,), np.float32)
    exponents[...] = exponent
    powers = np.power(base, exponents)
    return powers if shape else powers[0]


_UNARY: dict[type[Operation], Function] = {
    math.AcosOp: np.arccos,
    math.AcoshOp: np.arccosh,
    math.AsinOp: np.arcsin,
    math.AsinhOp: np.arcsinh,
    math.AtanOp: np.arctan,
    math.AtanhOp: np.arctanh,
    math.CbrtOp: np.cbrt,
    math.CosOp: np.cos,
    math.CoshOp: np.cosh,
    math.ErfOp: _in_chunks(0),
    math.ErfcOp: _in_chunks(1),
    math.ExpOp: np.exp,
    math.Exp2Op: np.exp2,
    math.ExpM1Op: np.expm1,
    math.LogOp: np.log,
    math.Log10Op: np.log10,
    math.Log1pOp: np.log1p,
    math.Log2Op: np.log2,
    math.RsqrtOp: lambda x: _ONE / np.sqrt(x),
    math.SinOp: np.sin,
    math.SinhOp: np.sinh,
    math.SqrtOp: np.sqrt,
    math.TanOp: np.tan,
    math.TanhOp: np.tanh,
    tpu.LogisticOp: _logistic,
}

_EXACT: dict[type[Operation], Function] = {
    math.AbsFOp: np.abs,
    math.CeilOp: np.ceil,
    math.CopySignOp: np.copysign,
    math.FloorOp: np.floor,
    math.RoundEvenOp: np.rint,
    math.RoundOp: _round_away,
    math.TruncOp: np.trunc,
}
"""Functions whose results are values of the operand's type already."""

_BINARY: dict[type[Operation], Function] = {
    math.Atan2Op: np.arctan2,
    math.PowFOp: _power,
}


ELEMENTWISE: tuple[type[Operation], ...] = (*_UNARY, *_EXACT, *_BINARY, tpu.ReciprocalOp)


@meaning(*_UNARY, by_element=True)
def unary(op: Operation, facts: Facts) -> Function:
    """The function of `_UNARY`, rounded to the result's type."""
    return rounded(op.results[0].type, _UNARY[type(op)])


@meaning(tpu.ReciprocalOp, by_element=True)
def reciprocal(op: tpu.ReciprocalOp, facts: Facts) -> Function:
    """An approximate reciprocal is the exact one of the operand rounded to bf16.

    So JAX's interpreter has it; the hardware's approximation is not published.
    """
    if not op.approx.value.data:
        return lambda x: _ONE / x
    nearby = rounder(bf16)
    return lambda x: _ONE / nearby(x)


@meaning(*_EXACT, by_element=True)
def exact(op: Operation, facts: Facts) -> Function:
    """The function of `_EXACT`, which needs no rounding."""
    return _EXACT[type(op)]


@meaning(*_BINARY, by_element=True)
def binary(op: Operation, facts: Facts) -> Function:
    """The function of `_BINARY`, rounded to the result's type."""
    return rounded(op.results[0].type, _BINARY[type(op)])


@meaning(math.SincosOp)
def sincos(op: math.SincosOp, facts: Facts) -> Function:
    """Both, each as `math.sin` and `math.cos` give it."""
    sin, cos = (rounded(op.operand.type, f) for f in (np.sin, np.cos))
    return lambda x: (sin(x), cos(x))


@meaning(math.ClampFOp, by_element=True)
def clampf(op: math.ClampFOp, facts: Facts) -> Function:
    """min(max(value, low), high): `high` wins where the bounds are crossed, and NaNs go through
    (spec/pallas_semantics.md section 4.2).
    """
    return lambda value, low, high: np.minimum(np.maximum(value, low), high)


@meaning(math.IsNormalOp, by_element=True)
def is_normal(op: math.IsNormalOp, facts: Facts) -> Function:
    """False of zeros, denormals, infinities and NaNs."""
    smallest = smallest_normal(op.operand.type)
    test: Function = lambda x: np.isfinite(x) & (np.abs(x) >= smallest)  # noqa: E731
    return test if is_vector(op.operand.type) else lambda x: bool(test(x))


@meaning(math.AbsIOp, by_element=True)
def absi(op: math.AbsIOp, facts: Facts) -> Function:
    """The least integer is its own absolute value, as it wraps."""
    return wrapped(op.results[0].type, abs if not is_vector(op.results[0].type) else np.abs)


def _bit_length(array: Any) -> Any:
    """The number of significant bits; the exponent of the float64, in which 32 bits are exact."""
    return np.frexp(array.astype(np.float64))[1]


def _leading_zeros(bits: int) -> tuple[Function, Function]:
    return (lambda u: bits - _bit_length(u), lambda u: bits - u.bit_length())


def _trailing_zeros(bits: int) -> tuple[Function, Function]:
    def lowest(u: Any) -> Any:
        return u & (~u + u.dtype.type(1))

    return (
        lambda u: np.where(u == 0, bits, _bit_length(lowest(u)) - 1),
        lambda u: (u & -u).bit_length() - 1 if u else bits,
    )


def _population(bits: int) -> tuple[Function, Function]:
    return (np.bitwise_count, int.bit_count)


_BITS: dict[type[Operation], Callable[[int], tuple[Function, Function]]] = {
    math.CountLeadingZerosOp: _leading_zeros,
    math.CountTrailingZerosOp: _trailing_zeros,
    math.CtPopOp: _population,
}


@meaning(*_BITS, by_element=True)
def bits(op: Operation, facts: Facts) -> Function:
    """A count for each element; zeros at the ends of a 0 are as many as the type has bits."""
    type_ = op.results[0].type
    on_vectors, on_scalars = _BITS[type(op)](width(type_))
    value = to_unsigned(type_)
    if not is_vector(type_):
        result = from_unsigned(type_)
        return lambda x: result(on_scalars(value(x)))
    dtype = np.dtype(f"int{max(width(type_), 8)}")
    return lambda x: on_vectors(value(x)).astype(dtype)


def _integer_power(multiply: Function, reciprocal: Function) -> Function:
    """Powers of scalars by repeated squaring; a negative exponent is left to `reciprocal`."""

    def power(base: Any, exponent: int) -> Any:
        if exponent < 0:
            return reciprocal(base, exponent)
        result = 1
        while exponent:
            if exponent & 1:
                result = multiply(result, base)
            base = multiply(base, base)
            exponent >>= 1
        return result

    return power


def _inverse_integer_power(base: int, exponent: int) -> int:
    """Rounded toward zero: only 1 and -1 have inverses; 0 gives all ones, as a division does."""
    if base == 0:
        return -1
    if abs(base) != 1:
        return 0
    return base if exponent & 1 else 1


@meaning(math.IPowIOp)
def ipowi(op: math.IPowIOp, facts: Facts) -> Function:
    """Wraps; negative exponents are those of `_inverse_integer_power`."""
    type: Attribute = op.result.type
    element = getattr(type, "element_type", type)
    multiply = wrapped(element, operator.mul)
    power = _integer_power(multiply, _inverse_integer_power)
    if not is_vector(type):
        return power
    dtype = np.dtype(f"int{max(width(type), 8)}")
    each = np.vectorize(power, otypes=[dtype])
    return lambda a, b: each(a.astype(object), b.astype(object))


@meaning(math.FPowIOp)
def fpowi(op: math.FPowIOp, facts: Facts) -> Function:
    """In float64, which rounds once more for types narrower than float32."""
    return rounded(
        op.result.type,
        lambda a, b: np.power(np.float64(a), np.float64(b)).astype(np.float32),
    )
