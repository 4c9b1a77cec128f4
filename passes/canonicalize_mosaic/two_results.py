"""Sums with carry and products with an upper word, expressed by operations with one result.

The vector unit has neither: a carry is a comparison, and the upper word of a product is the sum of
products of half words.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith
from pallasite.dialects.types import is_vector, splat
from pallasite.passes.canonicalize_mosaic.driver import Legalizer, rule

_HALF = 16


@rule(arith.AddUIExtendedOp)
def add_with_carry(op: arith.AddUIExtendedOp, r: Legalizer) -> SSAValue | None:
    """An unsigned sum has wrapped if it is less than an operand."""
    if not is_vector(op.sum):
        return None
    total = r.emit(arith.AddiOp(op.lhs, op.rhs))
    op.overflow.replace_all_uses_with(r.emit(arith.CmpiOp(total, op.lhs, "ult")))
    return total


@rule(arith.SubUIExtendedOp)
def subtract_with_borrow(op: arith.SubUIExtendedOp, r: Legalizer) -> SSAValue | None:
    """An unsigned difference has wrapped if the second operand is greater than the first."""
    if not is_vector(op.diff):
        return None
    op.borrow.replace_all_uses_with(r.emit(arith.CmpiOp(op.lhs, op.rhs, "ult")))
    return r.emit(arith.SubiOp(op.lhs, op.rhs))


@rule(arith.MulUIExtendedOp, arith.MulSIExtendedOp)
def multiply_in_halves(
    op: arith.MulUIExtendedOp | arith.MulSIExtendedOp, r: Legalizer
) -> SSAValue | None:
    """The upper word from products of 16-bit halves; upper halves are signed if the factors are,
    and no partial sum overflows."""
    if not is_vector(op.low):
        return None
    shift = arith.ShRSIOp if isinstance(op, arith.MulSIExtendedOp) else arith.ShRUIOp
    half, ones = _number(op.low, _HALF, r), _number(op.low, (1 << _HALF) - 1, r)

    def upper(value: SSAValue, by: type[Operation] = shift) -> SSAValue:
        return r.emit(by.create(operands=[value, half], result_types=[value.type]))

    def lower(value: SSAValue) -> SSAValue:
        return r.emit(arith.AndIOp(value, ones))

    def multiply(a: SSAValue, b: SSAValue) -> SSAValue:
        return r.emit(arith.MuliOp(a, b))

    def add(a: SSAValue, b: SSAValue) -> SSAValue:
        return r.emit(arith.AddiOp(a, b))

    (a0, a1), (b0, b1) = ((lower(v), upper(v)) for v in op.operands)
    carried = upper(multiply(a0, b0), arith.ShRUIOp)
    middle = add(multiply(a1, b0), carried)
    crossed = add(multiply(a0, b1), lower(middle))
    high = add(add(multiply(a1, b1), upper(middle)), upper(crossed))
    op.high.replace_all_uses_with(high)
    return multiply(op.lhs, op.rhs)


def _number(like: SSAValue, number: int, r: Legalizer) -> SSAValue:
    return r.emit(arith.ConstantOp(splat(cast(VectorType[Attribute], like.type), number)))
