"""Reductions: `vector.multi_reduction` from the neutral element, `tpu.reduce_index`.

A reduction to a scalar first gets a leading dimension of size 1, as in JAX, and the only element
that is left is extracted, which moves it to the scalar core. `any` and `all` of booleans are the
maximum and minimum of 0.0 and 1.0 (spec/pallas_semantics.md section 4.5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, VectorType, f32, i32
from xdsl.dialects.vector import CombiningKindFlag
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, pallas, tpu, vector
from pallasite.dialects.integers import greatest, least
from pallasite.dialects.pallas.base import integers_of
from pallasite.dialects.types import is_float, shape_of
from pallasite.lowering.pallas_to_mosaic.driver import Converter, rule, with_element

FLOATS = {
    "add": (CombiningKindFlag.ADD, 0.0),
    "max": (CombiningKindFlag.MAXIMUMF, -math.inf),
    "min": (CombiningKindFlag.MINIMUMF, math.inf),
}
INTEGERS = {
    "add": (CombiningKindFlag.ADD, 0),
    "max": (CombiningKindFlag.MAXSI, least(32)),
    "min": (CombiningKindFlag.MINSI, greatest(32)),
}
"""For each kind of reduction: the kind in Mosaic, and the neutral element it starts from."""
BOOLEANS = {"or": "max", "and": "min"}
"""For each kind of reduction of booleans: the kind of the same reduction of 0.0 and 1.0."""


@rule(pallas.ReduceOp)
def lower_reduce(op: pallas.ReduceOp, c: Converter) -> Sequence[SSAValue]:
    """Booleans, which Mosaic does not reduce, are reduced as f32."""
    kind, axes, value = op.kind.data, integers_of(op.axes), op.value
    if kind in BOOLEANS:
        return [_of_booleans(value, BOOLEANS[kind], axes, op, c)]
    return [_reduced(value, kind, axes, op, c)]


def _of_booleans(
    value: SSAValue, kind: str, axes: Sequence[int], op: pallas.ReduceOp, c: Converter
) -> SSAValue:
    floats = with_element(value.type, f32)
    chosen = c.emit(arith.SelectOp(value, c.splat(floats, 1.0), c.splat(floats, 0.0)))
    extreme = _reduced(chosen, kind, axes, op, c)
    zero = c.constant(extreme.type, 0.0)
    return c.emit(arith.CmpfOp(extreme, zero, "ogt"))


def _reduced(
    value: SSAValue, kind: str, axes: Sequence[int], op: pallas.ReduceOp, c: Converter
) -> SSAValue:
    source = cast(VectorType[Attribute], value.type)
    element, shape = source.element_type, source.get_shape()
    if not is_float(element) and element != i32:
        raise c.unsupported(
            op,
            "reduction-type",
            f"reductions are of floats and 32-bit integers, got {element}",
            "convert to int32 or float32 before the reduction, and back after it",
        )
    flag, neutral = (FLOATS if is_float(element) else INTEGERS)[kind]
    kept = [n for d, n in enumerate(shape) if d not in axes]
    if kept:
        start = c.splat(VectorType(element, kept), neutral)
        return c.emit(vector.MultiReductionOp(value, start, axes, flag))
    start = c.splat(VectorType(element, [1]), neutral)
    raised = c.reshape(value, (1, *shape))
    total = c.emit(vector.MultiReductionOp(raised, start, [d + 1 for d in axes], flag))
    whole = c.reshape(total, [1] * (len(shape) + 1))
    return c.element(whole)


@rule(pallas.ArgReduceOp)
def lower_arg_reduce(op: pallas.ArgReduceOp, c: Converter) -> Sequence[SSAValue]:
    """`tpu.reduce_index` of f32 along one axis; a vector of rank 1 becomes one row first."""
    value, axis = op.value, op.axis.value.data
    source = cast(VectorType[Attribute], value.type)
    result = op.result.type
    index = result.element_type if isinstance(result, VectorType) else result
    if source.element_type != f32 or index != i32:
        raise c.unsupported(
            op,
            "arg-reduction-type",
            f"argmax and argmin give int32 for float32, got {index} for {source.element_type}",
            "convert to float32 before",
        )
    flat = source.get_num_dims() == 1
    if flat:
        value, axis = c.reshape(value, (1, *source.get_shape())), axis + 1
    kind = tpu.ReductionKind.ARG_MAX if op.kind.data == "max" else tpu.ReductionKind.ARG_MIN
    found = c.emit(
        tpu.ReduceIndexOp.create(
            operands=[value],
            result_types=[VectorType(i32, shape_of(result) or (1,))],
            properties={"axis": IntegerAttr(axis, i32), "kind": tpu.ReductionKindAttr(kind)},
        )
    )
    return [c.element(found) if flat else found]
