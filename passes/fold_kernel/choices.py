"""Folds `arith.select`: known conditions, equal operands, minima and maxima, negated conditions."""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType, i1
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith
from pallasite.dialects.predicates import MIRRORED
from pallasite.dialects.types import bit_width, element_of, is_vector
from pallasite.passes.equal_values import equal_values
from pallasite.passes.fold_kernel.driver import Folder, integer, rule, same
from pallasite.passes.fold_kernel.integers import extremum_of

_EXTREMA: dict[str, type[Operation]] = {
    "slt": arith.MinSIOp, "sle": arith.MinSIOp, "sgt": arith.MaxSIOp, "sge": arith.MaxSIOp,
    "ult": arith.MinUIOp, "ule": arith.MinUIOp, "ugt": arith.MaxUIOp, "uge": arith.MaxUIOp,
}  # fmt: skip


@rule(arith.SelectOp)
def fold_choice(op: arith.SelectOp, f: Folder) -> SSAValue | None:
    """`true ? x : y` and `c ? x : x` are `x`, where a vector `x` may be computed twice."""
    known = integer(op.cond)
    twice = is_vector(op.lhs) and equal_values(op.lhs, op.rhs)
    if known == 1 or twice or same(op.lhs, op.rhs):
        return op.lhs
    return op.rhs if known == 0 else None


@rule(arith.SelectOp)
def fold_choice_of_equals(op: arith.SelectOp, f: Folder) -> SSAValue | None:
    """`x == y ? x : y` is `y`, and `x != y ? x : y` is `x`."""
    compared = op.cond.owner
    if not isinstance(compared, arith.CmpiOp) or compared.predicate_name not in ("eq", "ne"):
        return None
    if not _among(op, compared.lhs, compared.rhs) and not _among(op, compared.rhs, compared.lhs):
        return None
    return op.rhs if compared.predicate_name == "eq" else op.lhs


@rule(arith.SelectOp)
def choose_extremum(op: arith.SelectOp, f: Folder) -> SSAValue | None:
    """`x < y ? x : y` of vectors of i32 is a minimum.

    If `y` is the least or greatest number of the type, the minimum is known, for integers of any
    width. The compiler makes minima of narrow integers, too, for which no target has an
    instruction: here the selection stays, and `check-kernel` refuses it. Unsigned minima stay
    selections, which is how they are computed.
    """
    compared = op.cond.owner
    if not isinstance(compared, arith.CmpiOp) or not isinstance(op.result.type, VectorType):
        return None
    name = compared.predicate_name
    if name not in _EXTREMA:
        return None
    if _among(op, compared.rhs, compared.lhs):
        name = MIRRORED[name]
    elif not _among(op, compared.lhs, compared.rhs):
        return None
    kind = _EXTREMA[name]
    known = extremum_of(kind, op.lhs, op.rhs)
    if known is not None or bit_width(op.result.type) != 32 or name[0] == "u":
        return known
    return f.emit(kind.create(operands=op.operands[1:], result_types=[op.result.type]))


@rule(arith.SelectOp)
def fold_choice_twice(op: arith.SelectOp, f: Folder) -> SSAValue | None:
    """`m ? (m ? x : y) : z` is `m ? x : z`, and so for the other side."""
    left, right = op.lhs, op.rhs
    while isinstance(left.owner, arith.SelectOp) and left.owner.cond is op.cond:
        left = left.owner.lhs
    while isinstance(right.owner, arith.SelectOp) and right.owner.cond is op.cond:
        right = right.owner.rhs
    if left is op.lhs and right is op.rhs:
        return None
    return f.emit(arith.SelectOp(op.cond, left, right))


@rule(arith.SelectOp)
def turn_choice(op: arith.SelectOp, f: Folder) -> SSAValue | None:
    """By a scalar, `not c ? x : y` is `c ? y : x`."""
    owner = op.cond.owner
    if isinstance(op.cond.type, VectorType) or not isinstance(owner, arith.XOrIOp):
        return None
    for one, other in (owner.operands, reversed(owner.operands)):
        if integer(other) == 1:
            return f.emit(arith.SelectOp(one, op.rhs, op.lhs))
    return None


@rule(arith.SelectOp)
def fold_choice_of_truth(op: arith.SelectOp, f: Folder) -> SSAValue | None:
    """Scalars: `c ? true : false` is `c`, `c ? false : true` is `not c`."""
    if op.result.type != i1 or element_of(op.cond) != i1:
        return None
    known = integer(op.lhs), integer(op.rhs)
    if known == (1, 0):
        return op.cond
    return f.emit(arith.XOrIOp(op.cond, op.rhs)) if known == (0, 1) else None


def _among(op: arith.SelectOp, first: SSAValue, second: SSAValue) -> bool:
    """Whether the operands of the selection `op` are these two values, in this order."""
    return same(op.lhs, first) and same(op.rhs, second)
