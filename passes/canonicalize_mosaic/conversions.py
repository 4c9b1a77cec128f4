"""Conversions that the hardware has, between 32 bits and narrower, as `tpu` operations.

All others are done in two steps: between floats by way of f32, between integers by way of i32, and
from float to a narrow integer by clamping to its range first, since JAX saturates
(spec/vreg_lowering.md section 4.2).
"""

from __future__ import annotations

from math import inf
from typing import cast

from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    VectorType,
    f32,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, tpu
from pallasite.dialects.rounding import rounding_mode
from pallasite.dialects.types import bit_width, element_of, is_vector, splat
from pallasite.passes.canonicalize_mosaic import scalars
from pallasite.passes.canonicalize_mosaic.driver import (
    NEAREST,
    TOWARDS_ZERO,
    Legalizer,
    is_bf16,
    like,
    rule,
    unextended,
)
from pallasite.passes.float_ranges import float_range

_UPPER_HALF = -(1 << 16)
"""The bits of an f32 that a bf16 keeps."""


@rule(arith.ExtFOp, tpu.ExtfOp)
def legalize_extf(op: Operation, r: Legalizer) -> SSAValue | None:
    """To f32 in one step; to a narrower type by way of f32."""
    if not is_vector(op.results[0]):
        return scalars.widened(op.operands[0], r) if op.results[0].type == f32 else None
    target = element_of(op.results[0])
    if bit_width(target) == 32:
        if isinstance(op, tpu.ExtfOp):
            return None
        return r.to_f32(op.operands[0])
    return r.to_float(r.to_f32(op.operands[0]), target)


@rule(arith.TruncFOp, tpu.TruncfOp)
def legalize_truncf(op: Operation, r: Legalizer) -> SSAValue | None:
    """From f32 in one step; from a narrower type by way of f32. Constant scalars fold."""
    if not is_vector(op.results[0]):
        folded = _rounded_constant(op, r)
        if folded is not None or op.operands[0].type != f32:
            return folded
        return scalars.rounded(op.operands[0], op.results[0].type, r)
    source, target = op.operands[0], element_of(op.results[0])
    mode = _mode_of(op)
    if bit_width(element_of(source)) == 32 and isinstance(op, tpu.TruncfOp) and mode == NEAREST:
        return None
    return _narrowed(r.to_f32(source), target, mode, r)


def _mode_of(op: Operation) -> tpu.RoundingModeAttr:
    mode = rounding_mode(op)
    assert mode is not None  # check-kernel admits no other
    return tpu.RoundingModeAttr(mode)


def _narrowed(
    value: SSAValue, element: Attribute, mode: tpu.RoundingModeAttr, r: Legalizer
) -> SSAValue:
    """An f32 value converted to `element`. Packing rounds to nearest, so for another rounding the
    dropped bits are cleared before."""
    if mode == TOWARDS_ZERO and element_of(value) != element:
        assert is_bf16(element)  # check-kernel admits no other
        word = r.emit(_made(arith.BitcastOp, value, like(value, i32)))
        kept = splat(cast(VectorType[Attribute], word.type), _UPPER_HALF)
        cut = r.emit(arith.AndIOp(word, r.emit(arith.ConstantOp(kept))))
        shorter = r.emit(_made(arith.BitcastOp, cut, value.type))
        # Cutting could make an infinity of a NaN.
        ordered = r.emit(arith.CmpfOp(value, value, "oeq"))
        value = r.emit(arith.SelectOp(ordered, shorter, value))
    return r.to_float(value, element)


def _made(
    kind: type[Operation], value: SSAValue, result: Attribute, **properties: Attribute
) -> Operation:
    return kind.create(operands=[value], result_types=[result], properties=properties)


def _rounded_constant(op: Operation, r: Legalizer) -> SSAValue | None:
    """The constant operand of a scalar conversion to a float, rounded to the result's type."""
    source, target = op.operands[0].owner, op.results[0].type
    if not isinstance(source, arith.ConstantOp):
        return None
    if not isinstance(source.value, FloatAttr | IntegerAttr):
        return None
    value = float(source.value.value.data)
    for kind in (f32, cast(AnyFloat, target)):
        # Packing rounds to the nearest even number of the type.
        (value,) = kind.iter_unpack(kind.pack((value,)))
    return r.emit(arith.ConstantOp(FloatAttr(value, cast(AnyFloat, target))))


