"""Canonical forms of structured control flow whose course is known before running."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.transforms.canonicalization_patterns.scf import replace_op_with_region

from pallasite.dialects.arith import known_integer
from pallasite.dialects.integers import unsigned
from pallasite.dialects.scf import ForOp, IfOp


def _bound(value: SSAValue, op: ForOp) -> int | None:
    """A bound or step of a loop, as the loop reads it, if it is known."""
    number = known_integer(value)
    if number is None or op.unsigned_cmp is None:
        return number
    return unsigned(number, value.type.bitwidth if isinstance(value.type, IntegerType) else 64)


class InlineConstantIf(RewritePattern):
    """`scf.if` of a constant is the region it takes."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: IfOp, rewriter: PatternRewriter) -> None:
        condition = known_integer(op.cond)
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
        lower, upper = _bound(op.lb, op), _bound(op.ub, op)
        if lower is None or upper is None:
            return
        if upper <= lower:
            rewriter.replace(op, (), op.iter_args)
            return
        step = _bound(op.step, op)
        if step is not None and step >= upper - lower:
            replace_op_with_region(rewriter, op, op.body, (op.lb, *op.iter_args))
