"""Float comparisons in the six predicates that the vector unit has: the ordered ones.

The TPU compiler answers any other predicate with "Unsupported comparison direction", which was
tried on v5e.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith
from pallasite.dialects.types import splat
from pallasite.passes.canonicalize_mosaic.driver import Legalizer

FALSE, ORD, UNO, TRUE = 0, 7, 14, 15
OPPOSITES = {8: 6, 9: 5, 10: 4, 11: 3, 12: 2, 13: 1}
"""ueq, ugt, uge, ult, ule, une: each is true where the ordered predicate beside it is not."""


def ordered(op: arith.CmpfOp, r: Legalizer) -> SSAValue | None:
    """Unordered predicates as the opposite of an ordered one; None if `op` is ordered."""
    predicate = op.predicate.value.data
    if predicate in (FALSE, TRUE):
        return r.emit(arith.ConstantOp(splat(_mask(op), predicate // TRUE)))
    if predicate in (ORD, UNO):
        left, right = (r.emit(arith.CmpfOp(v, v, "oeq")) for v in (op.lhs, op.rhs))
        both = r.emit(arith.AndIOp(left, right))
        return both if predicate == ORD else _not(both, op, r)
    if predicate not in OPPOSITES:
        return None
    return _not(r.emit(arith.CmpfOp(op.lhs, op.rhs, OPPOSITES[predicate])), op, r)


def _mask(op: arith.CmpfOp) -> VectorType[Attribute]:
    return cast("VectorType[Attribute]", op.result.type)


def _not(mask: SSAValue, op: arith.CmpfOp, r: Legalizer) -> SSAValue:
    return r.emit(arith.XOrIOp(mask, r.emit(arith.ConstantOp(splat(_mask(op), 1)))))
