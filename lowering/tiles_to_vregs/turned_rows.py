"""Rows that are spread, and turned besides, are spread once.

    %s = tpu.sublane_shuffle %x, %x, [0, 0, 0, 0, 0, 0, 0, 0]
    %t = tpu.dynamic_rotate %x by %n dim 1
    %u = tpu.sublane_shuffle %t, %t, [0, 0, 0, 0, 0, 0, 0, 0]
becomes
    %s = tpu.sublane_shuffle %x, %x, [0, 0, 0, 0, 0, 0, 0, 0]
    %u = tpu.dynamic_rotate %s by %n dim 1

All rows turn alike, whichever sublanes they are in. Who spread them for one user knew nothing of
the other one.
"""

from __future__ import annotations

from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import func, tpu
from pallasite.dialects.types import integers_in
from pallasite.dialects.walking import of_kind
from pallasite.lowering.creation import made

_Shuffled = tuple[SSAValue, tuple[int, ...], Block | None]
"""A register, the sublanes that its own are taken to, and where."""


def turn_spread_rows(function: func.FuncOp) -> None:
    """Turns what is shuffled already, in the unrolled `function`, instead of shuffling it again."""
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
    """Whether `turned` turns all rows alike, for `shuffle` alone."""
    along_lanes = turned.dimension.value.data == 1
    alone = all(use.operation is shuffle for use in turned.result.uses)
    return along_lanes and turned.stride is None and alone


def _turn(
    before: tpu.SublaneShuffleOp, turned: tpu.DynamicRotateOp, shuffle: tpu.SublaneShuffleOp
) -> None:
    """Replaces `shuffle` of what is `turned` by what is shuffled `before`, turned."""
    later = made(
        tpu.DynamicRotateOp, (before.result, turned.amount), (shuffle.result.type,),
        turned.properties, turned.attributes, turned.location,
    )  # fmt: skip
    Rewriter.insert_op(later, InsertPoint.before(shuffle))
    shuffle.result.replace_all_uses_with(later.results[0])
    for op in (shuffle, turned):
        op.detach()
        op.erase()
