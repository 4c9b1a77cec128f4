"""Reductions, in one order whatever the form.

A sum over a leading dimension is a left fold. Along rows (the second-minor dimension) the blocks
of 8 are folded left, then the 8 sublanes are summed; along columns (the minor dimension) the
blocks of 128, then the 128 lanes. That is the order in which the register form reduces:
`grid.reduce`, then `tpu.all_reduce`. Padding is the neutral element. Narrow floats accumulate in
float32 and round once.
"""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, Operation

from pallasite.dialects import tpu, vector
from pallasite.dialects.registers import check_within_registers
from pallasite.dialects.tpu.keywords import ReductionKind
from pallasite.dialects.types import (
    AnyVector,
    element_type,
    register_rank,
    shape_of,
    split_grid,
)
from pallasite.interpreter.meanings import Facts, Function, many_of, meaning, stacking
from pallasite.interpreter.ops.kinds import is_vector, unsupported, wrapped
from pallasite.interpreter.ops.shape import as_scalar, stretch
from pallasite.interpreter.values import (
    Array,
    carrier,
    is_float,
    rounder,
    unsigned_dtype,
    width,
)
from pallasite.layouts.registers import LANES, SUBLANES


@dataclass(frozen=True)
class Fold:
    """A binary ufunc; `ordered` if the order in which it combines matters."""

    ufunc: np.ufunc
    neutral: float = 0
    ordered: bool = False
    unsigned: bool = False


_FLOAT_FOLDS = {
    "add": Fold(np.add, 0, ordered=True),
    "mul": Fold(np.multiply, 1, ordered=True),
    "maximumf": Fold(np.maximum),
    "minimumf": Fold(np.minimum),
    "maxnumf": Fold(np.fmax),
    "minnumf": Fold(np.fmin),
}
_INTEGER_FOLDS = {
    "add": Fold(np.add),
    "mul": Fold(np.multiply),
    "maxsi": Fold(np.maximum),
    "minsi": Fold(np.minimum),
    "maxui": Fold(np.maximum, unsigned=True),
    "minui": Fold(np.minimum, unsigned=True),
    "and": Fold(np.bitwise_and),
    "or": Fold(np.bitwise_or),
    "xor": Fold(np.bitwise_xor),
}
_ALL_REDUCE = {
    (ReductionKind.SUM, True): "add",
    (ReductionKind.SUM, False): "add",
    (ReductionKind.MAX, True): "maximumf",
    (ReductionKind.MAX, False): "maxsi",
    (ReductionKind.MIN, True): "minimumf",
    (ReductionKind.MIN, False): "minsi",
    (ReductionKind.MAXF, True): "maximumf",
    (ReductionKind.MINF, True): "minimumf",
    (ReductionKind.MAXSI, False): "maxsi",
    (ReductionKind.MINSI, False): "minsi",
    (ReductionKind.MAXUI, False): "maxui",
    (ReductionKind.MINUI, False): "minui",
}


def fold_of(op: Operation, name: str, type: Attribute) -> Fold:
    """The fold of elements of `type` for the combining kind `name`."""
    folds = _FLOAT_FOLDS if is_float(type) else _INTEGER_FOLDS
    if name not in folds:
        raise unsupported(op, f"kind {name} of {element_type(type)}")
    fold = folds[name]
    if width(type) == 1 and name not in ("and", "or", "xor"):
        raise unsupported(op, f"kind {name} of i1")
    return fold


def folds_itself(x: Array, axis: int) -> bool:
    """Whether NumPy itself reduces dimension `axis` as a left fold: its inner loop must run along
    another dimension."""
    return axis != x.ndim - 1 and x.strides[-1] == x.itemsize and x.shape[-1] >= SUBLANES


def fold_dimension(x: Array, axis: int, fold: Fold) -> Array:
    """A left fold over dimension `axis`, which is kept with extent 1."""
    if folds_itself(x, axis):
        return fold.ufunc.reduce(x, axis=axis, keepdims=True)
    place = (slice(None),) * axis
    total = x[(*place, slice(0, 1))]
    for i in range(1, x.shape[axis]):
        total = fold.ufunc(total, x[(*place, slice(i, i + 1))])
    return total


