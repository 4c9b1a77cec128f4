"""Which carrier an op computes on: scalar or vector, float or integer, and of what width."""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation

from pallasite.diagnostics import Unsupported
from pallasite.dialects.in_words import in_words
from pallasite.dialects.integers import wrap
from pallasite.dialects.locations import source_location
from pallasite.interpreter.values import rounder, storage_float, unsigned_dtype, width

Function = Callable[..., Any]


def is_vector(type: Attribute) -> bool:
    """Whether values of `type` are arrays."""
    return isinstance(type, VectorType)


def rounded(type: Attribute, function: Function) -> Function:
    """`function` on float32 carriers, its result rounded to the float type `type`."""
    if storage_float(type) is None:
        return function
    round_result = rounder(type)
    return lambda *operands: round_result(function(*operands))


def wrapped(type: Attribute, function: Function) -> Function:
    """`function` on integer carriers, its result brought back into the range of `type`.

    NumPy wraps arrays of 8 to 64 bits itself; an index has 64.
    """
    bits = width(type)
    if not is_vector(type):
        if bits == 1:
            return lambda *operands: bool(function(*operands) & 1)
        return lambda *operands: wrap(function(*operands), bits)
    if bits == 1:
        return lambda *operands: (function(*(_bit(o) for o in operands)) & 1).astype(np.bool_)
    if bits < 8:
        return lambda *operands: sign_extend(function(*operands), bits)
    return function


def _bit(array: Any) -> Any:
    return array.view(np.uint8)


def sign_extend(array: Any, bits: int) -> Any:
    """An int8 array whose low `bits` bits are read as a signed number."""
    shift = 8 - bits
    return (array << shift) >> shift


def to_unsigned(type: Attribute) -> Function:
    """The function from a carrier of the integer `type` to the same bits read as unsigned."""
    bits = width(type)
    mask = (1 << bits) - 1
    if not is_vector(type):
        return lambda value: value & mask
    if bits == 1:
        return _bit
    unsigned = unsigned_dtype(bits)
    if bits < 8:
        return lambda array: array.view(np.uint8) & np.uint8(mask)
    return lambda array: array.view(unsigned)


def from_unsigned(type: Attribute) -> Function:
    """The inverse of `to_unsigned`, wrapping values that do not fit."""
    bits = width(type)
    if not is_vector(type):
        return bool if bits == 1 else lambda value: wrap(value, bits)
    if bits == 1:
        return lambda array: (array & 1).astype(np.bool_)
    if bits < 8:
        return lambda array: sign_extend(array.view(np.int8), bits)
    signed = np.dtype(f"int{bits}")
    return lambda array: array.view(signed)


def to_signed(type: Attribute) -> Function:
    """The function from a carrier of the integer `type` to its signed value (i1: 0 or -1)."""
    if width(type) != 1:
        return lambda value: value
    if is_vector(type):
        return lambda array: -array.view(np.int8)
    return lambda value: -int(value)


def unsupported(op: Operation, what: str) -> Unsupported:
    """`what` of `op` has no meaning at run time."""
    message = f"{in_words(op)}: {what} cannot be executed"
    return Unsupported("no-meaning", message, source_location(op))
