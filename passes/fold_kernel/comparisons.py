"""Folds comparisons: of equal values, of constants, and of booleans with constants."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import IntegerType, VectorType, i1
from xdsl.ir import SSAValue

from pallasite.dialects import arith
from pallasite.dialects.predicates import MIRRORED, OPPOSITE, ORDERS, holds
from pallasite.dialects.types import element_of
from pallasite.passes.equal_values import equal_values
from pallasite.passes.fold_kernel.branches import turns_branch
from pallasite.passes.fold_kernel.driver import Folder, integer, number, rule, same, width_of

EQUAL = ("eq", "sle", "sge", "ule", "uge")
"""Predicates that hold between a value and itself."""


@rule(arith.CmpiOp)
def fold_comparison(op: arith.CmpiOp, f: Folder) -> SSAValue | None:
    """A comparison of equal values (computed twice or not), or of constants, is a constant."""
    name = op.predicate_name
    if same(op.lhs, op.rhs) or equal_values(op.lhs, op.rhs):
        return f.constant(op.result.type, int(name in EQUAL))
    left, right = integer(op.lhs), integer(op.rhs)
    if left is None or right is None:
        return None
    outcome = holds(name, left, right, width_of(element_of(op.lhs)))
    return f.constant(op.result.type, int(outcome))


@rule(arith.CmpfOp)
def fold_float_comparison(op: arith.CmpfOp, f: Folder) -> SSAValue | None:
    """A comparison of two scalar constants is a constant, unless one is NaN."""
    left, right = number(op.lhs), number(op.rhs)
    order = ORDERS.get(op.predicate_name[-2:])
    if order is None or left is None or right is None or isinstance(op.lhs.type, VectorType):
        return None
    if math.isnan(left) or math.isnan(right):
        return None
    return f.constant(op.result.type, int(order(left, right)))


@rule(arith.CmpiOp)
def fold_question_of_mask(op: arith.CmpiOp, f: Folder) -> SSAValue | None:
    """`ext(m) != 0`, `m != false` and `m == true` are `m`."""
    name, known = op.predicate_name, integer(op.rhs)
    if element_of(op.lhs) == i1:
        return op.lhs if (name, known) in (("ne", 0), ("eq", 1)) else None
    owner = op.lhs.owner
    if (name, known) == ("ne", 0) and isinstance(owner, arith.ExtUIOp | arith.ExtSIOp):
        return owner.input if element_of(owner.input) == i1 else None
    return None


@rule(arith.CmpiOp)
def move_constant_right(op: arith.CmpiOp, f: Folder) -> SSAValue | None:
    """`0 < x` is `x > 0`."""
    if integer(op.lhs) is None or integer(op.rhs) is not None:
        return None
    return f.emit(arith.CmpiOp(op.rhs, op.lhs, MIRRORED[op.predicate_name]))


@rule(arith.XOrIOp)
def negate_comparison(op: arith.XOrIOp, f: Folder) -> SSAValue | None:
    """A scalar `not (x < y)` is `x >= y`, unless a branch depends on it (`turn_negated_branch` then
    exchanges the sides of that)."""
    if isinstance(op.result.type, VectorType) or op.result.type != IntegerType(1):
        return None
    if turns_branch(op.result):
        return None
    for one, other in (op.operands, reversed(op.operands)):
        if isinstance(one.owner, arith.CmpiOp) and integer(other) == 1:
            compared = one.owner
            opposite = OPPOSITE[compared.predicate_name]
            return f.emit(arith.CmpiOp(compared.lhs, compared.rhs, opposite))
    return None
