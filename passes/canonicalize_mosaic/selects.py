"""Selections whose mask and data have widths that fit each other."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.arith import FloatingPointLikeBinaryOperation
from xdsl.dialects.builtin import IntegerType, VectorType, i1
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, math, tpu, vector
from pallasite.dialects.types import (
    Dense,
    bit_width,
    element_of,
    is_float,
    is_vector,
    shape_of,
    splat,
    splat_value,
)
from pallasite.layouts.registers import packing
from pallasite.passes.canonicalize_mosaic.driver import (
    Legalizer,
    rule,
)
from pallasite.passes.never_nan import never_nan

COMBINATIONS = (arith.AndIOp, arith.OrIOp, arith.XOrIOp)
"""What makes a mask of two."""
_ROUNDING = (arith.TruncFOp, tpu.TruncfOp)
_COMPUTING: tuple[type[Operation], ...] = (
    FloatingPointLikeBinaryOperation, arith.CmpfOp, arith.NegfOp, arith.ExtFOp, tpu.ExtfOp,
    arith.TruncFOp, tpu.TruncfOp, arith.FPToSIOp, arith.FPToUIOp, tpu.FptosiOp,
    vector.MultiReductionOp, tpu.MatmulOp, math.AbsFOp, math.ExpOp, math.Exp2Op, math.TanhOp,
    math.LogOp, math.SqrtOp, math.RsqrtOp,
)  # fmt: skip


def governed_bits(mask: SSAValue) -> int | None:
    """The width of the data whose comparison made a mask; None if the mask fits any width."""
    found, waiting, seen = set[int](), [mask], set[SSAValue]()
    while waiting:
        value = waiting.pop()
        owner = value.owner
        if isinstance(owner, COMBINATIONS):
            waiting += [v for v in owner.operands if v not in seen]
            seen.update(owner.operands)
        elif isinstance(owner, arith.CmpiOp | arith.CmpfOp):
            found.add(bit_width(element_of(owner.operands[0])))
        elif not _is_splat(value):
            found.add(32)
    # Masks of different widths meet as masks of words.
    return 32 if len(found) > 1 else next(iter(found), None)


def _is_splat(value: SSAValue) -> bool:
    owner = value.owner
    if isinstance(owner, vector.BroadcastOp):
        return isinstance(owner.source.owner, arith.ConstantOp)  # becomes one
    return isinstance(owner, arith.ConstantOp) and splat_value(owner.value) is not None


@rule(arith.SelectOp)
def legalize_select(op: arith.SelectOp, r: Legalizer) -> SSAValue | None:
    """Broadcasts a scalar condition, and widens narrow data to the width of its mask."""
    condition, left, right = op.operands
    result = op.results[0]
    if not is_vector(result):
        return None
    element = element_of(result)
    bits = bit_width(element)
    if not is_vector(condition):
        shape = cast(VectorType[Attribute], result.type).get_shape()
        mask = r.emit(vector.BroadcastOp(condition, VectorType(i1, shape)))
        return r.emit(arith.SelectOp(mask, left, right))
    if bits == 1:
        return _logic(condition, left, right, r)
    mask_bits = governed_bits(condition) or bits
    packed = mask_bits > bits and _takes_wider_masks(op, r)
    if bits == 32 or ((packed or bits == mask_bits) and bits >= r.target.narrowest_select_bits):
        return None
    if is_float(element) and not _matters_as_number(op):
        number = VectorType(IntegerType(bits), shape_of(result.type))
        chosen = [r.emit(arith.BitcastOp(value, number)) for value in (left, right)]
        value = r.emit(arith.SelectOp(condition, *chosen))
        return r.emit(arith.BitcastOp(value, result.type))
    if is_float(element):
        return r.to_float(
            r.emit(arith.SelectOp(condition, r.to_f32(left), r.to_f32(right))), element
        )
    wide = [r.to_i32(value, low_bits=True) for value in (left, right)]
    return r.to_int(r.emit(arith.SelectOp(condition, *wide)), element)


def _matters_as_number(op: arith.SelectOp) -> bool:
    """Whether floats may be selected as f32, which keeps every number but not the bits of every
    NaN.

    That is so if the operands were rounded, since rounding again gives the same NaN, or if the uses
    of the result do not see the bits.
    """
    if all(never_nan(v) or isinstance(v.owner, _ROUNDING) for v in (op.lhs, op.rhs)):
        return True
    return all(_computes(use.operation) for use in op.result.uses)


def _computes(op: Operation) -> bool:
    """Whether `op` computes with floats, rather than moving them."""
    if isinstance(op, arith.SelectOp):
        return all(_computes(use.operation) for use in op.result.uses)
    return isinstance(op, _COMPUTING)


def _takes_wider_masks(op: arith.SelectOp, r: Legalizer) -> bool:
    """Whether narrow data is selected by a mask of wider data that is packed for it: always for 16
    bits, for bytes of integers unless they exist as words anyway."""
    bits = bit_width(element_of(op.result))
    if packing(bits) > r.target.max_mask_subelements:
        return False
    if bits != 8:
        return bits == 16
    in_words = any(isinstance(value.owner, arith.TruncIOp) for value in (op.lhs, op.rhs))
    return not is_float(element_of(op.result)) and not in_words


def _logic(mask: SSAValue, left: SSAValue, right: SSAValue, r: Legalizer) -> SSAValue:
    """A selection between masks as (mask and left) or (not mask and right)."""
    kept = r.emit(arith.AndIOp(mask, left))
    ones = r.emit(arith.ConstantOp(_true(mask)))
    other = r.emit(arith.AndIOp(r.emit(arith.XOrIOp(mask, ones)), right))
    return r.emit(arith.OrIOp(kept, other))


def _true(mask: SSAValue) -> Dense:
    return splat(cast(VectorType[Attribute], mask.type), 1)
