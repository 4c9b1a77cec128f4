"""Converts masks to numbers by selecting between two constants.

    %n = arith.extui %m : vector<16x128xi1> to vector<16x128xi32>
    %f = arith.sitofp %n : vector<16x128xi32> to vector<16x128xf32>
    %r = arith.truncf %f : vector<16x128xf32> to vector<16x128xbf16>
becomes
    %r = arith.select %m, 1.0, 0.0 : vector<16x128xbf16>
"""

from __future__ import annotations

import math
from typing import cast

from xdsl.dialects.builtin import IntegerType, VectorType, bf16, i1, i32
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, tpu
from pallasite.dialects.types import (
    bit_width,
    element_of,
    is_float,
    is_vector,
    splat,
    splat_value,
    vector_of,
)
from pallasite.passes.canonicalize_mosaic.driver import Legalizer, rule
from pallasite.passes.canonicalize_mosaic.selects import governed_bits
from pallasite.targets import Target

_SIGNED = (arith.ExtSIOp, arith.SIToFPOp, arith.FPToSIOp, tpu.SitofpOp, tpu.FptosiOp)
_UNSIGNED = (arith.ExtUIOp, arith.UIToFPOp, arith.FPToUIOp, tpu.UitofpOp, tpu.FptouiOp)
_TO_INTEGER = (arith.FPToSIOp, arith.FPToUIOp, tpu.FptosiOp, tpu.FptouiOp)
_CONVERTING = (arith.SIToFPOp, arith.UIToFPOp, tpu.SitofpOp, tpu.UitofpOp, *_TO_INTEGER)
CASTS: tuple[type[Operation], ...] = (
    *_SIGNED, *_UNSIGNED, arith.ExtFOp, tpu.ExtfOp, arith.TruncIOp, arith.TruncFOp, tpu.TruncfOp,
)  # fmt: skip
"""Casts that keep every number that their result can hold."""

Number = int | float


@rule(*CASTS)
def choose_numbers(op: Operation, r: Legalizer) -> SSAValue | None:
    """A chain of casts of a mask is a selection, if the mask fits the width of the result."""
    result = op.results[0]
    if not is_vector(result) or (found := _chosen(result)) is None:
        return None
    mask, numbers = found
    kind = cast("VectorType[Attribute]", result.type)
    bits = bit_width(kind)
    if bits == 32 and not isinstance(op, _CONVERTING):
        return None
    mask_bits = governed_bits(mask) or bits
    if _fits(mask_bits, bits, r.target):
        return _select(mask, kind, numbers, r)
    if isinstance(op, _TO_INTEGER) and bits < 32:
        return r.to_int(
            _select(mask, vector_of(i32, kind.get_shape()), numbers, r), kind.element_type
        )
    return None if _is_chosen(result, mask_bits) else _widened(mask, kind, numbers, r)


def _is_chosen(value: SSAValue, bits: int) -> bool:
    """Whether `value` is cast from a selection between elements of `bits` bits."""
    made = value.owner
    if isinstance(made, CASTS):
        return _is_chosen(made.operands[0], bits)
    return isinstance(made, arith.SelectOp) and bit_width(element_of(value)) == bits


@rule(arith.SelectOp)
def choose_narrow(op: arith.SelectOp, r: Legalizer) -> SSAValue | None:
    """A selection between two constants of 32 bits by a mask of narrow data is done narrow, and
    then widened."""
    if not is_vector(op.cond) or (found := _chosen(op.result)) is None:
        return None
    return _widened(found[0], cast("VectorType[Attribute]", op.result.type), found[1], r)


def _widened(
    mask: SSAValue, kind: VectorType[Attribute], numbers: list[Number], r: Legalizer
) -> SSAValue | None:
    """The selection in the width of the mask, widened to words; None if the mask is one of
    words."""
    bits = governed_bits(mask) or 32
    if bit_width(kind) != 32 or not r.target.narrowest_select_bits <= bits < 32:
        return None
    floats = is_float(kind.element_type)
    narrow = vector_of(bf16 if floats and bits == 16 else IntegerType(bits), kind.get_shape())
    if not all(_holds(narrow, n) for n in numbers):
        return None
    if narrow.element_type == bf16:
        return r.to_f32(_select(mask, narrow, numbers, r))
    widening = arith.SIToFPOp if floats else arith.ExtSIOp
    if any(n == 0 and math.copysign(1, n) < 0 for n in numbers):
        return None
    chosen = _select(mask, narrow, [int(n) for n in numbers], r)
    return r.emit(widening.create(operands=[chosen], result_types=[kind]))


def _select(
    mask: SSAValue, kind: VectorType[Attribute], numbers: list[Number], r: Legalizer
) -> SSAValue:
    """The selection between `numbers` by `mask`, with elements of type `kind`."""
    constants = [r.emit(arith.ConstantOp(splat(kind, n))) for n in numbers]
    return r.emit(arith.SelectOp(mask, *constants))


def _fits(mask_bits: int, bits: int, target: Target) -> bool:
    """Whether a mask of data of `mask_bits` bits can be used for data of `bits` bits as it is."""
    if bits < target.narrowest_select_bits:
        return False
    packed = (mask_bits, bits) == (32, 16) and target.max_mask_subelements > 1
    return mask_bits == bits or packed


def _chosen(value: SSAValue) -> tuple[SSAValue, list[Number]] | None:
    """The mask that determines `value`, and the numbers where it is true and where it is false;
    None without one."""
    made = value.owner
    if isinstance(made, arith.SelectOp) and is_vector(made.cond):
        one, other = (arith.splat_number(v) for v in (made.lhs, made.rhs))
        return None if one is None or other is None else (made.cond, [one, other])
    if not isinstance(made, CASTS):
        return None
    (source,) = made.operands
    if element_of(source) == i1:
        numbers: list[Number] = [-1 if isinstance(made, _SIGNED) else 1, 0]
        inner = source, numbers
    elif (inner := _chosen(source)) is None:
        return None
    mask, before = inner
    if isinstance(made, _UNSIGNED) and min(before) < 0:
        return None
    kind = cast("VectorType[Attribute]", value.type)
    return (mask, before) if all(_holds(kind, n) for n in before) else None


def _holds(kind: VectorType[Attribute], number: Number) -> bool:
    """Whether `number` is one of the elements of type `kind`."""
    if isinstance(kind.element_type, IntegerType):
        most = 1 << kind.element_type.bitwidth - 1
        return kind.element_type.bitwidth > 1 and -most <= number < most and number == int(number)
    return splat_value(splat(kind, float(number))) == number


def becomes(value: SSAValue, bits: int) -> bool:
    """Whether the only uses of `value` are casts that make it numbers of `bits` bits."""
    if bit_width(element_of(value)) == bits:
        return True
    return all(isinstance(u.operation, CASTS) and becomes(u.operation.results[0], bits)
               for u in value.uses)  # fmt: skip
