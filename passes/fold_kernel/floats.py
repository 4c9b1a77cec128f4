"""Folds float arithmetic, exactly to the bit: neutral operands, extrema of a value and itself, two
negations, and operations on constants.

`x + 0.0` is not `x` (-0.0 + 0.0 is 0.0), and `x - x` is not 0 (it may be NaN).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float32Type
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith
from pallasite.dialects.types import element_of
from pallasite.passes.fold_kernel.driver import Folder, number, rule, same

_NEUTRAL: dict[type[Operation], float] = {
    arith.AddfOp: -0.0, arith.SubfOp: 0.0, arith.MulfOp: 1.0, arith.DivfOp: 1.0,
    arith.MaximumfOp: -math.inf, arith.MinimumfOp: math.inf, arith.MaxnumfOp: math.nan,
    arith.MinnumfOp: math.nan,
}  # fmt: skip
_ONE_SIDED = (arith.SubfOp, arith.DivfOp)
_EXTREMA = (arith.MaximumfOp, arith.MinimumfOp, arith.MaxnumfOp, arith.MinnumfOp)
_CONSTANTS: dict[type[Operation], Callable[[Any, Any], Any]] = {
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
}


@rule(*_NEUTRAL)
def fold_neutral_float(op: Operation, f: Folder) -> SSAValue | None:
    """`x - 0.0`, `x * 1.0`, `max(x, -inf)` and the like are `x`."""
    left, right = op.operands
    neutral = _NEUTRAL[type(op)]
    if _is(right, neutral):
        return left
    return right if not isinstance(op, _ONE_SIDED) and _is(left, neutral) else None


@rule(*_EXTREMA)
def fold_extremum_of_same(op: Operation, f: Folder) -> SSAValue | None:
    """The maximum or minimum of `x` and `x` is `x`."""
    left, right = op.operands
    return left if same(left, right) else None


@rule(arith.NegfOp)
def fold_negated_twice(op: arith.NegfOp, f: Folder) -> SSAValue | None:
    """`-(-x)` is `x`."""
    owner = op.operand.owner
    return owner.operand if isinstance(owner, arith.NegfOp) else None


@rule(*_CONSTANTS)
def fold_float_constants(op: Operation, f: Folder) -> SSAValue | None:
    """An operation on f32 or bf16 constants is a constant if its result is a finite number of the
    type."""
    element = element_of(op.results[0])
    left, right = (number(v) for v in op.operands)
    if left is None or right is None or not isinstance(element, Float32Type | BFloat16Type):
        return None
    with np.errstate(all="ignore"):
        result = np.float32(_CONSTANTS[type(op)](np.float32(left), np.float32(right)))
    halves = int(result.view(np.uint32)) & 0xFFFF
    if not np.isfinite(result) or (isinstance(element, BFloat16Type) and halves):
        return None
    return f.constant(op.results[0].type, float(result))


def _is(value: SSAValue, expected: float) -> bool:
    """Whether `value` is known to be `expected`, with its sign."""
    known = number(value)
    if known is None:
        return False
    if math.isnan(expected):
        return math.isnan(known)
    return known == expected and math.copysign(1, known) == math.copysign(1, expected)
