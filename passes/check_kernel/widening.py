"""Which operations on packed elements the TPU compiler computes by widening to 32-bit words."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import BFloat16Type, IntegerType, VectorType
from xdsl.ir import Operation

from pallasite.dialects import arith
from pallasite.dialects.types import AnyVector, bit_width
from pallasite.targets import TARGETS, Target

SUMS = (arith.AddiOp, arith.SubiOp, arith.MuliOp)
"""Operations that some targets have for 16-bit integers."""
_WIDENED = frozenset[str]().union(*(target.bf16_ops for target in TARGETS.values()))
"""Operations that some targets have for bf16; on the others they are widened when layouts are
inferred."""


def through_words(op: Operation, target: Target) -> bool:
    """Whether the compiler widens the operands of `op` to words and narrows its result again.

    Functions that it expands only later (`math.sin`) do not count: they keep the packed layout.
    """
    kind = op.results[0].type
    values = op.operands[1:] if isinstance(op, arith.SelectOp) else op.operands
    if not isinstance(kind, VectorType) or any(v.type != kind for v in values):
        return False
    element = cast(AnyVector, kind).element_type
    if isinstance(op, arith.SelectOp):
        return bit_width(element) < target.narrowest_select_bits
    if isinstance(element, BFloat16Type):
        return op.name in _WIDENED - target.bf16_ops
    halves = isinstance(element, IntegerType) and bit_width(element) == 16
    return isinstance(op, SUMS) and halves and op.name not in target.i16_ops


def compares_packed(op: Operation, target: Target) -> bool:
    """Whether the compiler compares packed elements without widening them, which gives a mask of
    their width."""
    if isinstance(op, arith.CmpfOp):
        element = cast(AnyVector, op.lhs.type).element_type
        return isinstance(element, BFloat16Type) and op.name in target.bf16_ops
    if not isinstance(op, arith.CmpiOp):
        return False
    bits = bit_width(op.lhs.type)
    if op.predicate_name in ("eq", "ne"):
        return bits in target.equated_bits and target.narrowest_select_bits <= bits < 32
    return bits == 16 and op.name in target.i16_ops
