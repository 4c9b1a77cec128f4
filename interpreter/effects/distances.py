"""How far apart two indices of a kernel are, where its text says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.traits import is_side_effect_free

from pallasite.dialects import arith

Index = SSAValue | int
_CASTS = ("arith.index_cast", "tpu.assume_multiple")
"""Operations whose result is the number that their first operand is."""
_LOADS = ("memref.load", "pallas.load")
"""Loads of numbers: of one place they are taken for the same, whatever is written meanwhile."""
_DEPTH = 8
"""How many operations an index is followed through."""


def distance(one: Index, other: Index) -> int | None:
    """`other - one`, if that is one number whatever both depend on; None if it may be any."""
    (first, start), (second, end) = _linear(one, _DEPTH), _linear(other, _DEPTH)
    return end - start if first == second else None


def _linear(index: Index, depth: int) -> tuple[dict[Hashable, int], int]:
    """`index` as a sum of other values, each with a factor, and a number."""
    known = index if isinstance(index, int) else arith.known_integer(index)
    if known is not None:
        return {}, known
    assert not isinstance(index, int)
    owner = index.owner
    if isinstance(owner, Operation) and depth:
        if owner.name in _CASTS:
            return _linear(owner.operands[0], depth - 1)
        if isinstance(owner, arith.AddiOp | arith.SubiOp):
            return _sum(owner, 1 if isinstance(owner, arith.AddiOp) else -1, depth)
        if isinstance(owner, arith.MuliOp):
            for value, factor in (owner.operands, owner.operands[::-1]):
                by = arith.known_integer(factor)
                if by is not None:
                    terms, number = _linear(value, depth - 1)
                    return _scaled(terms, by), number * by
    return {_key(index, depth): 1}, 0


def _sum(op: Operation, sign: int, depth: int) -> tuple[dict[Hashable, int], int]:
    (terms, number), (more, by) = (_linear(value, depth - 1) for value in op.operands)
    total = Counter(terms)
    for key, factor in more.items():
        total[key] += sign * factor
    return _scaled(total, 1), number + sign * by


def _scaled(terms: dict[Hashable, int], by: int) -> dict[Hashable, int]:
    return {key: factor * by for key, factor in terms.items() if factor * by}


def _key(value: SSAValue, depth: int) -> Hashable:
    """What equal values have in common: the same operations on the same values."""
    if not isinstance(value, OpResult) or not depth:
        return value
    op = value.op
    if op.regions or not (op.operands or isinstance(op, arith.ConstantOp)):
        return value
    if op.name not in _LOADS and not is_side_effect_free(op):
        return value
    operands = tuple(_key(operand, depth - 1) for operand in op.operands)
    settings = frozenset((*op.properties.items(), *op.attributes.items()))
    return op.name, value.index, settings, operands
