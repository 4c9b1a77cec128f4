"""A shuffle of a register rotated along lanes becomes a rotation of its shuffle, if that exists.

    %s = tpu.sublane_shuffle %x, %x, [0, 0, 0, 0, 0, 0, 0, 0]
    %t = tpu.dynamic_rotate %x by %n dim 1
    %u = tpu.sublane_shuffle %t, %t, [0, 0, 0, 0, 0, 0, 0, 0]
becomes
    %s = tpu.sublane_shuffle %x, %x, [0, 0, 0, 0, 0, 0, 0, 0]
    %u = tpu.dynamic_rotate %s by %n dim 1

A rotation along lanes moves all sublanes alike, so the two operations commute. Such pairs arise
where a row is replicated over sublanes for two users that were lowered one after the other.
"""

from __future__ import annotations

from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import func, tpu
from pallasite.dialects.types import integers_in
from pallasite.dialects.walking import of_kind
from pallasite.lowering.creation import made

_Shuffled = tuple[SSAValue, tuple[int, ...], Block | None]
"""A register, the source sublane of each of its sublanes, and the block of the shuffle."""


def turn_spread_rows(function: func.FuncOp) -> None:
    """Rotates what is already shuffled, in the unrolled `function`, instead of shuffling again."""
    known: dict[_Shuffled, tpu.SublaneShuffleOp] = {}
    for op in list(of_kind(function, tpu.SublaneShuffleOp)):
        if op.lhs is not op.rhs:
            continue
        pattern, block = tuple(integers_in(op.pattern)), op.parent_block()
        turned = op.lhs.owner
        if isinstance(turned, tpu.DynamicRotateOp) and _turns_for(turned, op):
            before = known.get((turned.value, pattern, block))
            if before is not None:
                _turn(before, turned, op)
                continue
        known.setdefault((op.lhs, pattern, block), op)


def _turns_for(turned: tpu.DynamicRotateOp, shuffle: tpu.SublaneShuffleOp) -> bool:
    """Whether `turned` rotates all sublanes alike along the lanes, and only `shuffle` uses it."""
    along_lanes = turned.dimension.value.data == 1
    alone = all(use.operation is shuffle for use in turned.result.uses)
    return along_lanes and turned.stride is None and alone


def _turn(
    before: tpu.SublaneShuffleOp, turned: tpu.DynamicRotateOp, shuffle: tpu.SublaneShuffleOp
) -> None:
    """Replaces `shuffle`, of the rotated register, by a rotation of the result of `before`."""
    later = made(
        tpu.DynamicRotateOp, (before.result, turned.amount), (shuffle.result.type,),
        turned.properties, turned.attributes, turned.location,
    )  # fmt: skip
    Rewriter.insert_op(later, InsertPoint.before(shuffle))
    shuffle.result.replace_all_uses_with(later.results[0])
    for op in (shuffle, turned):
        op.detach()
        op.erase()
