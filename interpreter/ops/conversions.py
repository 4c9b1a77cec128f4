"""Conversions of `arith` and `tpu`, and stochastic rounding."""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, Operation

from pallasite.dialects import arith, tpu
from pallasite.dialects.integers import greatest, least
from pallasite.dialects.rounding import rounding_mode
from pallasite.dialects.tpu.keywords import RoundingMode
from pallasite.dialects.types import element_type, shape_of
from pallasite.interpreter.meanings import Facts, Function, meaning
from pallasite.interpreter.ops.convert import (
    float_to_float,
    float_to_integer,
    integer_to_float,
    integer_to_integer,
    largest_finite,
    reinterpret,
    reinterpret_rows,
)
from pallasite.interpreter.ops.kinds import unsupported
from pallasite.interpreter.values import bits_of, is_float, rounder, values_of, width


def _towards_zero(op: Operation) -> bool:
    """Whether `op` rounds towards zero; False for to nearest even, `Unsupported` for other
    modes."""
    mode = rounding_mode(op)
    if mode is None:
        raise unsupported(op, "a mode of rounding other than to the nearest or towards zero")
    return mode is RoundingMode.TOWARDS_ZERO


def _check_values(op: Operation) -> None:
    """Refuses casts of memory, which MLIR allows for some operations."""
    if isinstance(op.operands[0].type, MemRefType):
        raise unsupported(op, "a cast of memory (tpu.memref_bitcast makes a view of it)")


@meaning(arith.ExtFOp, tpu.ExtfOp, by_element=True)
def extf(op: Operation, facts: Facts) -> Function:
    """Every value of the narrower type is one of the wider type."""
    return lambda x: x


@meaning(arith.TruncFOp, arith.ConvertFOp, tpu.TruncfOp, by_element=True)
def truncf(op: arith.TruncFOp | arith.ConvertFOp | tpu.TruncfOp, facts: Facts) -> Function:
    """To the nearest, ties to even, unless the op says towards zero; others are `Unsupported`."""
    return float_to_float(op.result.type, towards_zero=_towards_zero(op))


@meaning(arith.FPToSIOp, arith.FPToUIOp, tpu.FptosiOp, tpu.FptouiOp, by_element=True)
def fptoi(op: Operation, facts: Facts) -> Function:
    """Towards zero unless the op says to the nearest; saturates, and a NaN is 0."""
    signed = isinstance(op, arith.FPToSIOp | tpu.FptosiOp)
    return float_to_integer(op.results[0].type, signed=signed, to_nearest=not _towards_zero(op))


@meaning(arith.SIToFPOp, arith.UIToFPOp, tpu.SitofpOp, tpu.UitofpOp, by_element=True)
def itofp(op: Operation, facts: Facts) -> Function:
    """To the nearest, ties to even, unless the op says towards zero."""
    return integer_to_float(
        op.operands[0].type,
        op.results[0].type,
        signed=isinstance(op, arith.SIToFPOp | tpu.SitofpOp),
        towards_zero=_towards_zero(op),
    )


@meaning(arith.ExtSIOp, arith.TruncIOp, arith.IndexCastOp, by_element=True)
def extsi(op: Operation, facts: Facts) -> Function:
    """Sign extension, or the low bits; what narrows signed and unsigned integers is the same."""
    _check_values(op)
    return integer_to_integer(op.operands[0].type, op.results[0].type)


@meaning(arith.ExtUIOp, arith.IndexCastUIOp, by_element=True)
def extui(op: Operation, facts: Facts) -> Function:
    """Zero extension."""
    _check_values(op)
    return integer_to_integer(op.operands[0].type, op.results[0].type, signed=False)


@meaning(arith.BitcastOp, by_element=True)
def bitcast(op: arith.BitcastOp, facts: Facts) -> Function:
    """The same bits as another element type of the same width."""
    _check_values(op)
    return reinterpret(op.input.type, op.result.type)


@meaning(tpu.BitcastOp)
def tpu_bitcast(op: tpu.BitcastOp, facts: Facts) -> Function:
    """Row r*p + k of the narrow side is the k-th lowest part of row r of the wide side
    (spec/tpu_dialect.md section 3.3).
    """
    return reinterpret_rows(op.input.type, op.result.type)


def _stochastic(target: Attribute) -> Function:
    """Rounds away from zero with a probability that is the distance, by the low 16 random bits.

    For bf16 this is adding those bits below the last kept bit, and truncating.
    """
    if not is_float(target):
        bits = width(target)
        low, high = np.float32(least(bits)), np.float32(greatest(bits))

        def to_integer(x: Any, random: Any) -> Any:
            whole = np.floor(x)
            up = (x - whole) * np.float32(65536) + _low_bits(random) >= 65536
            value = np.clip(whole + up, low, high)
            return np.where(value == value, value, 0).astype(np.int8)

        return to_integer
    down, nearest = float_to_float(target, towards_zero=True), rounder(target)
    largest = largest_finite(target)

    def to_float(x: Any, random: Any) -> Any:
        kept = down(x)
        away = _next_away(kept, target)
        share = np.abs(x - kept) / np.abs(away - kept)
        up = share * np.float32(65536) + _low_bits(random) >= 65536
        value = np.where(up, away, kept)
        over = np.abs(x) >= largest
        return np.where(over | ~np.isfinite(x), nearest(x), value)

    return to_float


def _low_bits(random: Any) -> Any:
    return (random & 0xFFFF).astype(np.float32)


def _next_away(value: Any, type: Attribute) -> Any:
    bits = bits_of(type)(value)
    return values_of(type)((bits + 1).astype(bits.dtype))


@meaning(tpu.StochasticConvertOp)
def stochastic_convert(op: tpu.StochasticConvertOp, facts: Facts) -> Function:
    """One of the two neighbours of each value; the second operand is 32 random bits for each."""
    return _stochastic(element_type(op.result.type))


@meaning(tpu.StochasticConvertElementwiseOp)
def stochastic_convert_elementwise(
    op: tpu.StochasticConvertElementwiseOp, facts: Facts
) -> Function:
    """The bits of the narrow value stay in the low bits of the word, zeros above."""
    target = op.dst_type
    convert = _stochastic(target)
    bits = bits_of(VectorType(target, shape_of(op.result.type)))
    return lambda x, random: bits(convert(x, random)).astype(np.int32)
