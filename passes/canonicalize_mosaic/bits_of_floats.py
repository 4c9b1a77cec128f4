"""bf16 that is equal to a number or not, by the bits of both, where registers compare no bf16.

Half words are compared packed: nothing is unpacked, and no mask packed. A number other than zero
has bits of its own, which no NaN has. Orders are found in f32: one comparison of half words would
not tell NaN from what lies beyond infinity, and two with their `and` make the TPU compiler's code
longer (libtpu 0.0.51, v5e).
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
    """`op` on half words; None if it is another comparison, or takes less in f32."""
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
    """Whether the mask only chooses between half words, and nothing known needs `value` in f32."""
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
    """The bits of a number that bf16 holds, as a signed half word."""
    return int(np.float32(number).view(np.int32)) >> 16
