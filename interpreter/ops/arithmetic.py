"""`arith` on integers and floats, scalars and vectors (spec/pallas_semantics.md section 4.2).

Integers wrap. Where MLIR leaves a result undefined, XLA's rule holds: a division by zero gives all
ones and its remainder the dividend; INT_MIN / -1 gives INT_MIN and remainder 0; a shift by the
width or more gives zeros, or the sign. Narrow floats compute in float32 and round once, which is
the correctly rounded result of one operation.
"""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation

from pallasite.dialects import arith, math, vector
from pallasite.dialects.types import element_type
from pallasite.interpreter.meanings import Facts, Function, meaning
from pallasite.interpreter.ops.convert import narrow_integer, smallest_normal
from pallasite.interpreter.ops.kinds import (
    from_unsigned,
    is_vector,
    rounded,
    to_signed,
    to_unsigned,
    wrapped,
)
from pallasite.interpreter.values import width

Builder = Callable[[Attribute], Function]


def _float(function: Function) -> Builder:
    return lambda type: rounded(type, function)


def _exact_float(function: Function) -> Builder:
    """Builds a float function whose results need no rounding."""
    return lambda type: function


def _integer(function: Function) -> Builder:
    return lambda type: wrapped(type, function)


def _bitwise(function: Function) -> Builder:
    """Builds a bitwise function: its results on sign-extended carriers, and on booleans, need no
    wrapping."""
    return lambda type: function


def _signed(on_vectors: Function, on_scalars: Function) -> Builder:
    def build(type: Attribute) -> Function:
        function = on_vectors if is_vector(type) else on_scalars
        if width(type) != 1:
            return wrapped(type, function)
        value = to_signed(type)
        if is_vector(type):
            return lambda *o: (function(*(value(x) for x in o)) & 1).astype(np.bool_)
        return lambda *o: bool(function(*(value(x) for x in o)) & 1)

    return build


def _unsigned(on_vectors: Function, on_scalars: Function) -> Builder:
    def build(type: Attribute) -> Function:
        function = on_vectors if is_vector(type) else on_scalars
        value, result = to_unsigned(type), from_unsigned(type)
        return lambda *operands: result(function(*(value(x) for x in operands)))

    return build


def _quotient(a: Any, b: Any) -> Any:
    """The quotient of integers of up to 32 bits by way of float64: no inexact quotient is so close
    to an integer that it would round to it."""
    if a.itemsize <= 4:
        whole = (a.astype(np.float64) / b).astype(np.int64).astype(a.dtype)
    else:
        whole = (a - np.fmod(a, b)) // b
    return whole if b.all() else np.where(b == 0, a.dtype.type(-1), whole)


def _remainder(a: Any, b: Any) -> Any:
    """The remainder; where b is 0 the product is 0, which leaves the dividend."""
    return a - _quotient(a, b) * b


def _scalar_quotient(a: int, b: int) -> int:
    if b == 0:
        return -1
    return a // b if (a < 0) == (b < 0) else -(-a // b)


def _scalar_remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * _scalar_quotient(a, b)


