"""Values that are certainly equal, as removing common subexpressions finds them."""

from __future__ import annotations

from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.traits import MemoryEffectKind, is_side_effect_free, only_has_effect

_DEPTH = 16


def equal_values(one: SSAValue, other: SSAValue, depth: int = _DEPTH) -> bool:
    """Whether the two values come from the same operations on the same values; loads count if
    nothing writes between them."""
    if one is other:
        return True
    if not isinstance(one, OpResult) or not isinstance(other, OpResult) or not depth:
        return False
    a, b = one.op, other.op
    return (
        type(a) is type(b)
        and one.index == other.index
        and one.type == other.type
        and not a.regions
        and a.properties == b.properties
        and len(a.operands) == len(b.operands)
        and (is_side_effect_free(a) or _reads_the_same(a, b))
        and all(equal_values(x, y, depth - 1) for x, y in zip(a.operands, b.operands, strict=True))
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