def _blocks(x: Array, axis: int, block: int, fold: Fold) -> Array:
    """Folds the blocks of `block` positions along `axis` onto each other, padding the last."""
    size = x.shape[axis]
    count = -(-size // block)
    if count * block != size:
        padding = [(0, 0)] * x.ndim
        padding[axis] = (0, count * block - size)
        x = np.pad(x, padding, constant_values=fold.neutral)
    if count == 1:
        return x
    split = x.reshape(*x.shape[:axis], count, block, *x.shape[axis + 1 :])
    return np.squeeze(fold_dimension(split, axis, fold), axis)


def reduce_lanes(x: Array, axis: int, fold: Fold) -> Array:
    """The 128 lanes in NumPy's order for contiguous data, wherever `x` lies in memory."""
    if axis != x.ndim - 1:
        return np.moveaxis(reduce_lanes(np.moveaxis(x, axis, -1), x.ndim - 1, fold), -1, axis)
    if x.strides[-1] != x.itemsize:
        x = np.ascontiguousarray(x)
    return fold.ufunc.reduce(x, axis=-1, keepdims=True)


def reduce_axis(x: Array, axis: int, fold: Fold, block: int | None) -> Array:
    """Reduces one dimension, kept with extent 1; `block` is 8 for rows, 128 for columns."""
    if block is None:
        return fold_dimension(x, axis, fold)
    x = _blocks(x, axis, block, fold)
    return reduce_lanes(x, axis, fold) if block == LANES else fold_dimension(x, axis, fold)


def _unrounded(type: AnyVector, dims: Sequence[int], fold: Fold) -> Function:
    """Reduces `dims` of vectors of `type`, which keep size 1; sums of narrow floats are not
    rounded."""
    rank = len(type.get_shape())
    blocks = {rank - 1: LANES, rank - 2: SUBLANES}
    ordered = sorted(dims)

    def in_order(x: Array) -> Array:
        for axis in ordered:
            x = reduce_axis(x, axis, fold, blocks.get(axis))
        return x

    dtype, axes = carrier(type), tuple(dims)
    if fold.ordered:
        return in_order
    if fold.unsigned:
        unsigned = unsigned_dtype(width(type))
        return lambda x: fold.ufunc.reduce(x.view(unsigned), axis=axes, keepdims=True).view(dtype)
    if fold.ufunc in (np.add, np.multiply):
        # Modulo the width of the carrier, of which less is left of narrower elements.
        return wrapped(type, lambda x: fold.ufunc.reduce(x, axis=axes, keepdims=True, dtype=dtype))
    if not is_float(type):
        return lambda x: fold.ufunc.reduce(x, axis=axes, keepdims=True)

    def extreme(x: Array) -> Array:
        found = fold.ufunc.reduce(x, axis=axes, keepdims=True)
        if x.flags.c_contiguous or not np.isnan(found).any():
            return found
        # Which of several NaNs it is depends on where elements lie, which is nobody's business.
        return fold.ufunc.reduce(np.ascontiguousarray(x), axis=axes, keepdims=True)

    return extreme


def _combiner(fold: Fold, type: Attribute) -> Function:
    if fold.ordered:
        finish = rounder(type)
        return lambda total, acc: finish(fold.ufunc(total, acc))
    if fold.unsigned:
        unsigned, dtype = unsigned_dtype(width(type)), carrier(type)
        return lambda total, acc: fold.ufunc(total.view(unsigned), acc.view(unsigned)).view(dtype)
    return wrapped(type, fold.ufunc) if fold.ufunc in (np.add, np.multiply) else fold.ufunc


@meaning(vector.MultiReductionOp)
def multi_reduction(op: vector.MultiReductionOp, facts: Facts) -> Function:
    """Folds the dimensions away in the module's order, and the result onto the accumulator."""
    source = cast(AnyVector, op.source.type)
    dims = tuple(int(d) for d in op.reduction_dims.get_values())
    fold = fold_of(op, op.kind.data.value, source)
    return reduced_onto(op.dest.type, source, dims, fold)


@meaning(vector.ReductionOp)
def vector_reduction(op: vector.ReductionOp, facts: Facts) -> Function:
    """Folds a vector of rank 1 to a scalar, and onto the accumulator if there is one."""
    source = cast(AnyVector, op.vector.type)
    fold = fold_of(op, op.kind.data.value, source)
    reduce = reduced_onto(op.dest.type, source, (0,), fold)
    return reduce if op.acc is not None else lambda x: reduce(x, None)


def reduced_onto(
    result: Attribute, source: AnyVector, dims: tuple[int, ...], fold: Fold
) -> Function:
    """A function `fn(x, acc)` that reduces the dimensions `dims` and combines the result with
    `acc`, unless that is None.

    Sums of narrow floats are rounded once, as registers compute them in float32.
    """
    reduce, combine = _unrounded(source, dims, fold), _combiner(fold, source)
    finish: Function = rounder(source) if fold.ordered else lambda x: x
    dtype, shape = carrier(source), shape_of(result)
    to_scalar = (lambda x: x) if is_vector(result) else as_scalar(source)

    def function(x: Array, acc: Any) -> Any:
        total = reduce(x).reshape(shape)
        if acc is None:
            return to_scalar(finish(total)[()])
        return to_scalar(combine(total, np.asarray(acc, dtype)))

    return function


@meaning(tpu.AllReduceOp)
def all_reduce(op: tpu.AllReduceOp, facts: Facts) -> Function:
    """Reduces sublanes or lanes of each register; every position then holds the result."""
    source, result = op.input.type, op.result.type
    dim, kind = op.dim.value.data, ReductionKind(op.kind.data)
    shape, dtype = result.get_shape(), carrier(result)
    # The verifier, which is the reference's, lets these pass.
    if not 0 <= dim < len(shape) or shape != source.get_shape():
        raise unsupported(op, f"dimension {dim} of {source}, with the result {result}")
    if (split := split_grid(source)) is not None:
        check_within_registers(op, source, dim, split[0])
    if element_type(source) == i1:
        return _mask_reduction(op, dim, kind, shape, dtype)
    if kind in (ReductionKind.ARG_MAX, ReductionKind.ARG_MIN):
        find = index_of_extremum(op, kind)
        return lambda x: np.broadcast_to(np.expand_dims(find(x, dim), dim).astype(dtype), shape)
    reduce, repeat = reduced(op), stretch((*shape[:dim], 1, *shape[dim + 1 :]), shape)
    reduces, repeats = many_of(reduce), many_of(repeat)
    assert reduces is not None and repeats is not None
    return stacking(lambda x: repeat(reduce(x)), lambda x: repeats.call(reduces.call(x)))


def reduced(op: tpu.AllReduceOp) -> Function:
    """The result of `op`, which it has in every position of its dimension, once: the fold of
    numbers."""
    source, kind = op.input.type, ReductionKind(op.kind.data)
    name = _ALL_REDUCE.get((kind, is_float(source)))
    if name is None:
        raise unsupported(op, f"kind {kind} of {element_type(source)}")
    fold, dim = fold_of(op, name, source), op.dim.value.data
    if not fold.ordered:
        return stacking(_unrounded(source, (dim,), fold), _unrounded(source, (dim + 1,), fold))
    lane_dim = len(source.get_shape()) - register_rank(source) + 1
    finish = rounder(source)
    reduce = reduce_lanes if dim == lane_dim else fold_dimension
    return stacking(
        lambda x: finish(reduce(x, dim, fold)), lambda x: finish(reduce(x, dim + 1, fold))
    )


def _mask_reduction(
    op: tpu.AllReduceOp, dim: int, kind: ReductionKind, shape: tuple[int, ...], dtype: Any
) -> Function:
    """How many bits are set, or the first that is (the extent if none is)."""
    size = shape_of(op.input.type)[dim]

    def spread(counted: Array) -> Array:
        return np.broadcast_to(counted.astype(dtype), shape)

    if kind is ReductionKind.SUM:
        return lambda m: spread(np.count_nonzero(m, axis=dim, keepdims=True))
    if kind is not ReductionKind.FIND_FIRST_SET:
        raise unsupported(op, f"kind {kind} of i1")
    return lambda m: spread(
        np.where(m.any(axis=dim, keepdims=True), m.argmax(axis=dim, keepdims=True), size)
    )


def index_of_extremum(op: Operation, kind: ReductionKind) -> Function:
    """The first position of the maximum or minimum; a NaN counts as the extremum, as in JAX."""
    if kind is ReductionKind.ARG_MAX:
        return np.argmax
    if kind is ReductionKind.ARG_MIN:
        return np.argmin
    raise unsupported(op, f"kind {kind}")


@meaning(tpu.ReduceIndexOp)
def reduce_index(op: tpu.ReduceIndexOp, facts: Facts) -> Function:
    """Drops the reduced dimension; of equal extrema the first counts."""
    find, axis = index_of_extremum(op, ReductionKind(op.kind.data)), op.axis.value.data
    dtype = carrier(op.result.type)
    return lambda x: find(x, axis).astype(dtype)


@meaning(vector.ScanOp)
def scan(op: vector.ScanOp, facts: Facts) -> Function:
    """Running values along one dimension, and the last of them. Exclusive ones begin with the
    initial value and leave out the last element; inclusive ones begin with the first (MLIR's
    lowering of `vector.scan`)."""
    source = cast(AnyVector, op.source.type)
    fold = fold_of(op, op.kind.data.value, source)
    combine = _combiner(fold, source)
    dim, inclusive = op.reduction_dim.value.data, bool(op.inclusive.value.data)
    size = source.get_shape()[dim]

    def function(x: Array, initial: Array) -> tuple[Array, Array]:
        elements = [x.take(i, dim) for i in range(size)]
        total, *rest = elements if inclusive else [initial, *elements[:-1]]
        values = [total]
        for element in rest:
            total = combine(total, element)
            values.append(total)
        return np.stack(values, dim), total

    return function
