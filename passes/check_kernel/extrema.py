"""Refuses maxima and minima of narrow integers that the TPU compiler makes from other operations.

It turns selections, and extensions to i32, into a maximum of the narrow type, for which no target
has an instruction. `--allow-beyond-reference` lifts these refusals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.diagnostics import Unsupported
from pallasite.dialects import arith
from pallasite.dialects.locations import refusal
from pallasite.dialects.predicates import is_unsigned
from pallasite.dialects.types import AnyVector, bit_width
from pallasite.passes.check_kernel.rules import Rule, RuleTable
from pallasite.passes.check_kernel.vectors import EXTREMUM_AS_FLOATS, constant_or_value
from pallasite.passes.equal_values import equal_values
from pallasite.targets import Target


def _narrow_extremum(op: arith.SelectOp, target: Target) -> None:
    """Refuses `a > b ? a : b` of narrow integers, or of ones extended from them, which becomes a
    maximum."""
    condition, type = op.operands[0].owner, op.results[0].type
    if not isinstance(condition, arith.CmpiOp) or not isinstance(type, VectorType):
        return
    if condition.predicate_name in ("eq", "ne"):
        return
    compared, chosen = list(condition.operands), list(op.operands[1:])
    if bit_width(type) < 32:
        # Of bytes, and of half words where their comparison goes through words, this is done once
        # more when equal values are one, but the comparison is one of words by then.
        native = bit_width(type) == 16 and condition.name in target.i16_ops
        same = _equal if native else _written_alike
        if same(compared, chosen) or same(compared, chosen[::-1]):
            raise _no_extremum(op, cast(AnyVector, type))
        return
    if not _equal(compared, chosen) and not _equal(compared, chosen[::-1]):
        return
    unsigned = is_unsigned(condition.predicate_name)
    _narrowed_extremum(op, op.operands[1:], arith.ExtUIOp if unsigned else arith.ExtSIOp)


def _written_alike(some: Sequence[SSAValue], others: Sequence[SSAValue]) -> bool:
    """Whether the values are the same SSA values, or equal constants."""
    return [constant_or_value(v) for v in some] == [constant_or_value(v) for v in others]


def _equal(some: Sequence[SSAValue], others: Sequence[SSAValue]) -> bool:
    """Whether the values are the same after common subexpressions are removed."""
    return all(
        _written_alike([one], [other]) or equal_values(one, other)
        for one, other in zip(some, others, strict=True)
    )


def _extremum(extension: type[arith.ExtSIOp | arith.ExtUIOp]) -> Rule:
    def rule(op: Operation, target: Target) -> None:
        _narrowed_extremum(op, op.operands, extension)

    return rule


def _narrowed_extremum(
    op: Operation,
    operands: Sequence[SSAValue],
    extension: type[arith.ExtSIOp | arith.ExtUIOp],
) -> None:
    """Refuses a maximum of extended narrow integers that is truncated back, which the compiler does
    in the narrow type.

    Asked of libtpu 0.0.51: that is so for two different values extended in the same way, if there
    is no other use.
    """
    sources = [v.owner.operands[0] for v in operands if isinstance(v.owner, extension)]
    users = [use.operation for use in op.results[0].uses]
    if len(set(sources)) != 2 or not users:
        return
    narrow, other = (source.type for source in sources)
    if isinstance(narrow, VectorType) and all(
        isinstance(user, arith.TruncIOp) and user.results[0].type == narrow == other
        for user in users
    ):
        raise _no_extremum(op, narrow)


def _no_extremum(op: Operation, kind: AnyVector) -> Unsupported:
    return refusal(
        op, "narrow-integer",
        f"a choice of the larger or smaller of two vectors of {kind.element_type} is not supported",
        "the compiler makes it a maximum or minimum of that type, also of vectors that are "
        "converted to int32 and back; the vector unit has it for i32 only",
        EXTREMUM_AS_FLOATS,
    )  # fmt: skip


EXTREMUM_RULES: RuleTable = {
    arith.SelectOp: (_narrow_extremum,),
    **dict.fromkeys((arith.MaxSIOp, arith.MinSIOp), (_extremum(arith.ExtSIOp),)),
    **dict.fromkeys((arith.MaxUIOp, arith.MinUIOp), (_extremum(arith.ExtUIOp),)),
}
