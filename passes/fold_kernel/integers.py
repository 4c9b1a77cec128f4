"""Folds integer arithmetic on scalars and vectors of any width: neutral and absorbing operands,
operations on a value and itself, sums that cancel, and constants."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith
from pallasite.dialects.integers import greatest, least, unsigned
from pallasite.dialects.types import element_of, is_vector
from pallasite.passes.equal_values import equal_values
from pallasite.passes.fold_kernel.driver import Folder, integer, rule, same, width_of
from pallasite.passes.scalar_folds import FOLDS

_COMMUTATIVE = {
    arith.AddiOp, arith.MuliOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp, arith.MaxSIOp,
    arith.MinSIOp, arith.MaxUIOp, arith.MinUIOp,
}  # fmt: skip
_NEUTRAL: dict[type[Operation], Callable[[int], int]] = {
    **dict.fromkeys(
        (
            arith.AddiOp, arith.SubiOp, arith.OrIOp, arith.XOrIOp, arith.MaxUIOp, arith.ShLIOp,
            arith.ShRSIOp, arith.ShRUIOp,
        ),
        lambda width: 0,
    ),
    **dict.fromkeys((arith.MuliOp, arith.DivSIOp, arith.DivUIOp), lambda width: 1),
    **dict.fromkeys((arith.AndIOp, arith.MinUIOp), lambda width: _ones(width)),
    arith.MaxSIOp: lambda width: _least(width),
    arith.MinSIOp: greatest,
}  # fmt: skip
"""The right operand, for a width in bits, with which the result is the left operand."""
_ABSORBING: dict[type[Operation], Callable[[int], int]] = {
    **dict.fromkeys((arith.MuliOp, arith.AndIOp, arith.MinUIOp), lambda width: 0),
    **dict.fromkeys((arith.OrIOp, arith.MaxUIOp), lambda width: _ones(width)),
    arith.MaxSIOp: greatest,
    arith.MinSIOp: lambda width: _least(width),
}
"""The right operand, for a width in bits, that is the result whatever the left operand is."""
_IDEMPOTENT = (
    arith.AndIOp, arith.OrIOp, arith.MaxSIOp, arith.MinSIOp, arith.MaxUIOp, arith.MinUIOp,
)  # fmt: skip
_UNSIGNED: dict[type[Operation], Callable[[int, int], int]] = {
    arith.MaxUIOp: max,
    arith.MinUIOp: min,
    arith.DivUIOp: lambda a, b: a // b,
    arith.RemUIOp: lambda a, b: a % b,
}
"""Functions of operands taken as unsigned; `FOLDS` has those of signed operands."""
_DIVISIONS = (arith.DivSIOp, arith.RemSIOp, arith.DivUIOp, arith.RemUIOp)


_FIRST_RESULTS: dict[type[Operation], type[arith.AddiOp | arith.SubiOp | arith.MuliOp]] = {
    arith.AddUIExtendedOp: arith.AddiOp,
    arith.SubUIExtendedOp: arith.SubiOp,
    arith.MulSIExtendedOp: arith.MuliOp,
    arith.MulUIExtendedOp: arith.MuliOp,
}
"""The operation with one result that computes the first result of one with two."""


def _ones(width: int) -> int:
    """All bits set: -1, or true."""
    return 1 if width == 1 else -1


def _least(width: int) -> int:
    return 1 if width == 1 else least(width)


@rule(*_NEUTRAL)
def fold_neutral(op: Operation, f: Folder) -> SSAValue | None:
    """`x + 0`, `x * 1`, `x & -1` and the like are `x`."""
    return _kept(type(op), *op.operands)


@rule(*_ABSORBING)
def fold_absorbing(op: Operation, f: Folder) -> SSAValue | None:
    """`x * 0`, `x & 0`, `x | -1` and the like are the constant."""
    return _absorbed(type(op), *op.operands)


def extremum_of(kind: type[Operation], left: SSAValue, right: SSAValue) -> SSAValue | None:
    """Which of two integers their maximum or minimum `kind` certainly is, None if either may be."""
    known = _kept(kind, left, right)
    return _absorbed(kind, left, right) if known is None else known


def _kept(kind: type[Operation], left: SSAValue, right: SSAValue) -> SSAValue | None:
    neutral = _NEUTRAL[kind](width_of(element_of(left)))
    if integer(right) == neutral:
        return left
    return right if kind in _COMMUTATIVE and integer(left) == neutral else None


def _absorbed(kind: type[Operation], left: SSAValue, right: SSAValue) -> SSAValue | None:
    absorbing = _ABSORBING[kind](width_of(element_of(left)))
    return next((v for v in (left, right) if integer(v) == absorbing), None)


@rule(*_IDEMPOTENT)
def fold_idempotent(op: Operation, f: Folder) -> SSAValue | None:
    """`x & x`, `x | x` and extrema of `x` and `x` are `x`.

    A vector `x` may be computed twice; the TPU compiler checks scalars before it merges equal ones.
    """
    left, right = op.operands
    twice = is_vector(left) and equal_values(left, right)
    return left if twice or same(left, right) else None


@rule(arith.SubiOp, arith.XOrIOp)
def fold_difference_of_same(op: Operation, f: Folder) -> SSAValue | None:
    """`x - x` and `x ^ x` are 0, whether `x` is computed once or twice.

    Differences of bytes need one `x`: the TPU compiler refuses them before it merges equal values.
    """
    left, right = op.operands
    early = isinstance(op, arith.SubiOp) and width_of(element_of(left)) < 16
    if not same(left, right) and (early or not equal_values(left, right)):
        return None
    return f.constant(op.results[0].type, 0)


@rule(arith.RemSIOp, arith.RemUIOp)
def fold_remainder_by_one(op: Operation, f: Folder) -> SSAValue | None:
    """`x % 1` is 0."""
    one = width_of(element_of(op.operands[0])) > 1 and integer(op.operands[1]) == 1
    return f.constant(op.results[0].type, 0) if one else None


@rule(arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp)
def fold_division_of_same(op: Operation, f: Folder) -> SSAValue | None:
    """`x / x` is 1 and `x % x` is 0, `0 / x` and `0 % x` are 0, of integers of any width.

    `x` may be computed twice, except bytes, which the TPU compiler refuses before it merges equal
    values. A division by zero is undefined in MLIR; here it stays -1, as XLA has it.
    """
    left, right = op.operands
    zero = integer(left) == 0
    twice = is_vector(left) and width_of(element_of(left)) >= 16 and equal_values(left, right)
    if integer(right) == 0 or not (zero or twice or same(left, right)):
        return None
    kind, remainder = op.results[0].type, isinstance(op, arith.RemSIOp | arith.RemUIOp)
    quotient = f.constant(kind, 0 if zero or remainder else 1)
    if remainder:
        return quotient
    by_zero = f.emit(arith.CmpiOp(right, f.constant(kind, 0), "eq"))
    return f.emit(arith.SelectOp(by_zero, f.constant(kind, -1), quotient))


@rule(arith.AddiOp)
def fold_sum_of_difference(op: arith.AddiOp, f: Folder) -> SSAValue | None:
    """`(x - y) + y` is `x`."""
    for one, other in (op.operands, reversed(op.operands)):
        if isinstance(one.owner, arith.SubiOp) and same(one.owner.rhs, other):
            return one.owner.lhs
    return None


@rule(arith.SubiOp)
def fold_difference_of_sum(op: arith.SubiOp, f: Folder) -> SSAValue | None:
    """`(x + y) - y` is `x`, and `x - (x - y)` is `y`."""
    left, right = op.lhs, op.rhs
    if isinstance(left.owner, arith.AddiOp):
        for one, other in (left.owner.operands, reversed(left.owner.operands)):
            if same(other, right):
                return one
    if isinstance(right.owner, arith.SubiOp) and same(right.owner.lhs, left):
        return right.owner.rhs
    return None


@rule(arith.XOrIOp)
def fold_xor_twice(op: arith.XOrIOp, f: Folder) -> SSAValue | None:
    """`(x ^ y) ^ y` is `x`; a mask that is negated twice is the mask."""
    for one, other in (op.operands, reversed(op.operands)):
        if not isinstance(one.owner, arith.XOrIOp):
            continue
        for kept, gone in (one.owner.operands, reversed(one.owner.operands)):
            if same(gone, other):
                return kept
    return None


@rule(arith.AndIOp, arith.OrIOp)
def fold_with_complement(op: Operation, f: Folder) -> SSAValue | None:
    """`x & ~x` is 0, `x | ~x` is -1."""
    width = width_of(element_of(op.operands[0]))
    for one, other in (op.operands, reversed(op.operands)):
        owner = other.owner
        if not isinstance(owner, arith.XOrIOp):
            continue
        for kept, mask in (owner.operands, reversed(owner.operands)):
            if same(kept, one) and integer(mask) == _ones(width):
                result = 0 if isinstance(op, arith.AndIOp) else _ones(width)
                return f.constant(op.results[0].type, result)
    return None


@rule(*_FIRST_RESULTS)
def fold_first_result(op: Operation, f: Folder) -> SSAValue | None:
    """An extended sum, difference or product whose second result is unused is a plain one."""
    if op.results[1].uses:
        return None
    left, right = op.operands
    return f.emit(_FIRST_RESULTS[type(op)](left, right))


@rule(*FOLDS, *_UNSIGNED)
def fold_constants(op: Operation, f: Folder) -> SSAValue | None:
    """An operation on constants is a constant, unless it divides by zero or overflows."""
    left, right = (integer(v) for v in op.operands)
    if left is None or right is None:
        return None
    kind, width = type(op), width_of(element_of(op.operands[0]))
    if width == 1 and kind not in (arith.AndIOp, arith.OrIOp, arith.XOrIOp):
        return None
    if kind in _UNSIGNED:
        left, right = (unsigned(v, width) for v in (left, right))
    if kind in _DIVISIONS and (right == 0 or (left == _least(width) and right == -1)):
        return None
    compute = _UNSIGNED.get(kind) or FOLDS[kind]
    return f.constant(op.results[0].type, compute(left, right))
