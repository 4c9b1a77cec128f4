"""Broadcasts of narrow scalars and of masks, and changes of the shape of masks."""

from __future__ import annotations

from math import copysign
from typing import cast

from xdsl.dialects.builtin import IntegerType, VectorType, i1, i32
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, tpu, vector
from pallasite.dialects.types import (
    bit_width,
    element_of,
    is_float,
    is_vector,
    splat,
    vector_of,
)
from pallasite.passes.canonicalize_mosaic.driver import (
    Legalizer,
    like,
    rule,
)


@rule(vector.BroadcastOp)
def legalize_broadcast(op: vector.BroadcastOp, r: Legalizer) -> SSAValue | None:
    """Broadcasts of constants become splat constants, those of narrow scalars are done in 32 bits,
    and those of masks as i32."""
    source, result = op.operands[0], op.results[0]
    kind = cast(VectorType[Attribute], result.type)
    constant = arith.known_number(source)
    if constant is not None:
        return r.emit(arith.ConstantOp(splat(kind, constant)))
    element = element_of(source)
    if bit_width(element) == 1:
        return _through_i32(op, r)
    if is_vector(source) or bit_width(element) == 32:
        return None
    if is_float(element):
        # As an integer: a conversion of floats would not keep the bits of every NaN.
        number = IntegerType(bit_width(element))
        source = r.emit(arith.BitcastOp(source, number))
        value = r.emit(vector.BroadcastOp(source, _of(kind, number)))
        return r.emit(arith.BitcastOp(value, kind))
    wide = r.to_i32(source)
    return r.to_int(r.emit(vector.BroadcastOp(wide, _of(kind, i32))), element)


def _of(kind: VectorType[Attribute], element: Attribute) -> VectorType[Attribute]:
    return vector_of(element, kind.get_shape())


def _through_i32(op: Operation, r: Legalizer) -> SSAValue:
    """`op` on masks, done on i32 of 0 and 1 and compared with 0 afterwards."""
    wide = [r.to_i32(v, signed=False) if element_of(v) == i1 else v for v in op.operands]
    value = r.again(op, wide, like(op.results[0], i32))
    zero = r.emit(arith.ConstantOp(splat(cast(VectorType[Attribute], value.type), 0)))
    return r.emit(arith.CmpiOp(value, zero, "ne"))


@rule(
    vector.ShapeCastOp, tpu.ReshapeOp, vector.ExtractStridedSliceOp, tpu.TransposeOp,
    vector.TransposeOp, tpu.ConcatenateOp, tpu.RepeatOp, tpu.DynamicRotateOp, tpu.DynamicGatherOp,
)  # fmt: skip
def legalize_shape(op: Operation, r: Legalizer) -> SSAValue | None:
    """Changes of shape of masks are done on integers; those of splats, and those that change
    nothing, disappear."""
    result = op.results[0]
    if isinstance(op, vector.ShapeCastOp | tpu.ReshapeOp) and op.operands[0].type == result.type:
        return op.operands[0]
    value = _only_constant(op)
    if value is not None:
        return r.emit(arith.ConstantOp(splat(cast(VectorType[Attribute], result.type), value)))
    if element_of(result) != i1 or _only_unit_dims(op):
        return None
    return _through_i32(op, r)


def _only_constant(op: Operation) -> int | float | None:
    """The number that all elements of all vector operands of `op` are, else None; 0.0 and -0.0
    differ."""
    found = [arith.known_number(v) for v in op.operands if is_vector(v)]
    first, *others = [None if v is None else (copysign(1, v), v) for v in found]
    return found[0] if all(v == first for v in others) else None


def _only_unit_dims(op: Operation) -> bool:
    """Whether a reshape only adds and drops dimensions of size 1, so that no register changes."""
    if not isinstance(op, vector.ShapeCastOp | tpu.ReshapeOp):
        return False
    kinds = [cast(VectorType[Attribute], v.type) for v in (op.operands[0], op.results[0])]
    old, new = ([n for n in kind.get_shape() if n != 1] for kind in kinds)
    return old == new
