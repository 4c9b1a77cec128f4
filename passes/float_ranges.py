"""Ranges of the elements of vectors of floats that were clipped: `jnp.clip(x, 0.0, 255.0)`."""

from __future__ import annotations

import math as numbers

from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, math, tpu
from pallasite.passes.two_values import number

Range = tuple[float, float]
"""The least and the greatest number that an element may be, unless it is NaN."""
_ANY = (-numbers.inf, numbers.inf)
_ROUNDING: tuple[type[Operation], ...] = (math.RoundEvenOp, math.RoundOp, math.FloorOp, math.CeilOp)
_FURTHEST = 8
"""How many operations in a row are looked through."""


def float_range(value: SSAValue, furthest: int = _FURTHEST) -> Range:
    """The range of the elements of `value`; an unknown end is infinite."""
    known = number(value)
    if known is not None:
        return _ANY if numbers.isnan(known) else (float(known), float(known))
    op = value.owner
    if not furthest or not isinstance(op, Operation):
        return _ANY
    if isinstance(op, arith.MaximumfOp | arith.MinimumfOp):
        fold = max if isinstance(op, arith.MaximumfOp) else min
        (a, b), (c, d) = (float_range(v, furthest - 1) for v in (op.lhs, op.rhs))
        return fold(a, c), fold(b, d)
    if isinstance(op, (*_ROUNDING, arith.ExtFOp, tpu.ExtfOp)):
        low, high = float_range(op.operands[0], furthest - 1)
        if not isinstance(op, _ROUNDING):
            return low, high
        return (
            low if numbers.isinf(low) else numbers.floor(low),
            high if numbers.isinf(high) else numbers.ceil(high),
        )
    return _ANY
