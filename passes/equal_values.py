"""Values that are certainly equal, as removing common subexpressions finds them."""

from __future__ import annotations

from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.traits import MemoryEffectKind, is_side_effect_free, only_has_effect

_MOST_PAIRS = 64


def equal_values(one: SSAValue, other: SSAValue) -> bool:
    """Whether the two values come from the same operations on the same values; loads count if
    nothing writes between them. Not known of what takes more than 64 operations."""
    wanted = [(one, other)]
    met = {(one, other)}
    while wanted:
        left, right = wanted.pop()
        if left is right:
            continue
        if not isinstance(left, OpResult) or not isinstance(right, OpResult):
            return False
        if left.index != right.index or not _alike(left.op, right.op):
            return False
        pairs = {*zip(left.op.operands, right.op.operands, strict=True)} - met
        met |= pairs
        if len(met) > _MOST_PAIRS:
            return False
        wanted += pairs
    return True


def _alike(a: Operation, b: Operation) -> bool:
    """Whether the operations do the same with operands that are equal."""
    return (
        type(a) is type(b)
        and not a.regions
        and a.properties == b.properties
        and len(a.operands) == len(b.operands)
        and [r.type for r in a.results] == [r.type for r in b.results]
        and (is_side_effect_free(a) or _reads_the_same(a, b))
    )


def _reads_the_same(a: Operation, b: Operation) -> bool:
    """Whether only reads stand between two operations of one block, which read themselves."""
    if a.parent is not b.parent or a.parent is None:
        return False
    first, last = (a, b) if a.is_before_in_block(b) else (b, a)
    op: Operation | None = first
    while op is not None:
        if not is_side_effect_free(op) and not only_has_effect(op, MemoryEffectKind.READ):
            return False
        if op is last:
            return True
        op = op.next_op
    return False