def _unsigned_quotient(a: Any, b: Any) -> Any:
    return np.where(b == 0, ~a.dtype.type(0), a // b)


def _unsigned_remainder(a: Any, b: Any) -> Any:
    return np.where(b == 0, a, a % b)


def _floor_quotient(a: Any, b: Any) -> Any:
    return np.where(b == 0, a.dtype.type(-1), a // b)


def _ceil_quotient(a: Any, b: Any) -> Any:
    rest = np.fmod(a, b)
    up = (rest != 0) & ((rest < 0) == (b < 0))
    return np.where(b == 0, a.dtype.type(-1), (a - rest) // b + up)


def _ceil_unsigned(a: Any, b: Any) -> Any:
    return np.where(b == 0, ~a.dtype.type(0), a // b + (a % b != 0))


def _shift_left(type: Attribute) -> Function:
    """A left shift; NumPy, too, gives zero if the amount, read as unsigned, is the width or
    more."""
    if is_vector(type):
        return wrapped(type, np.left_shift)
    bits, amount = width(type), to_unsigned(type)
    return wrapped(type, lambda a, b: a << amount(b) if amount(b) < bits else 0)


def _shift_right_signed(type: Attribute) -> Function:
    if is_vector(type):
        return np.right_shift
    bits, amount = width(type), to_unsigned(type)
    return lambda a, b: a >> min(amount(b), bits)


def _shift_right_unsigned(type: Attribute) -> Function:
    bits, value, result = width(type), to_unsigned(type), from_unsigned(type)
    if is_vector(type):
        return lambda a, b: result(value(a) >> value(b))
    return lambda a, b: result(value(a) >> min(value(b), bits))


BINARY: dict[type[Operation], Builder] = {
    arith.AddfOp: _float(operator.add),
    arith.SubfOp: _float(operator.sub),
    arith.MulfOp: _float(operator.mul),
    arith.DivfOp: _float(operator.truediv),
    arith.RemFOp: _exact_float(np.fmod),
    arith.MaximumfOp: _exact_float(np.maximum),
    arith.MinimumfOp: _exact_float(np.minimum),
    arith.MaxnumfOp: _exact_float(np.fmax),
    arith.MinnumfOp: _exact_float(np.fmin),
    arith.AddiOp: _integer(operator.add),
    arith.SubiOp: _integer(operator.sub),
    arith.MuliOp: _integer(operator.mul),
    arith.AndIOp: _bitwise(operator.and_),
    arith.OrIOp: _bitwise(operator.or_),
    arith.XOrIOp: _bitwise(operator.xor),
    arith.MaxSIOp: _signed(np.maximum, max),
    arith.MinSIOp: _signed(np.minimum, min),
    arith.MaxUIOp: _unsigned(np.maximum, max),
    arith.MinUIOp: _unsigned(np.minimum, min),
    arith.DivSIOp: _signed(_quotient, _scalar_quotient),
    arith.RemSIOp: _signed(_remainder, _scalar_remainder),
    arith.DivUIOp: _unsigned(_unsigned_quotient, lambda a, b: a // b if b else -1),
    arith.RemUIOp: _unsigned(_unsigned_remainder, lambda a, b: a % b if b else a),
    arith.FloorDivSIOp: _signed(_floor_quotient, lambda a, b: a // b if b else -1),
    arith.CeilDivSIOp: _signed(_ceil_quotient, lambda a, b: -(-a // b) if b else -1),
    arith.CeilDivUIOp: _unsigned(_ceil_unsigned, lambda a, b: -(-a // b) if b else -1),
    arith.ShLIOp: _shift_left,
    arith.ShRSIOp: _shift_right_signed,
    arith.ShRUIOp: _shift_right_unsigned,
}
"""For each binary op, how its function is built from the type of its result."""


@meaning(*BINARY, by_element=True)
def binary(op: Operation, facts: Facts) -> Function:
    """The function that `BINARY` builds for the result's type."""
    return BINARY[type(op)](op.results[0].type)


@meaning(arith.NegfOp, by_element=True)
def negf(op: arith.NegfOp, facts: Facts) -> Function:
    """Flips the sign, of zeros and NaNs as well."""
    return rounded(op.result.type, operator.neg)


@meaning(arith.FlushDenormalsOp, by_element=True)
def flush_denormals(op: Operation, facts: Facts) -> Function:
    """Numbers smaller than the least normal one of the type become a zero with their sign."""
    smallest, zero = smallest_normal(op.results[0].type), np.float32(0)
    return lambda x: np.copysign(np.where(np.abs(x) < smallest, zero, x), x).astype(np.float32)


@meaning(math.FmaOp, vector.FMAOp, by_element=True)
def fma(op: Operation, facts: Facts) -> Function:
    """The product is exact in float64, so that only the sum rounds before the final rounding."""
    return rounded(
        op.results[0].type,
        lambda a, b, c: (np.float64(a) * np.float64(b) + np.float64(c)).astype(np.float32),
    )


# Extended arithmetic computes in integers that hold every result: 64 bits for up to 32.


def _wide(type: Attribute, value: Function) -> Function:
    if not is_vector(type):
        return value
    return lambda array: value(array).astype(np.int64)


def _narrow(type: Attribute) -> Function:
    return narrow_integer(type) if is_vector(type) else from_unsigned(type)


@meaning(arith.AddUIExtendedOp)
def addui_extended(op: arith.AddUIExtendedOp, facts: Facts) -> Function:
    """The sum, which wraps, and whether it carries out."""
    type = op.sum.type
    value, narrow, bits = _wide(type, to_unsigned(type)), _narrow(type), width(type)

    def function(a: Any, b: Any) -> Any:
        total = value(a) + value(b)
        return narrow(total), (total >> bits) != 0

    return function


@meaning(arith.SubUIExtendedOp)
def subui_extended(op: Operation, facts: Facts) -> Function:
    """The difference, which wraps, and whether it borrows."""
    type = op.results[0].type
    value, narrow = _wide(type, to_unsigned(type)), _narrow(type)

    def function(a: Any, b: Any) -> Any:
        difference = value(a) - value(b)
        return narrow(difference), difference < 0

    return function


@meaning(arith.MulSIExtendedOp, arith.MulUIExtendedOp)
def mul_extended(op: arith.MulSIExtendedOp | arith.MulUIExtendedOp, facts: Facts) -> Function:
    """The low and the high word of the product, each as wide as the operands."""
    type = op.low.type
    signed = isinstance(op, arith.MulSIExtendedOp)
    value = _wide(type, to_signed(type) if signed else to_unsigned(type))
    narrow, bits = _narrow(type), width(type)

    def function(a: Any, b: Any) -> Any:
        product = value(a) * value(b)
        return narrow(product), narrow(product >> bits)

    return function


def reducer(name: str, type: Attribute) -> Function | None:
    """The function of the binary op called `name` on vectors of `type`, None if there is none."""
    for cls, build in BINARY.items():
        if cls.name == name:
            return build(VectorType(element_type(type), ()))
    return None
