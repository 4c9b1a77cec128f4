"""Vectors that lie along sublanes and would have to move into lanes, on chips that cannot.

A sum over the last dimension leaves its result spread over sublanes, or over registers: the last
dimension of the result lies where rows or matrices of the source lay. Storing that as the last
dimension, or combining it with a vector whose last dimension lies along lanes, moves sublanes into
lanes, for which the TPU compiler uses the gather along sublanes that v4 lacks (asked of libtpu
0.0.51). Our own lowering transposes instead, so the refusal yields to `--allow-beyond-reference`.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.diagnostics import Unsupported
from pallasite.dialects import arith, func, tpu, vector
from pallasite.passes.check_reshapes import joins_lanes
from pallasite.passes.check_vectors import refusal
from pallasite.targets import Target

Vector = VectorType[Attribute]
_STORES = (tpu.VectorStoreOp, vector.StoreOp, tpu.StridedStoreOp)


def check_columns(function: func.FuncOp, target: Target) -> None:
    """Raises `Unsupported` where `function` moves a column into lanes and `target` cannot."""
    if target.sublane_gather:
        return
    columns: set[SSAValue] = set()
    for op in function.walk():
        if isinstance(op, _STORES):
            if op.operands[0] in columns:
                raise _refused(op, target)
        elif isinstance(op, vector.BroadcastOp):
            if op.operands[0] in columns:
                raise _refused(op, target)
        elif makes_column(op):
            columns.add(op.results[0])
        elif isinstance(op, vector.ShapeCastOp):
            if _restored(op) in columns or (op.operands[0] in columns and _keeps_last(op)):
                columns.add(op.results[0])
        elif _elementwise(op):
            _combine(op, columns, target)


def makes_column(op: Operation) -> bool:
    """Whether the last dimension of the result of `op` lies along sublanes."""
    if isinstance(op, vector.MultiReductionOp):
        source, result = op.source.type, op.results[0].type
        if not isinstance(result, VectorType):
            return False
        rank = len(cast(Vector, source).get_shape())
        dims = [int(d) for d in op.reduction_dims.get_values()]
        spread = cast(Vector, result).get_shape()[-1] > 1
        return rank - 1 in dims and spread
    if isinstance(op, tpu.ReduceIndexOp):
        shape = cast(Vector, op.operands[0].type).get_shape()
        return op.axis.value.data == len(shape) - 1 and shape[-2] > 1
    if isinstance(op, tpu.MatmulOp):
        # A matrix by a vector of f32 is a product and a sum over lanes.
        return len(cast(Vector, op.operands[1].type).get_shape()) == 1
    if isinstance(op, vector.ShapeCastOp):
        source = list(cast(Vector, op.operands[0].type).get_shape())
        result = list(cast(Vector, op.results[0].type).get_shape())
        column = len(source) > 1 and source[-1] == 1 and bool(result) and result[-1] > 1
        return column and not joins_lanes(source, result) and _restored(op) is None
    return False


def _keeps_last(op: vector.ShapeCastOp) -> bool:
    """Whether the last dimension stays, so that what lies along sublanes still does."""
    old, new = (cast(Vector, v.type).get_shape() for v in (op.operands[0], op.results[0]))
    return old[-1:] == new[-1:]


def _restored(op: vector.ShapeCastOp) -> SSAValue | None:
    """The value of which `op` undoes another change of shape."""
    before = op.operands[0].owner
    if isinstance(before, vector.ShapeCastOp) and before.operands[0].type == op.results[0].type:
        return before.operands[0]
    return None


def _elementwise(op: Operation) -> bool:
    return op.dialect_name() in ("arith", "math") and bool(op.results)


def _combine(op: Operation, columns: set[SSAValue], target: Target) -> None:
    """An elementwise operation on columns gives a column; splats fit any layout."""
    vectors = [v for v in op.operands if isinstance(v.type, VectorType) and not _splat(v)]
    if not any(v in columns for v in vectors):
        return
    if not all(v in columns for v in vectors):
        raise _refused(op, target)
    columns.update(op.results)


def _splat(value: SSAValue) -> bool:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp):
        return True
    return isinstance(owner, vector.BroadcastOp) and not isinstance(
        owner.operands[0].type, VectorType
    )


def _refused(op: Operation, target: Target) -> Unsupported:
    return refusal(
        op,
        "sublane-gather",
        f"{target.name} cannot move a vector from sublanes into lanes",
        "a reduction over the last dimension leaves its result along sublanes, and moving it into "
        f"lanes takes a gather along sublanes, which {target.name} does not have",
        "keep the reduced dimension (keepdims=True) and store the result as a column",
    )
