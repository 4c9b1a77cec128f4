"""Which vectors of floats certainly have no NaN: those converted from integers, and what comes from
them without arithmetic that may make one."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, math, tpu, vector
from pallasite.dialects.types import element_of, is_float
from pallasite.passes.two_values import number

_OF_INTEGERS: tuple[type[Operation], ...] = (
    arith.SIToFPOp, arith.UIToFPOp, tpu.SitofpOp, tpu.UitofpOp,
)  # fmt: skip
_KEEPS_NUMBERS: tuple[type[Operation], ...] = (
    arith.MaximumfOp, arith.MinimumfOp, arith.NegfOp, arith.ExtFOp, arith.SelectOp, math.AbsFOp,
    tpu.ExtfOp, vector.BroadcastOp, vector.ShapeCastOp, vector.ExtractStridedSliceOp,
    tpu.ReshapeOp, tpu.TransposeOp, tpu.ConcatenateOp, tpu.RepeatOp, tpu.DynamicRotateOp,
)  # fmt: skip
"""Operations whose elements are elements of operands, maybe with another sign or type."""


def never_nan(value: SSAValue) -> bool:
    """Whether every element of vector `value` is known to be a number or an infinity."""
    seen, left = {value}, [value]
    while left:
        op = (value := left.pop()).owner
        if isinstance(op, _OF_INTEGERS) or number(value) is not None:
            continue
        if not isinstance(op, _KEEPS_NUMBERS):
            return False
        operands = [v for v in op.operands if is_float(element_of(v))]
        left += [v for v in operands if v not in seen]
        seen.update(operands)
    return True
