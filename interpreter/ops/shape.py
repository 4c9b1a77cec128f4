"""Moves that only rename positions: broadcast, reshape, transpose, slices, concatenation.

Results may be views of their operands; nobody writes into a value.
"""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Operation

from pallasite.diagnostics import ExecutionError
from pallasite.dialects import tpu, vector
from pallasite.dialects.types import shape_of
from pallasite.interpreter.meanings import Facts, Function, meaning, stacking
from pallasite.interpreter.ops.convert import reinterpret
from pallasite.interpreter.ops.kinds import is_vector
from pallasite.interpreter.values import (
    bits_of,
    carrier,
    is_float,
    pack_words,
    poison,
    unpack_words,
    values_of,
    width,
)

_DYNAMIC = -(1 << 63)
_LAYOUTS = 8
"""Layouts of which a broadcast remembers where they repeat."""


def as_scalar(type: Attribute) -> Function:
    """The function from an element of an array of `type` to the scalar carrier."""
    if is_float(type):
        return np.float32
    return bool if width(type) == 1 else int


@meaning(vector.BroadcastOp)
def broadcast(op: vector.BroadcastOp, facts: Facts) -> Function:
    """A view without memory of its own; shapes are aligned at their ends."""
    shape, dtype = shape_of(op.vector.type), carrier(op.vector.type)
    if is_vector(op.source.type):
        return stretch(shape_of(op.source.type), shape)
    strides = (0,) * len(shape)
    return lambda x: np.ndarray(shape, dtype, np.array(x, dtype), 0, strides)


