"""Conversions of scalar narrow floats by integer arithmetic: the scalar unit only converts words.

The TPU compiler's register form has no `arith.extf` and `arith.truncf` of scalars, but it has
bitcasts and integers of 8 and 16 bits (tried on all generations). A bf16 is the upper half of the
f32 of the same value. The other types have another exponent bias, and numbers below the smallest
exponent are multiples of the smallest number.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, bf16, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, tpu
from pallasite.passes.canonicalize_mosaic.driver import NEAREST, Legalizer

_HALF = IntegerType(16)
_INFINITY, _QUIET, _SIZE = 0x7F80_0000, 0x0040_0000, 0x7FFF_FFFF
_BIAS, _MANTISSA = 127, 23


@dataclass(frozen=True)
class _Format:
    """How the bits of a narrow float encode a number; codes are without the sign bit."""

    mantissa: int
    """Bits of the mantissa, without the leading one."""
    bias: int
    largest: int
    """The code of the largest number."""
    beyond: int
    """What larger numbers round to."""
    nan: int
    one_zero: bool = False
    """Zero has no sign: its code with one is the only NaN."""

    @property
    def shift(self) -> int:
        """How many bits of the mantissa of an f32 the format does not have."""
        return _MANTISSA - self.mantissa


_FORMATS = {
    "f16": _Format(10, 15, 0x7BFF, 0x7C00, 0x7E00),
    "f4E2M1FN": _Format(1, 1, 7, 7, 8),
    "f8E5M2": _Format(2, 15, 0x7B, 0x7C, 0x7E),
    "f8E4M3": _Format(3, 7, 0x77, 0x78, 0x7C),
    "f8E3M4": _Format(4, 3, 0x6F, 0x70, 0x78),
    "f8E4M3FN": _Format(3, 7, 0x7E, 0x7F, 0x7F),
    "f8E4M3B11FNUZ": _Format(3, 11, 0x7F, 0x80, 0x80, one_zero=True),
    "f8E4M3FNUZ": _Format(3, 8, 0x7F, 0x80, 0x80, one_zero=True),
    "f8E5M2FNUZ": _Format(2, 16, 0x7F, 0x80, 0x80, one_zero=True),
}


def widened(value: SSAValue, r: Legalizer) -> SSAValue | None:
    """A scalar narrow float as f32; None if the format of its type is not known."""
    if value.type == bf16:
        word = _cast(arith.ExtUIOp, _cast(arith.BitcastOp, value, _HALF, r), i32, r)
        return _cast(arith.BitcastOp, _shifted_left(word, 16, r), f32, r)
    held = _FORMATS.get(str(value.type))
    if held is None or not isinstance(value.type, AnyFloat):
        return None
    width = value.type.bitwidth
    code = _cast(arith.BitcastOp, value, IntegerType(width), r)
    code = _cast(arith.ExtUIOp, code, i32, r)
    size = r.emit(arith.AndIOp(code, _constant((1 << width - 1) - 1, r)))
    raised = _shifted_left(size, held.shift, r)
    normal = r.emit(arith.AddiOp(raised, _constant(_BIAS - held.bias << _MANTISSA, r)))
    smallest = FloatAttr(2.0 ** (1 - held.bias - held.mantissa), f32)
    number = r.emit(
        tpu.SitofpOp.create(
            operands=[size], result_types=[f32], properties={"rounding_mode": NEAREST}
        )
    )
    small = r.emit(arith.MulfOp(number, r.emit(arith.ConstantOp(smallest))))
    small = _cast(arith.BitcastOp, small, i32, r)
    word = _where("slt", size, 1 << held.mantissa, small, normal, r)
    infinite = r.emit(arith.OrIOp(raised, _constant(_INFINITY, r)))
    word = _where("sgt", size, held.largest, infinite, word, r)
    sign = _shifted_left(_shifted_right(code, width - 1, r), 31, r)
    word = r.emit(arith.OrIOp(word, sign))
    if held.one_zero:
        word = _where("eq", code, held.nan, _constant(_INFINITY | _QUIET, r), word, r)
    return _cast(arith.BitcastOp, word, f32, r)


def rounded(value: SSAValue, element: Attribute, r: Legalizer) -> SSAValue | None:
    """A scalar f32 rounded to nearest even in the type `element`; a NaN stays one. None if the
    format is not known."""
    word = _cast(arith.BitcastOp, value, i32, r)
    size = r.emit(arith.AndIOp(word, _constant(_SIZE, r)))
    if element == bf16:
        quiet = r.emit(arith.OrIOp(word, _constant(_QUIET, r)))
        chosen = _where("sgt", size, _INFINITY, quiet, _rounded_bits(word, 16, r), r)
        upper = _cast(arith.TruncIOp, _shifted_right(chosen, 16, r), _HALF, r)
        return _cast(arith.BitcastOp, upper, bf16, r)
    held = _FORMATS.get(str(element))
    if held is None or not isinstance(element, AnyFloat):
        return None
    above = _shifted_right(_rounded_bits(size, held.shift, r), held.shift, r)
    normal = r.emit(arith.SubiOp(above, _constant(_BIAS - held.bias << held.mantissa, r)))
    # A sum with a number whose last bit is the smallest number of the type is rounded to that.
    unit = 2.0 ** (_MANTISSA + 1 - held.bias - held.mantissa)
    one = r.emit(arith.ConstantOp(FloatAttr(unit, f32)))
    total = r.emit(arith.AddfOp(_cast(arith.BitcastOp, size, f32, r), one))
    total, one = (_cast(arith.BitcastOp, v, i32, r) for v in (total, one))
    small = r.emit(arith.SubiOp(total, one))
    code = _where("slt", size, _BIAS + 1 - held.bias << _MANTISSA, small, normal, r)
    code = _where("sgt", code, held.largest, _constant(held.beyond, r), code, r)
    code = _where("sgt", size, _INFINITY, _constant(held.nan, r), code, r)
    sign = _shifted_left(_shifted_right(word, 31, r), element.bitwidth - 1, r)
    signed = r.emit(arith.OrIOp(code, sign))
    if held.one_zero:
        signed = _where("eq", code, 0, code, signed, r)
    narrow = _cast(arith.TruncIOp, signed, IntegerType(element.bitwidth), r)
    return _cast(arith.BitcastOp, narrow, element, r)


def _rounded_bits(word: SSAValue, bits: int, r: Legalizer) -> SSAValue:
    """`word` plus what makes cutting off its last `bits` bits a rounding to nearest even."""
    odd = r.emit(arith.AndIOp(_shifted_right(word, bits, r), _constant(1, r)))
    up = r.emit(arith.AddiOp(odd, _constant((1 << bits - 1) - 1, r)))
    return r.emit(arith.AddiOp(word, up))


def _where(
    predicate: str, one: SSAValue, number: int, then: SSAValue, other: SSAValue, r: Legalizer
) -> SSAValue:
    """`then` if the comparison of `one` with `number` holds, else `other`."""
    condition = r.emit(arith.CmpiOp(one, _constant(number, r), predicate))
    return r.emit(arith.SelectOp(condition, then, other))


def _shifted_left(value: SSAValue, amount: int, r: Legalizer) -> SSAValue:
    return r.emit(arith.ShLIOp(value, _constant(amount, r)))


def _shifted_right(value: SSAValue, amount: int, r: Legalizer) -> SSAValue:
    return r.emit(arith.ShRUIOp(value, _constant(amount, r)))


def _cast(kind: type[Operation], value: SSAValue, result: Attribute, r: Legalizer) -> SSAValue:
    return r.emit(kind.create(operands=[value], result_types=[result]))


def _constant(number: int, r: Legalizer) -> SSAValue:
    return r.emit(arith.ConstantOp(IntegerAttr(number, i32)))
