"""Gives vectors that are loaded or stored the rank of their memref, by leading dimensions of 1."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from pallasite.dialects import tpu, vector
from pallasite.dialects.types import element_type, shape_of
from pallasite.passes.insertion import insert_before


def load_in_full_rank(op: vector.LoadOp) -> None:
    """Replaces a load of fewer dimensions: `vector.load %a[%i, %j] : memref<16x128xf32>,
    vector<128xf32>` becomes a load of 1x128 and a `vector.shape_cast`."""
    box = _box(op.base, op.result)
    if box is None:
        return
    loaded = insert_before(vector.LoadOp(op.base, list(op.indices), box), op)
    Rewriter.replace_op(op, vector.ShapeCastOp(loaded, op.result.type))


def store_in_full_rank(op: vector.StoreOp | tpu.VectorStoreOp) -> None:
    """Gives the stored vector, and its mask, leading dimensions of 1 by `vector.shape_cast`."""
    value = op.vector if isinstance(op, vector.StoreOp) else op.value
    if _box(op.base, value) is None:
        return
    for number, operand in enumerate(op.operands):
        box = _box(op.base, operand) if isinstance(operand.type, VectorType) else None
        if box is not None:
            op.operands[number] = insert_before(vector.ShapeCastOp(operand, box), op)


def _box(base: SSAValue, value: SSAValue) -> VectorType[Attribute] | None:
    """The type of `value` in the rank of `base`; None if it has that rank already, or is one
    element of `base`."""
    kind = cast("VectorType[Attribute]", value.type)
    missing = len(shape_of(base.type)) - len(shape_of(kind))
    if missing <= 0 or element_type(base.type) == kind:
        return None
    return VectorType(kind.element_type, (*[1] * missing, *kind.get_shape()))
