"""Compares bf16 with a constant for equality by their bits, on targets that do not compare bf16.

16-bit integers are compared packed, so that neither the values nor the mask change their width. A
number other than zero has one bit pattern, which no NaN has. Orders (`<`) are still compared in
f32: one comparison of the bits could not tell NaN from infinity, and two of them combined make the
TPU compiler's code longer (libtpu 0.0.51, v5e).
"""

from __future__ import annotations

from math import isnan
from typing import cast

import numpy as np
from xdsl.dialects.builtin import VectorType, i16
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, math, tpu
from pallasite.dialects.types import bit_width, element_of, shape_of, splat, vector_of
from pallasite.passes.canonicalize_mosaic.driver import Legalizer

_AS_INTEGERS = {"oeq": "eq", "one": "ne"}
"""Predicates of `arith.cmpf`, and of `arith.cmpi` those that say the same of bits that no NaN has:
`one` is true on NaN in Mosaic."""
_PACKED = (arith.SelectOp, arith.CmpfOp, math.AbsFOp, arith.NegfOp, tpu.VectorStoreOp)
"""Operations that take bf16 as it is, or are perhaps rewritten here."""


def equated_by_bits(op: arith.CmpfOp, r: Legalizer) -> SSAValue | None:
    """`op` as a comparison of 16-bit integers; None for other comparisons, or if f32 takes fewer
    operations."""
    predicate = _AS_INTEGERS.get(op.predicate_name)
    if predicate is None:
        return None
    for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        number = arith.splat_number(other)
        if number is None or isnan(number) or number == 0:
            continue
        if not _stays_packed(value, op):
            continue
        half = r.emit(arith.BitcastOp(value, vector_of(i16, shape_of(value.type))))
        bits = splat(cast(VectorType[Attribute], half.type), _half_word(number))
        return r.emit(arith.CmpiOp(half, r.emit(arith.ConstantOp(bits)), predicate))
    return None


def _stays_packed(value: SSAValue, op: Operation) -> bool:
    """Whether the mask only selects between 16-bit elements, and nothing known needs `value` in
    f32."""
    for use in op.results[0].uses:
        chosen = use.operation
        if not isinstance(chosen, arith.SelectOp) or use.index:
            return False
        if bit_width(element_of(chosen.result)) != 16:
            return False
    if isinstance(value.owner, tpu.TruncfOp | arith.TruncFOp):
        return False
    return all(isinstance(use.operation, _PACKED) for use in value.uses)


def _half_word(number: float) -> int:
    """The bit pattern of a number that bf16 holds, as a signed 16-bit integer."""
    return int(np.float32(number).view(np.int32)) >> 16
