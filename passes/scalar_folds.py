"""Integer arithmetic at compile time, which wraps at 32 bits as on the scalar core."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import IndexType, i1, i32
from xdsl.ir import Operation

from pallasite.dialects import arith
from pallasite.dialects.integers import wrap
from pallasite.dialects.predicates import ORDERS
from pallasite.dialects.types import bit_width

FOLDS: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.MinSIOp: min,
    arith.MaxSIOp: max,
    arith.AndIOp: lambda a, b: a & b,
    arith.OrIOp: lambda a, b: a | b,
    arith.XOrIOp: lambda a, b: a ^ b,
    # The scalar core's signed division rounds towards zero.
    arith.DivSIOp: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    arith.RemSIOp: lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
}
"""The result for signed operands, before it is wrapped."""
_OF_BITS = {arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp}
"""Operations whose lowest bit is right for i1 operands given as 0 and 1 (signed, true is -1)."""


def folds(op: Operation) -> bool:
    """Whether `fold_numbers` may compute `op`."""
    return type(op) in FOLDS or isinstance(op, arith.CmpiOp | arith.IndexCastOp | arith.ExtUIOp)


def fold_numbers(op: Operation, numbers: Sequence[int]) -> int | None:
    """The result of `op` for the operands `numbers`; an i1 is 0 or 1.

    None for other types than i1, i32 and index, divisions by zero, and operations not in `folds`.
    """
    integer = op.operands[0].type in (i1, i32) or isinstance(op.operands[0].type, IndexType)
    if not integer:
        return None
    if isinstance(op, arith.DivSIOp | arith.RemSIOp) and numbers[1] == 0:
        return None
    fold = FOLDS.get(type(op))
    if fold is not None and op.results[0].type == i1:
        return fold(*numbers) & 1 if type(op) in _OF_BITS else None
    if fold is not None:
        return wrap(fold(*numbers), 32)
    if isinstance(op, arith.CmpiOp) and op.operands[0].type != i1:
        name = op.predicate_name
        return None if name[0] == "u" else int(ORDERS[name[-2:]](*numbers))
    if isinstance(op, arith.IndexCastOp):
        return _cast(op, numbers[0])
    return numbers[0] if isinstance(op, arith.ExtUIOp) else None


def _cast(op: arith.IndexCastOp, number: int) -> int:
    """`number` extended by its sign (true of i1 is -1), or truncated to the width of the result."""
    if op.operands[0].type == i1:
        number = -number
    width = bit_width(op.results[0].type)
    return number & 1 if width == 1 else wrap(number, width)
