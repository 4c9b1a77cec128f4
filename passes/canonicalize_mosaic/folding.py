"""Simplifies arithmetic that needs no constant: neutral operands, doubling. `fold-kernel` does the
rest.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith
from pallasite.dialects.arith import splat_number
from pallasite.dialects.types import is_vector
from pallasite.passes.canonicalize_mosaic.driver import Legalizer, rule
from pallasite.passes.divisibility import constant_of

_NEUTRAL: dict[type[Operation], int] = {
    arith.AddiOp: 0, arith.SubiOp: 0, arith.MuliOp: 1, arith.DivSIOp: 1, arith.DivUIOp: 1,
}  # fmt: skip


@rule(arith.MulfOp)
def double_by_addition(op: arith.MulfOp, r: Legalizer) -> SSAValue | None:
    """`x * 2.0` is exactly `x + x`, which needs no register for the constant."""
    if not is_vector(op.results[0]):
        return None
    left, right = op.operands
    value = left if splat_number(right) == 2 else right if splat_number(left) == 2 else None
    return None if value is None else r.emit(arith.AddfOp(value, value, op.fastmath))


@rule(*_NEUTRAL)
def fold_neutral(op: Operation, r: Legalizer) -> SSAValue | None:
    """`x + 0`, `x - 0`, `x * 1` and `x / 1` are `x`, for scalars."""
    if is_vector(op.results[0]) or not isinstance(op.results[0].type, IntegerType):
        return None
    neutral = _NEUTRAL[type(op)]
    if constant_of(op.operands[1]) == neutral:
        return op.operands[0]
    commutes = isinstance(op, arith.AddiOp | arith.MuliOp)
    return op.operands[1] if commutes and constant_of(op.operands[0]) == neutral else None
