"""A pass of one's own: `x / 4` becomes `x * 0.25`, before or after registers are chosen.

    tpu-opt examples/passes/quarter.pallas.mlir -p exact-division \
        --load-pass-plugin examples/passes/exact_division.py

docs/extending.md goes through it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from pallasite.dialects import arith
from pallasite.dialects.types import splat, splat_value


class DivisionByPowerOfTwo(RewritePattern):
    """Quotients of vectors whose divisor is a constant: one power of two in every element."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.DivfOp, rewriter: PatternRewriter) -> None:
        constant = op.rhs.owner
        if not isinstance(constant, arith.ConstantOp):
            return
        divisor = splat_value(constant.value)
        if divisor is None:
            return
        # The inverse of a power of two is exact, unless it is too large or too small for a float.
        fraction, exponent = math.frexp(divisor)
        if abs(fraction) == 0.5 and abs(exponent) < 126:
            inverse = arith.ConstantOp(splat(op.rhs.type, 1 / divisor))
            product = arith.MulfOp(op.lhs, inverse.result)
            rewriter.replace(op, [inverse, product])


@dataclass(frozen=True)
class ExactDivisionPass(ModulePass):
    """Replaces quotients that a product gives exactly."""

    name = "exact-division"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(DivisionByPowerOfTwo(), apply_recursively=False).rewrite_module(op)
