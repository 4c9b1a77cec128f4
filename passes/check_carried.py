"""Flat vectors of narrow elements that cross the borders of loops and branches.

Asked of libtpu 0.0.51 for v4, v5e and v6e, element by element: a one-dimensional vector of packed
elements lies in whole words as memory holds it, one that was narrowed from 32-bit words keeps a
word per element. The compiler gives a carried value one place and fails (`Invalid input layout`,
or an abort) where the other kind arrives. Our own lowering moves them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from xdsl.dialects.builtin import BFloat16Type, IntegerType, VectorType
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from pallasite.dialects import arith, scf, tpu, vector
from pallasite.dialects.types import bit_width
from pallasite.passes.check_vectors import refusal
from pallasite.targets import TARGETS, Target

Vector = VectorType[Attribute]

PACKED, SPREAD = "packed", "one per word"
_BITWISE = (arith.AndIOp, arith.OrIOp, arith.XOrIOp)
_WIDENED = frozenset[str]().union(*(target.bf16_ops for target in TARGETS.values()))
"""Operations on bf16 that chips without them widen at once."""
_SUMS = (arith.AddiOp, arith.SubiOp, arith.MuliOp)


def carried_flat(op: scf.ForOp | scf.IfOp, target: Target) -> None:
    """Refuses a loop or branch where packed and narrowed elements meet in one value."""
    for result in op.results:
        kind = result.type
        if not isinstance(kind, VectorType):
            continue
        bits = bit_width(cast(Vector, kind))
        if len(kind.get_shape()) != 1 or bits in (1, 32):
            continue
        places = {_place(value, target) for value in _arriving(op, result.index)}
        if places >= {PACKED, SPREAD}:
            raise refusal(
                op, "carried-flat", f"{op.name} carries a one-dimensional {kind} that is loaded on "
                "one way and narrowed from 32-bit words on another",
                f"{32 // bits} elements share a word in the first and none in the second, and a "
                "carried vector has one place",
                "carry it in two dimensions, x.reshape(1, n), or as a 32-bit type",
            )  # fmt: skip


def _arriving(op: scf.ForOp | scf.IfOp, index: int) -> Iterable[SSAValue]:
    """What result `index` may be: the initial value and the values that the regions yield."""
    if isinstance(op, scf.ForOp):
        yield op.iter_args[index]
    for region in op.regions:
        for block in region.blocks:
            if isinstance(block.last_op, scf.YieldOp):
                yield block.last_op.operands[index]


def _place(value: SSAValue, target: Target) -> str | None:
    """`PACKED` or `SPREAD`; None for constants, which lie anywhere, and what is not known."""
    while True:
        if isinstance(value, BlockArgument):
            following = _initial(value)
        else:
            op = cast(OpResult, value).op
            if isinstance(op, vector.LoadOp | tpu.VectorLoadOp):
                return PACKED
            if isinstance(op, arith.TruncFOp | arith.TruncIOp):
                return SPREAD if bit_width(op.operands[0].type) == 32 else None
            if through_words(op, target):
                return SPREAD
            following = _followed(op, cast(OpResult, value).index, target)
        if following is None:
            return None
        value = following


def _initial(argument: BlockArgument) -> SSAValue | None:
    """What a loop's carried argument is at first."""
    parent = argument.owner.parent_op()
    if isinstance(parent, scf.ForOp) and argument.index:
        return parent.iter_args[argument.index - 1]
    return None


def _followed(op: Operation, index: int, target: Target) -> SSAValue | None:
    """The value in whose place result `index` of `op` lies: the first that is no constant."""
    if isinstance(op, scf.ForOp | scf.IfOp):
        sources = list(_arriving(op, index))
    elif isinstance(op, (*_BITWISE, *_SUMS)) or op.name in target.bf16_ops:
        sources = list(op.operands)
    else:
        return None
    free = (arith.ConstantOp, vector.BroadcastOp)
    return next((v for v in sources if not isinstance(v.owner, free)), None)


def through_words(op: Operation, target: Target) -> bool:
    """Whether the compiler computes `op` on elements of 16 bits by widening and narrowing them.

    Functions that are spelled out later (`math.sin`) stay in place until then.
    """
    kind = op.results[0].type
    values = op.operands[1:] if isinstance(op, arith.SelectOp) else op.operands
    if not isinstance(kind, VectorType) or any(v.type != kind for v in values):
        return False
    element = cast(Vector, kind).element_type
    if isinstance(op, arith.SelectOp):
        return bit_width(element) < target.narrowest_select_bits
    if isinstance(element, BFloat16Type):
        return op.name in _WIDENED - target.bf16_ops
    return isinstance(op, _SUMS) and isinstance(element, IntegerType) and not target.i16_add
