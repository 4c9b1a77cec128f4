"""Canonical forms of structured control flow whose course is known before running."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.traits import ConstantLike
from xdsl.transforms.canonicalization_patterns.scf import replace_op_with_region

from pallasite.dialects import integers
from pallasite.dialects.scf import ForOp, IfOp


def _constant(value: SSAValue, *, unsigned: bool = False) -> int | None:
    attribute = ConstantLike.get_constant_value(value)
    if not isinstance(attribute, IntegerAttr):
        return None
    number = attribute.value.data
    if unsigned:
        width = attribute.type.bitwidth if isinstance(attribute.type, IntegerType) else 64
        number = integers.unsigned(number, width)
    return number


class InlineConstantIf(RewritePattern):
    """`scf.if` of a constant is the region it takes."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: IfOp, rewriter: PatternRewriter) -> None:
        condition = _constant(op.cond)
        if condition is None:
            return
        region = op.true_region if condition else op.false_region
        if region.blocks:
            replace_op_with_region(rewriter, op, region)
        else:
            rewriter.erase(op)


class InlineShortLoop(RewritePattern):
    """`scf.for` of constant bounds with no iteration is its initial values, with one its body."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ForOp, rewriter: PatternRewriter) -> None:
        unsigned = op.unsigned_cmp is not None
        lower, upper = (_constant(v, unsigned=unsigned) for v in (op.lb, op.ub))
        if lower is None or upper is None:
            return
        if upper <= lower:
            rewriter.replace(op, (), op.iter_args)
            return
        step = _constant(op.step, unsigned=unsigned)
        if step is not None and step >= upper - lower:
            replace_op_with_region(rewriter, op, op.body, (op.lb, *op.iter_args))
