"""Scalar integer operations as Python expressions, where these equal the operation's meaning
exactly.

Scalars are Python ints and bools, signed and within their width (`pallasite.interpreter.values`).
An expression that may leave the width wraps: `arith.addi` on i32 becomes

    (t if -2147483648 <= (t := a + b) < 2147483648 else wrap(t, 32))

What is not listed here (shifts, divisions by unknown numbers, floats, vectors) calls its meaning.
Each builder takes an operation and the names of its operands, and returns an expression, or None if
the types or operands do not suit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation

from pallasite.dialects.arith import (
    AddiOp,
    AndIOp,
    CmpiOp,
    ConstantOp,
    DivSIOp,
    DivUIOp,
    ExtSIOp,
    ExtUIOp,
    IndexCastOp,
    MaxSIOp,
    MinSIOp,
    MuliOp,
    OrIOp,
    RemSIOp,
    RemUIOp,
    SelectOp,
    SubiOp,
    TruncIOp,
    XOrIOp,
)
from pallasite.dialects.integers import wrap
from pallasite.dialects.predicates import is_unsigned

Names = Sequence[str]

_ARITHMETIC: dict[type[Operation], str] = {AddiOp: "+", SubiOp: "-", MuliOp: "*"}
_BITWISE: dict[type[Operation], str] = {AndIOp: "&", OrIOp: "|", XOrIOp: "^"}
_ORDER: dict[type[Operation], str] = {MinSIOp: "<", MaxSIOp: ">"}
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
"""Python's operator for the last two letters of a predicate's name."""


def bits_of(type: Attribute) -> int | None:
    """The width of a scalar integer type (64 for index); None for other types."""
    if isinstance(type, IntegerType):
        return type.width.data
    return 64 if isinstance(type, IndexType) else None


def _wrapped(expression: str, bits: int) -> str:
    """`expression`, wrapped to a signed integer of `bits` where it leaves the range."""
    half = 1 << (bits - 1)
    return f"(t if {-half} <= (t := {expression}) < {half} else wrap(t, {bits}))"


def _arithmetic(op: Operation, names: Names) -> str | None:
    bits = bits_of(op.results[0].type)
    if bits is None or bits == 1:
        return None
    return _wrapped(f"{names[0]} {_ARITHMETIC[type(op)]} {names[1]}", bits)


def _divide(op: Operation, names: Names) -> str | None:
    """A signed division or remainder by a positive constant: the result always fits the width.

    MLIR rounds toward zero and Python toward minus infinity, hence the case for negative values.
    """
    bits = bits_of(op.results[0].type)
    value, divisor = names
    if bits is None or bits == 1 or not divisor.isdecimal() or divisor == "0":
        return None
    sign = "//" if isinstance(op, DivSIOp) else "%"
    return f"({value} {sign} {divisor} if {value} >= 0 else -(-{value} {sign} {divisor}))"


def _divide_unsigned(op: Operation, names: Names) -> str | None:
    """By a constant above 1, of which every quotient and remainder is below half the range."""
    bits = bits_of(op.results[0].type)
    value, divisor = names
    if bits is None or bits == 1 or not divisor.isdecimal() or int(divisor) < 2:
        return None
    sign = "//" if isinstance(op, DivUIOp) else "%"
    return f"({value} & {(1 << bits) - 1}) {sign} {divisor}"


def _bitwise(op: Operation, names: Names) -> str | None:
    # Two's complement of any width, and bools, are closed under Python's operators.
    if bits_of(op.results[0].type) is None:
        return None
    return f"{names[0]} {_BITWISE[type(op)]} {names[1]}"


def _order(op: Operation, names: Names) -> str | None:
    """The lesser or greater of two signed integers."""
    bits = bits_of(op.results[0].type)
    if bits is None or bits == 1:
        return None
    return f"({names[0]} if {names[0]} {_ORDER[type(op)]} {names[1]} else {names[1]})"


def _compare(op: Operation, names: Names) -> str | None:
    bits = bits_of(op.operands[0].type)
    if bits is None or bits == 1:
        return None
    predicate = cast(CmpiOp, op).predicate_name
    sign = _COMPARED[predicate[-2:]]
    if not is_unsigned(predicate):
        return f"{names[0]} {sign} {names[1]}"
    mask = (1 << bits) - 1
    return f"({names[0]} & {mask}) {sign} ({names[1]} & {mask})"


def _select(op: Operation, names: Names) -> str | None:
    if bits_of(op.operands[0].type) != 1:
        return None
    return f"({names[1]} if {names[0]} else {names[2]})"


def _cast(op: Operation, names: Names) -> str | None:
    """A cast between widths above 1 bit, signed unless it is `arith.extui`."""
    source, target = bits_of(op.operands[0].type), bits_of(op.results[0].type)
    if source is None or target is None or 1 in (source, target):
        return None
    if isinstance(op, ExtUIOp):
        return f"{names[0]} & {(1 << source) - 1}"
    return names[0] if target >= source else _wrapped(names[0], target)


def _extend_bool(op: Operation, names: Names) -> str | None:
    """The extension of an i1 (a bool): 1 is -1 if it is signed. Other extensions are casts."""
    target = bits_of(op.results[0].type)
    if bits_of(op.operands[0].type) != 1 or target is None or target == 1:
        return _cast(op, names)
    return f"({'-' if isinstance(op, ExtSIOp) else ''}int({names[0]}))"


def _truncate(op: Operation, names: Names) -> str | None:
    """A truncation; to i1 it takes the lowest bit as a bool."""
    if bits_of(op.results[0].type) == 1 and (bits_of(op.operands[0].type) or 1) > 1:
        return f"({names[0]} & 1) == 1"
    return _cast(op, names)


def _constant(op: Operation, names: Names) -> str | None:
    value = cast(ConstantOp, op).value
    bits = bits_of(op.results[0].type)
    if bits is None or not isinstance(value, IntegerAttr):
        return None
    number = value.value.data
    if bits == 1:
        return str(bool(number))
    number = wrap(number, bits)
    return f"({number})" if number < 0 else str(number)


_EXPRESSIONS: dict[type[Operation], Callable[[Operation, Names], str | None]] = {
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(_BITWISE, _bitwise),
    **dict.fromkeys((DivSIOp, RemSIOp), _divide),
    **dict.fromkeys((DivUIOp, RemUIOp), _divide_unsigned),
    **dict.fromkeys(_ORDER, _order),
    CmpiOp: _compare,
    SelectOp: _select,
    IndexCastOp: _cast,
    ExtSIOp: _extend_bool,
    ExtUIOp: _extend_bool,
    TruncIOp: _truncate,
    ConstantOp: _constant,
}


def expression(op: Operation, names: Names) -> str | None:
    """`op` as an expression over its operands' `names`; None if it must call its meaning."""
    build = _EXPRESSIONS.get(type(op))
    return build(op, names) if build is not None else None


def is_quiet(op: Operation) -> bool:
    """Whether `op` computes a scalar integer from its operands alone and cannot fail."""
    return type(op) in _EXPRESSIONS and bits_of(op.results[0].type) is not None
