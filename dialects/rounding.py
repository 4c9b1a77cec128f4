"""How conversions round, of `arith` or of `tpu`: the dialects spell their modes differently."""

from __future__ import annotations

from xdsl.ir import Operation

from pallasite.dialects import arith, tpu
from pallasite.dialects.arith_casts import rounding_of
from pallasite.dialects.tpu import RoundingMode

_MODES = {
    "to_nearest_even": RoundingMode.TO_NEAREST_EVEN,
    "toward_zero": RoundingMode.TOWARDS_ZERO,
}


def rounding_mode(op: Operation) -> RoundingMode | None:
    """How the conversion `op` rounds; None for a mode that only `arith` has.

    Those of `arith` that have no mode do what it says of them: integers are made by cutting off,
    floats are the nearest.
    """
    if isinstance(op, tpu.TruncfOp | tpu.SitofpOp | tpu.UitofpOp | tpu.FptosiOp | tpu.FptouiOp):
        return op.rounding_mode.data
    if isinstance(op, arith.TruncFOp | arith.ConvertFOp):
        return _MODES.get(rounding_of(op))
    to_integer = isinstance(op, arith.FPToSIOp | arith.FPToUIOp)
    return RoundingMode.TOWARDS_ZERO if to_integer else RoundingMode.TO_NEAREST_EVEN
