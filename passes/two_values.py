"""Vectors that a mask selects from two constants, and their reductions.

JAX's `any` and `all` are maxima and minima of such vectors: 1.0 where the mask is true, else 0.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import VectorType, f32, i32
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, tpu, vector
from pallasite.dialects.integers import greatest, least
from pallasite.dialects.predicates import ORDERS
from pallasite.dialects.types import bit_width

Number = int | float

GREATEST = ("maximumf", "maxsi")
LEAST = ("minimumf", "minsi")


@dataclass(frozen=True)
class Choice:
    """A vector that is `yes` where `mask` is true and `no` elsewhere; neither is NaN."""

    mask: SSAValue
    yes: Number
    no: Number


def number(value: SSAValue) -> Number | None:
    """The number that every element of `value` is, a constant or the broadcast of one; else None,
    also for NaN."""
    owner = value.owner
    if isinstance(owner, vector.BroadcastOp):
        return number(owner.source)
    known = arith.known_number(value)
    return None if known is None or math.isnan(known) else known


def choice(value: SSAValue) -> Choice | None:
    """`value` as a `Choice`, if it is a vector of 32-bit elements selected from two constants."""
    owner = value.owner
    if isinstance(owner, arith.ExtUIOp) and bit_width(owner.operands[0].type) == 1:
        return Choice(owner.operands[0], 1, 0) if _words(value) else None
    if not isinstance(owner, arith.SelectOp) or not isinstance(owner.cond.type, VectorType):
        return None
    yes, no = number(owner.lhs), number(owner.rhs)
    if yes is None or no is None or yes == no or not _words(value):
        return None
    return Choice(owner.cond, yes, no)


def _words(value: SSAValue) -> bool:
    return isinstance(value.type, VectorType) and bit_width(value.type) == 32


def kind_of(op: vector.MultiReductionOp) -> str:
    """The name of the reduction's kind, as MLIR writes it."""
    return op.kind.data.value


def any_of(kind: str, found: Choice) -> bool | None:
    """Whether the reduction gives `yes` as soon as one bit of the mask is set; False if it needs
    all of them; None if it is neither a maximum nor a minimum."""
    if kind not in (*GREATEST, *LEAST):
        return None
    return (found.yes > found.no) == (kind in GREATEST)


def reduced(value: SSAValue) -> tuple[vector.MultiReductionOp, Choice] | None:
    """The reduction behind `value`, of a choice, whose result is one of its two values."""
    while isinstance(value.owner, vector.ShapeCastOp | tpu.ReshapeOp) and value.has_one_use():
        value = value.owner.operands[0]
    op = value.owner
    if not isinstance(op, vector.MultiReductionOp) or not value.has_one_use():
        return None
    found, initial, kind = choice(op.source), number(op.acc), kind_of(op)
    if found is None or initial is None or any_of(kind, found) is None:
        return None
    fold = max if kind in GREATEST else min
    values = (found.yes, found.no)
    return (op, found) if all(fold(v, initial) == v for v in values) else None


def compared(mask: SSAValue) -> tuple[SSAValue, Callable[[Number], bool]] | None:
    """What `mask` compares with a constant, and the comparison."""
    while isinstance(mask.owner, vector.ShapeCastOp | tpu.ReshapeOp) and mask.has_one_use():
        mask = mask.owner.operands[0]
    op = mask.owner
    if not mask.has_one_use() or not isinstance(op, arith.CmpfOp | arith.CmpiOp):
        return None
    name = op.predicate_name
    # Of floats that are numbers, ordered and unordered predicates say the same.
    unsigned = isinstance(op, arith.CmpiOp) and name[0] == "u"
    compare, bound = ORDERS.get(name[-2:]), number(op.rhs)
    if compare is None or bound is None or unsigned:
        return None
    return op.lhs, lambda value: compare(value, bound)


def neutral_value(kind: str) -> Number:
    """What changes no reduction of `kind`: 0, -inf or the least integer, +inf or the greatest."""
    numbers = least_and_greatest(i32 if kind in ("maxsi", "minsi") else f32)
    return 0 if kind == "add" else numbers[kind in LEAST]


def least_and_greatest(kind: Attribute) -> tuple[Number, Number]:
    """What changes no maximum and no minimum of elements of 32-bit type `kind`."""
    return (least(32), greatest(32)) if kind == i32 else (-math.inf, math.inf)
