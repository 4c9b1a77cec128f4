"""Vectors of 32-bit elements that the TPU compiler knows to be constant only as registers.

As vectors they are results of operations, but the operations on registers fold: reductions to the
maximum or minimum of constants, slices, reshapes and broadcasts of them, and arithmetic on these.
Sums along a dimension, rotations and transposes do not fold, nor does anything on packed types.
Asked of libtpu 0.0.51 for all targets, by branches that yield such vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import Float32Type, i32
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, math, tpu, vector
from pallasite.dialects.integers import wrap
from pallasite.dialects.types import element_of
from pallasite.passes.scalar_folds import FOLDS

_FLOATS: dict[type[Operation], Callable[..., Any]] = {
    arith.AddfOp: np.add, arith.SubfOp: np.subtract, arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide, arith.MaximumfOp: np.maximum, arith.MinimumfOp: np.minimum,
    arith.NegfOp: np.negative, math.AbsFOp: np.abs, math.ExpOp: np.exp,
}  # fmt: skip
_MOVED = (vector.ShapeCastOp, vector.ExtractStridedSliceOp, vector.BroadcastOp)
_EXTREMA: dict[str, Callable[..., Any]] = {
    "maximumf": max, "minimumf": min, "maxsi": max, "minsi": min,
}  # fmt: skip


def late_constant(value: SSAValue, depth: int = 16) -> float | None:
    """The element that all registers of `value` are known to consist of, None if there is none."""
    element, op = element_of(value), value.owner
    words = element == i32 or isinstance(element, Float32Type)
    if not words or not depth or not isinstance(op, Operation):
        return None
    if isinstance(op, arith.ConstantOp):
        return arith.known_number(value)
    if isinstance(op, _MOVED):
        return late_constant(op.operands[0], depth - 1)
    compute = _function_of(op)
    if compute is None:
        return None
    operands: list[float] = []
    for operand in op.operands:
        known = late_constant(operand, depth - 1)
        if known is None:
            return None
        operands.append(known)
    return compute(*operands)


def _function_of(op: Operation) -> Callable[..., float | None] | None:
    """The function that folds `op` on constant operands; None if it does not fold."""
    if isinstance(op, vector.MultiReductionOp):
        return _EXTREMA.get(op.kind.data)
    if isinstance(op, tpu.ConcatenateOp):
        return lambda *parts: parts[0] if len(set(parts)) == 1 else None
    if isinstance(op, arith.DivSIOp | arith.RemSIOp):
        return None
    if (whole := FOLDS.get(type(op))) is not None:
        return lambda *numbers: wrap(whole(*map(int, numbers)), 32)
    function = _FLOATS.get(type(op))
    return None if function is None else lambda *numbers: _rounded(function, numbers)


def _rounded(function: Callable[..., Any], numbers: Sequence[float]) -> float:
    with np.errstate(all="ignore"):
        return float(function(*map(np.float32, numbers)))