def stretch(source: tuple[int, ...], shape: tuple[int, ...]) -> Function:
    """`np.broadcast_to` from one shape to another, faster for contiguous arrays, and for a single
    broadcast number."""
    sizes = (1,) * (len(shape) - len(source)) + source
    steps = [prod(sizes[d + 1 :]) if n == sizes[d] else 0 for d, n in enumerate(shape)]

    new = (0,) * (len(shape) - len(source))
    kept: dict[tuple[int, ...], tuple[Any, tuple[int, ...]]] = {}
    """Of arrays that repeat, by their strides, where what they hold is once, and those of the
    result."""

    def place(strides: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
        once = tuple(slice(None) if step else slice(1) for step in strides)
        sizes = zip(source, shape[len(new) :], strides, strict=True)
        found = once, (*new, *(step if old == size else 0 for old, size, step in sizes))
        if len(kept) < _LAYOUTS:
            kept[strides] = found
        return found

    def function(x: Any) -> Any:
        if x.flags.c_contiguous:
            return np.ndarray(shape, x.dtype, x, 0, [x.itemsize * step for step in steps])
        strides = x.strides
        if 0 in strides and x.size:
            once, repeated = kept.get(strides) or place(strides)
            held = x[once]
            if held.flags.c_contiguous:
                return np.ndarray(shape, x.dtype, held, 0, repeated)
        return np.broadcast_to(x, shape)

    def many(x: Any) -> Any:
        if x.flags.c_contiguous:
            place = (prod(source) * x.itemsize, *(x.itemsize * step for step in steps))
            return np.ndarray((len(x), *shape), x.dtype, x, 0, place)
        return np.broadcast_to(x.reshape(len(x), *sizes), (len(x), *shape))

    return stacking(function, many)


@meaning(vector.ShapeCastOp, tpu.ReshapeOp)
def reshape(op: Operation, facts: Facts) -> Function:
    """The same elements in row-major order."""
    shape = shape_of(op.results[0].type)
    return stacking(lambda x: x.reshape(shape), lambda x: x.reshape(len(x), *shape))


@meaning(vector.TransposeOp, tpu.TransposeOp)
def transpose(op: vector.TransposeOp | tpu.TransposeOp, facts: Facts) -> Function:
    """A view: dimension d of the result is dimension `permutation[d]` of the operand."""
    permutation = tuple(int(d) for d in op.permutation.get_values())
    turned = (0, *(d + 1 for d in permutation))
    return stacking(lambda x: x.transpose(permutation), lambda x: x.transpose(turned))


def _positions(
    static: tuple[int, ...], dynamic: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[int, ...]:
    """The position in a vector of that shape; constant positions were checked by verifiers."""
    given = iter(dynamic)
    position = tuple(next(given) if p == _DYNAMIC else p for p in static)
    if not all(0 <= index < size for index, size in zip(position, shape, strict=False)):
        raise ExecutionError(
            "out-of-bounds", f"position {list(position)} is outside a vector of shape {list(shape)}"
        )
    return position


@meaning(vector.ExtractOp)
def extract(op: vector.ExtractOp, facts: Facts) -> Function:
    """A scalar, or the view of what is left of the vector, at positions of leading dimensions."""
    static = tuple(int(p) for p in op.static_position.get_values())
    result = (lambda x: x) if is_vector(op.result.type) else as_scalar(op.result.type)
    if not op.dynamic_position:
        return lambda x: result(x[static])
    return lambda x, *dynamic: result(x[_positions(static, dynamic, x.shape)])


@meaning(vector.InsertOp)
def insert(op: vector.InsertOp, facts: Facts) -> Function:
    """A copy of the vector with one position replaced; `ExecutionError` outside of it."""
    static = tuple(int(p) for p in op.static_position.get_values())

    def function(value: Any, into: Any, *dynamic: int) -> Any:
        result = into.copy()
        result[_positions(static, dynamic, result.shape)] = value
        return result

    return function


def _box(offsets: Any, sizes: Any, strides: Any) -> tuple[slice, ...]:
    """The slices of a box; `sizes` may also be a tuple of integers."""
    corner = [n.value.data for n in offsets]
    steps = [n.value.data for n in strides]
    extents = [n if isinstance(n, int) else n.value.data for n in sizes]
    return tuple(
        slice(o, o + (n - 1) * s + 1, s) for o, n, s in zip(corner, extents, steps, strict=True)
    )


@meaning(vector.ExtractStridedSliceOp)
def extract_strided_slice(op: vector.ExtractStridedSliceOp, facts: Facts) -> Function:
    """A view of a box of leading dimensions."""
    box = _box(op.offsets, op.sizes, op.strides)
    return stacking(lambda x: x[box], lambda x: x[(slice(None), *box)])


@meaning(vector.InsertStridedSliceOp)
def insert_strided_slice(op: vector.InsertStridedSliceOp, facts: Facts) -> Function:
    """A copy of the second operand; the source lies in its last dimensions."""
    sizes = shape_of(op.source.type)
    outer = len(op.offsets) - len(sizes)
    box = _box(op.offsets, (1,) * outer + sizes, [op.strides.data[0]] * outer + [*op.strides])
    if outer:
        box = tuple(s.start for s in box[:outer]) + box[outer:]

    def function(value: Any, into: Any) -> Any:
        result = into.copy()
        result[box] = value
        return result

    return function


@meaning(tpu.ConcatenateOp)
def concatenate(op: tpu.ConcatenateOp, facts: Facts) -> Function:
    """The operands one after the other along one dimension."""
    dimension = op.dimension.value.data
    return stacking(
        lambda *sources: np.concatenate(sources, dimension),
        lambda *sources: np.concatenate(sources, dimension + 1),
    )


@meaning(tpu.RepeatOp)
def repeat(op: tpu.RepeatOp, facts: Facts) -> Function:
    """The whole operand, several times in a row, as JAX's `tile` does."""
    dimension, times = op.dimension.value.data, op.times.value.data
    return lambda x: np.concatenate([x] * times, dimension)


@meaning(vector.ShuffleOp)
def shuffle(op: vector.ShuffleOp, facts: Facts) -> Function:
    """Rows of the two operands, numbered on; MLIR gives -1 for a row that is undefined."""
    chosen = np.array([int(i) for i in op.mask.get_values()], np.int64)
    undefined = chosen < 0
    absent = poison(op.result.type, (), facts.poison)

    def function(a: Any, b: Any) -> Any:
        found = np.concatenate([np.atleast_1d(a), np.atleast_1d(b)], 0).take(chosen, 0)
        found[undefined] = absent
        return found

    return function


@meaning(vector.InterleaveOp)
def interleave(op: vector.InterleaveOp, facts: Facts) -> Function:
    """Elements of the last dimension take turns, the first operand's first."""
    shape = shape_of(op.result.type)
    return lambda a, b: np.stack([a, b], -1).reshape(shape)


@meaning(vector.DeinterleaveOp)
def deinterleave(op: vector.DeinterleaveOp, facts: Facts) -> Function:
    """Views of the even and of the odd elements of the last dimension."""
    return lambda x: (x[..., ::2], x[..., 1::2])


@meaning(vector.FromElementsOp)
def from_elements(op: vector.FromElementsOp, facts: Facts) -> Function:
    """Scalars in row-major order."""
    shape, dtype = shape_of(op.dest.type), carrier(op.dest.type)
    return lambda *elements: np.array(elements, dtype).reshape(shape)


@meaning(vector.ToElementsOp)
def to_elements(op: vector.ToElementsOp, facts: Facts) -> Function:
    """Scalars in row-major order, as many results as elements."""
    scalar = as_scalar(op.source.type)
    return lambda x: tuple(scalar(v) for v in x.reshape(-1))


@meaning(vector.BitcastOp)
def bitcast(op: vector.BitcastOp, facts: Facts) -> Function:
    """Elements of the last dimension split or join; the lowest bits are the first element."""
    source, result = op.source.type, op.result.type
    before, after = width(source), width(result)
    if before == after:
        return reinterpret(source, result)
    bits, values, shape = bits_of(source), values_of(result), shape_of(result)
    if before == 32:
        return lambda x: values(unpack_words(bits(x), after).reshape(shape))
    if after == 32:
        return lambda x: values(pack_words(bits(x), before).reshape(shape))

    def function(x: Any) -> Any:
        words = pack_words(bits(x).reshape(-1, 32 // before), before)
        return values(unpack_words(words, after).reshape(shape))

    return function


@meaning(vector.StepOp)
def step(op: vector.StepOp, facts: Facts) -> Function:
    """0, 1, 2, ..."""
    numbers = np.arange(shape_of(op.result.type)[0], dtype=carrier(op.result.type))
    return lambda: numbers


def box_mask(shape: tuple[int, ...], bounds: Any) -> Any:
    """True in the box that the (low, high) pairs of the leading dimensions bound."""
    mask = np.zeros(shape, np.bool_)
    mask[tuple(slice(max(low, 0), max(high, 0)) for low, high in bounds)] = True
    return mask


@meaning(vector.CreateMaskOp)
def create_mask(op: vector.CreateMaskOp, facts: Facts) -> Function:
    """True before so many positions of every dimension; negative numbers count as 0."""
    shape = shape_of(op.mask_vector.type)
    return lambda *sizes: box_mask(shape, [(0, n) for n in sizes])


@meaning(vector.ConstantMaskOp)
def constant_mask(op: vector.ConstantMaskOp, facts: Facts) -> Function:
    """`create_mask` of numbers that the op has."""
    sizes = [int(n) for n in op.mask_dim_sizes.get_values()]
    mask = box_mask(shape_of(op.result.type), [(0, n) for n in sizes])
    return lambda: mask
