"""Scalar bf16 by integer arithmetic: the scalar unit converts nothing but words.

A bf16 is the upper half of the f32 of the same value. The TPU compiler's register form knows no
`arith.extf` and no `arith.truncf` of scalars, but takes bitcasts and integers of 16 bits, which was
tried on v5e.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, IntegerType, bf16, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith
from pallasite.passes.canonicalize_mosaic.driver import Legalizer

_HALF = IntegerType(16)
_INFINITY, _QUIET = 0x7F80_0000, 0x0040_0000


def widened(value: SSAValue, r: Legalizer) -> SSAValue:
    """The f32 of a scalar bf16."""
    half = _cast(arith.BitcastOp, value, _HALF, r)
    word = _cast(arith.ExtUIOp, half, i32, r)
    raised = r.emit(arith.ShLIOp(word, _constant(16, r)))
    return _cast(arith.BitcastOp, raised, f32, r)


def rounded(value: SSAValue, r: Legalizer) -> SSAValue:
    """The bf16 nearest to a scalar f32, the even one of two; a NaN stays one."""
    word = _cast(arith.BitcastOp, value, i32, r)
    odd = r.emit(arith.ShRUIOp(word, _constant(16, r)))
    odd = r.emit(arith.AndIOp(odd, _constant(1, r)))
    up = r.emit(arith.AddiOp(odd, _constant(0x7FFF, r)))
    nearest = r.emit(arith.AddiOp(word, up))
    size = r.emit(arith.AndIOp(word, _constant(0x7FFF_FFFF, r)))
    is_nan = r.emit(arith.CmpiOp(size, _constant(_INFINITY, r), "sgt"))
    quiet = r.emit(arith.OrIOp(word, _constant(_QUIET, r)))
    chosen = r.emit(arith.SelectOp(is_nan, quiet, nearest))
    upper = r.emit(arith.ShRUIOp(chosen, _constant(16, r)))
    return _cast(arith.BitcastOp, _cast(arith.TruncIOp, upper, _HALF, r), bf16, r)


def _cast(kind: type[Operation], value: SSAValue, result: Attribute, r: Legalizer) -> SSAValue:
    return r.emit(kind.create(operands=[value], result_types=[result]))


def _constant(number: int, r: Legalizer) -> SSAValue:
    return r.emit(arith.ConstantOp(IntegerAttr(number, i32)))
