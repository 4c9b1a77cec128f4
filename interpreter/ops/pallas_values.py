"""Values of the `pallas` form: products, reductions and broadcasts of logical vectors.

Orders and roundings are those of the later forms (`ops/matmul.py`, `ops/reduce.py`).
"""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import VectorType, f32, i32

from pallasite.dialects import pallas
from pallasite.dialects.pallas.base import integers_of
from pallasite.dialects.pallas.dot import free_dimensions
from pallasite.dialects.tpu import ReductionKind
from pallasite.dialects.types import element_type, shape_of, vector_type
from pallasite.interpreter.meanings import Facts, Function, meaning
from pallasite.interpreter.ops.matmul import Contraction, product
from pallasite.interpreter.ops.reduce import fold_of, index_of_extremum, reduced_onto
from pallasite.interpreter.ops.shape import as_scalar
from pallasite.interpreter.values import Array, carrier, is_float, rounder


@meaning(pallas.DotOp)
def dot(op: pallas.DotOp, facts: Facts) -> Function:
    """The product added to zeros, in float32 or int32, then narrowed to the result.

    A matrix times a vector is multiplied and summed along the lanes.
    """
    left, right, result = (vector_type(value) for value in (op.lhs, op.rhs, op.result))
    floats = is_float(result)
    sums = VectorType(f32 if floats else i32, result.get_shape())
    dtype, shape = carrier(sums), result.get_shape()
    if op.is_matrix_times_vector:
        multiply = _matrix_times_vector(left.get_shape(), shape, op)
    else:
        pairs = product(left, right, sums, op.precision)
        run = Contraction(left, right, op.contracting, free_dimensions(op), op.batch).function(
            pairs
        )

        def multiply(lhs: Array, rhs: Array) -> Array:
            return run(lhs, rhs, np.zeros(shape, dtype))

    if result.element_type == sums.element_type:
        return multiply
    finish: Function = rounder(result) if floats else (lambda x: x.astype(carrier(result)))
    return lambda lhs, rhs: finish(multiply(lhs, rhs))


def _matrix_times_vector(
    lhs: tuple[int, ...], shape: tuple[int, ...], op: pallas.DotOp
) -> Function:
    products = VectorType(f32, lhs)
    reduce = reduced_onto(VectorType(f32, lhs[:1]), products, (1,), fold_of(op, "add", products))
    zeros = np.zeros(lhs[:1], np.float32)
    return lambda lhs, rhs: reduce(lhs * rhs, zeros).reshape(shape)


_FLOAT_KINDS = {"add": ("add", 0.0), "max": ("maximumf", -np.inf), "min": ("minimumf", np.inf)}


@meaning(pallas.ReduceOp)
def reduce(op: pallas.ReduceOp, facts: Facts) -> Function:
    """Folds the axes, beginning with the neutral element."""
    source = vector_type(op.value)
    axes, kind = integers_of(op.axes), op.kind.data
    if kind in ("or", "and"):
        return _of_booleans(kind, axes, shape_of(op.result.type))
    if is_float(source):
        name, neutral = _FLOAT_KINDS[kind]
    else:
        name, neutral = {"add": "add", "max": "maxsi", "min": "minsi"}[kind], None
    fold = fold_of(op, name, source)
    run = reduced_onto(op.result.type, source, axes, fold)
    if neutral is None:
        return lambda x: run(x, None)
    start = np.full(shape_of(op.result.type), neutral, carrier(source))
    return lambda x: run(x, start)


def _of_booleans(kind: str, axes: tuple[int, ...], shape: tuple[int, ...]) -> Function:
    fold: Any = np.any if kind == "or" else np.all
    if shape:
        return lambda x: fold(x, axis=axes)
    return lambda x: bool(fold(x))


@meaning(pallas.ArgReduceOp)
def arg_reduce(op: pallas.ArgReduceOp, facts: Facts) -> Function:
    """The first position of the extremum."""
    largest = op.kind.data == "max"
    find = index_of_extremum(op, ReductionKind.ARG_MAX if largest else ReductionKind.ARG_MIN)
    axis, result = op.axis.value.data, op.result.type
    if not isinstance(result, VectorType):
        scalar = as_scalar(element_type(result))
        return lambda x: scalar(find(x, axis))
    dtype = carrier(result)
    return lambda x: find(x, axis).astype(dtype)


@meaning(pallas.BroadcastOp)
def broadcast(op: pallas.BroadcastOp, facts: Facts) -> Function:
    """Dimensions of the operand go where `dims` says; the others repeat it."""
    shape = shape_of(op.result.type)
    source = shape_of(op.value.type)
    places = [1] * len(shape)
    for size, dim in zip(source, integers_of(op.dims), strict=True):
        places[dim] = size

    def fn(x: Array) -> Array:
        return np.broadcast_to(x.reshape(places), shape)

    return fn