@rule(arith.ExtSIOp, arith.ExtUIOp)
def legalize_extension(op: Operation, r: Legalizer) -> SSAValue | None:
    """In one step, from the narrowest value on; masks, and values truncated from i32, by way of
    i32."""
    source, result = op.operands[0], op.results[0]
    if not is_vector(result):
        return None
    signed = isinstance(op, arith.ExtSIOp)
    first, keeps_sign = unextended(source, signed)
    if first is not source:
        kind = arith.ExtSIOp if keeps_sign else arith.ExtUIOp
        return r.emit(_made(kind, first, result.type))
    if bit_width(element_of(result)) == 32:
        return None
    if bit_width(element_of(source)) in (4, 8) and not isinstance(source.owner, arith.TruncIOp):
        return None
    return r.to_int(r.to_i32(source, signed), element_of(result))


@rule(arith.TruncIOp)
def legalize_trunci(op: arith.TruncIOp, r: Legalizer) -> SSAValue | None:
    """From i32 in one step; to i1 by testing the lowest bit."""
    source, result = op.operands[0], op.results[0]
    if not is_vector(result):
        return None
    if bit_width(element_of(result)) == 1:
        wide = r.to_i32(source)
        kind = cast(VectorType[Attribute], wide.type)
        one = r.emit(arith.ConstantOp(splat(kind, 1)))
        zero = r.emit(arith.ConstantOp(splat(kind, 0)))
        return r.emit(arith.CmpiOp(r.emit(arith.AndIOp(wide, one)), zero, "ne"))
    if bit_width(element_of(source)) == 32:
        return None
    return r.to_int(r.to_i32(source), element_of(result))


@rule(arith.SIToFPOp, arith.UIToFPOp, tpu.SitofpOp, tpu.UitofpOp)
def legalize_to_float(op: Operation, r: Legalizer) -> SSAValue | None:
    """By way of i32 and f32, scalars too; unsigned 32-bit integers are converted as such."""
    source, result = op.operands[0], op.results[0]
    as_it_is = isinstance(op, tpu.SitofpOp | tpu.UitofpOp)
    pair = (str(element_of(source)), str(element_of(result)))
    if as_it_is and (not is_vector(result) or pair == ("i32", "f32")):
        return None
    if not is_vector(result) and isinstance(op, arith.SIToFPOp):
        folded = _rounded_constant(op, r)
        if folded is not None:
            return folded
    signed, mode = isinstance(op, arith.SIToFPOp | tpu.SitofpOp), _mode_of(op)
    if signed and mode == NEAREST and is_vector(result) and pair in r.target.direct_casts:
        if as_it_is:
            return None
        return r.emit(_made(tpu.SitofpOp, source, result.type, rounding_mode=NEAREST))
    narrow = bit_width(element_of(source)) < 32
    wide = r.to_i32(source, signed)
    kind = tpu.SitofpOp if signed or narrow else tpu.UitofpOp
    value = r.emit(_made(kind, wide, like(wide, f32), rounding_mode=mode))
    return _narrowed(value, element_of(result), mode, r)


@rule(arith.FPToSIOp, arith.FPToUIOp, tpu.FptosiOp, tpu.FptouiOp)
def legalize_to_integer(op: Operation, r: Legalizer) -> SSAValue | None:
    """By way of f32 and i32; clamped to the range of a narrower integer if the value may leave
    it."""
    source, result = op.operands[0], op.results[0]
    target = cast(IntegerType, element_of(result))
    if isinstance(op, tpu.FptosiOp | tpu.FptouiOp):
        words = bit_width(element_of(source)) == target.bitwidth == 32
        if words or not is_vector(result):
            return None
    value = r.to_f32(source)
    signed = isinstance(op, arith.FPToSIOp | tpu.FptosiOp)
    if target.bitwidth < 32:
        low = -(1 << target.bitwidth - 1) if signed else 0
        high = (1 << target.bitwidth - 1) - 1 if signed else (1 << target.bitwidth) - 1
        least, greatest = float_range(value) if is_vector(value) else (-inf, inf)
        if least < low:
            value = r.emit(arith.MaximumfOp(value, _constant_like(value, float(low), r)))
        if greatest > high:
            value = r.emit(arith.MinimumfOp(value, _constant_like(value, float(high), r)))
        signed = True
    made = tpu.FptosiOp if signed else tpu.FptouiOp
    number = r.emit(_made(made, value, like(value, i32), rounding_mode=_mode_of(op)))
    return r.to_int(number, target)


def _constant_like(value: SSAValue, number: float, r: Legalizer) -> SSAValue:
    """`number` as an f32 scalar or splat of the type of `value`."""
    if is_vector(value):
        return r.emit(arith.ConstantOp(splat(cast(VectorType[Attribute], value.type), number)))
    return r.emit(arith.ConstantOp(FloatAttr(number, f32)))
