"""Folds reshapes, transposes, slices and gathers that change nothing, or have constant operands."""

from __future__ import annotations

import math

from xdsl.ir import Operation, SSAValue

from pallasite.dialects import tpu, vector
from pallasite.dialects.types import shape_of
from pallasite.passes.fold_kernel.driver import Folder, integer, number, rule


@rule(vector.ShapeCastOp)
def fold_reshape(op: vector.ShapeCastOp, f: Folder) -> SSAValue | None:
    """A reshape back to the first shape is the first value."""
    source = op.operands[0]
    while source.type != op.results[0].type and isinstance(source.owner, vector.ShapeCastOp):
        source = source.owner.operands[0]
    return source if source.type == op.results[0].type else None


@rule(vector.TransposeOp, tpu.TransposeOp)
def fold_transposition(op: vector.TransposeOp | tpu.TransposeOp, f: Folder) -> SSAValue | None:
    """A transpose by the identity, or one that undoes another, is no operation."""
    order = [int(d) for d in op.permutation.get_values()]
    source = op.operands[0]
    if order == sorted(order):
        return source
    first = source.owner
    if isinstance(first, vector.TransposeOp | tpu.TransposeOp):
        before = [int(d) for d in first.permutation.get_values()]
        if [before[d] for d in order] == sorted(order):
            return first.operands[0]
    return None


@rule(vector.ShuffleOp)
def fold_whole_shuffle(op: vector.ShuffleOp, f: Folder) -> SSAValue | None:
    """A shuffle that takes all rows of one operand, in order, is that operand."""
    rows, first = [int(row) for row in op.mask.get_values()], 0
    for operand in op.operands:
        size = next(iter(shape_of(operand.type)), 1)
        if operand.type == op.results[0].type and rows == list(range(first, first + size)):
            return operand
        first += size
    return None


@rule(vector.ExtractStridedSliceOp)
def fold_whole_slice(op: vector.ExtractStridedSliceOp, f: Folder) -> SSAValue | None:
    """A slice of the whole value is the value."""
    source = op.operands[0]
    return source if source.type == op.results[0].type else None


@rule(tpu.DynamicGatherOp)
def fold_gather_of_one(op: tpu.DynamicGatherOp, f: Folder) -> SSAValue | None:
    """A gather along a dimension of size 1 takes its only element, whatever the indices are: they
    are taken modulo 1."""
    dims, shape = op.dimensions.get_values(), op.source.type.get_shape()
    if len(dims) != 1 or shape[dims[0]] != 1 or dims[0] < len(shape) - 2:
        return None
    if op.source.type == op.result.type:
        return op.source
    return f.emit(vector.BroadcastOp(op.source, op.result.type))


@rule(vector.ShapeCastOp, vector.TransposeOp, tpu.TransposeOp, vector.ExtractStridedSliceOp)
def fold_shape_of_constant(op: Operation, f: Folder) -> SSAValue | None:
    """A slice, reshape or transpose of a constant with equal elements is a constant."""
    source = op.operands[0]
    known = integer(source)
    known = number(source) if known is None else known
    if known is None or math.isnan(known):
        return None
    return f.constant(op.results[0].type, known)
