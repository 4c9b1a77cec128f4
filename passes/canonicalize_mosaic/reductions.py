"""Reductions in 32 bits. Accumulators that change nothing are dropped later in the lowering."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, vector
from pallasite.dialects.types import (
    bit_width,
    element_of,
    is_float,
    is_vector,
    shape_of,
    splat,
)
from pallasite.passes import two_values
from pallasite.passes.canonicalize_mosaic.driver import (
    Legalizer,
    is_bf16,
    like,
    rule,
)

_FOLDS = {"maximumf": "arith.maximumf", "minimumf": "arith.minimumf"}


@rule(vector.MultiReductionOp)
def legalize_reduction(op: vector.MultiReductionOp, r: Legalizer) -> SSAValue | None:
    """bf16 is reduced in f32 and rounded once. Maxima and minima need no rounding, and reductions
    of single elements stay as they are."""
    source, acc, result = op.source, op.acc, op.results[0]
    element = element_of(source)
    if (bit_width(element) == 32 or is_bf16(element)) and _keeps_elements(op):
        kept = r.emit(vector.ShapeCastOp(source, cast(VectorType[Attribute], result.type)))
        # -0.0 and 0.0 are 0.0.
        sums = two_values.kind_of(op) == "add" and is_float(element)
        return r.emit(arith.AddfOp(kept, acc)) if sums else kept
    if bit_width(element) == 32:
        return None
    if not is_bf16(element):
        raise r.unsupported(
            op, "reduction-type", f"a reduction of {element} is not supported",
            "the cross-lane unit reduces 32-bit values", "convert to float32 or int32 first",
        )  # fmt: skip
    if is_vector(result) and _FOLDS.get(two_values.kind_of(op)) in r.target.bf16_ops:
        return None
    wide = [r.to_f32(source), r.to_f32(acc)]
    value = r.again(op, wide, like(result, element_of(wide[0])))
    return r.to_float(value, element) if is_vector(value) else value


def _keeps_elements(op: vector.MultiReductionOp) -> bool:
    """Whether every result is a single element, of dimensions of size 1, and the accumulator
    changes nothing."""
    shape = shape_of(op.source.type)
    if not is_vector(op.results[0]) or any(shape[d] != 1 for d in op.reduction_dims.get_values()):
        return False
    kind = two_values.kind_of(op)
    initial = arith.splat_number(op.acc)
    if kind not in ("add", *two_values.GREATEST, *two_values.LEAST):
        return False
    return initial == two_values.neutral_value(kind)


@rule(arith.SelectOp, arith.ExtUIOp)
def choose_before_reduction(op: Operation, r: Legalizer) -> SSAValue | None:
    """`any` and `all` directly reduce the values that are selected by their result.

    `max(where(m, 1.0, 0.0)) > 0.0 ? p : q` is the maximum (if p > q, else the minimum) of `where(m,
    p, q)`, since the comparison only asks which of the two values the maximum was.
    """
    wanted = two_values.choice(op.results[0])
    asked = two_values.compared(wanted.mask) if wanted is not None else None
    found = two_values.reduced(asked[0]) if asked is not None else None
    if wanted is None or asked is None or found is None:
        return None
    (old, inner), compare = found, asked[1]
    answers = compare(inner.yes), compare(inner.no)
    if answers[0] == answers[1] or not is_vector(old.results[0]):
        return None
    yes, no = (wanted.yes, wanted.no) if answers[0] else (wanted.no, wanted.yes)
    element = element_of(op.results[0])
    greatest = two_values.any_of(two_values.kind_of(old), inner) == (yes > no)
    flags = vector.CombiningKindFlag
    names = (flags.MAXIMUMF, flags.MINIMUMF) if is_float(element) else (flags.MAXSI, flags.MINSI)
    low, high = two_values.least_and_greatest(element)
    kind = cast(VectorType[Attribute], like(old.source, element))
    small = cast(VectorType[Attribute], like(old.results[0], element))
    values = [r.emit(arith.ConstantOp(splat(kind, n))) for n in (yes, no)]
    chosen = r.emit(arith.SelectOp(inner.mask, *values))
    neutral = r.emit(arith.ConstantOp(splat(small, low if greatest else high)))
    made = vector.MultiReductionOp.create(
        operands=[chosen, neutral],
        result_types=[small],
        properties={**old.properties, "kind": vector.CombiningKindAttr(names[not greatest])},
    )
    value = r.emit(made)
    return r.emit(vector.ShapeCastOp(value, op.results[0].type))
