"""Reductions in 32 bits; an accumulator that changes nothing is left out by the lowering."""

from __future__ import annotations

from xdsl.ir import SSAValue

from pallasite.dialects import vector
from pallasite.dialects.types import bit_width
from pallasite.passes.canonicalize_mosaic.driver import (
    Legalizer,
    element_of,
    is_bf16,
    is_vector,
    like,
    rule,
)

_FOLDS = {"maximumf": "arith.maximumf", "minimumf": "arith.minimumf"}


def _kind(op: vector.MultiReductionOp) -> str:
    return str(op.kind.data.value if hasattr(op.kind.data, "value") else op.kind.data)


@rule(vector.MultiReductionOp)
def legalize_reduction(op: vector.MultiReductionOp, r: Legalizer) -> SSAValue | None:
    """bf16 reduces in f32 and rounds once; maxima and minima round nothing."""
    source, acc, result = op.source, op.acc, op.results[0]
    element = element_of(source)
    if bit_width(element) == 32:
        return None
    if not is_bf16(element):
        raise r.unsupported(
            op, "reduction-type", f"a reduction of {element} is not supported",
            "the cross-lane unit reduces 32-bit values", "convert to float32 or int32 first",
        )  # fmt: skip
    if is_vector(result) and _FOLDS.get(_kind(op)) in r.target.bf16_ops:
        return None
    wide = [r.to_f32(source), r.to_f32(acc)]
    value = r.again(op, wide, like(result, element_of(wide[0])))
    return r.to_float(value, element) if is_vector(value) else value
