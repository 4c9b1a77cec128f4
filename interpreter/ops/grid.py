"""The `grid` dialect: renamings of registers, folds over a grid dimension, groups."""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, f32
from xdsl.ir import SSAValue

from pallasite.dialects import arith, grid
from pallasite.dialects.types import AnyVector, element_type, grid_shape, register_rank, shape_of
from pallasite.interpreter.meanings import (
    Facts,
    Function,
    Staged,
    elementwise,
    many_of,
    meaning,
    stacking,
)
from pallasite.interpreter.ops.arithmetic import reducer
from pallasite.interpreter.ops.constants import constant_value
from pallasite.interpreter.ops.kinds import unsupported
from pallasite.interpreter.ops.matmul import product
from pallasite.interpreter.ops.reduce import folds_itself
from pallasite.interpreter.ops.register_groups import to_matrix, to_tiles
from pallasite.interpreter.ops.shape import stretch
from pallasite.interpreter.values import Array, poison


def _integers(attribute: DenseArrayBase[Any]) -> tuple[int, ...]:
    return tuple(int(v) for v in attribute.get_values())


def _register(type: AnyVector) -> tuple[int, ...]:
    return type.get_shape()[len(grid_shape(type)) :]


@meaning(grid.SliceOp)
def slice_(op: grid.SliceOp, facts: Facts) -> Function:
    """A view of registers: a box of the grid, with strides."""
    boxes = zip(*(_integers(a) for a in (op.offsets, op.sizes, op.strides)), strict=True)
    box = tuple(slice(o, o + (n - 1) * s + 1, s) for o, n, s in boxes)
    return stacking(lambda x: x[box], lambda x: x[(slice(None), *box)])


_LEAST_SEEN = 1 << 14
"""Bytes of parts that are worth the look whether they lie one behind the other."""


class Joined:
    """Concatenates grids along a dimension of the grid, without copying if their memory allows
    that."""

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self.copied: Function = stacking(
            lambda *parts: np.concatenate(parts, dim), lambda *parts: np.concatenate(parts, dim + 1)
        )
        """The same as a copy, wherever the parts lie."""
        self.many = many_of(self.copied)

    def __call__(self, *parts: Array) -> Array:
        return self.look(*parts) if parts[0].nbytes >= _LEAST_SEEN else self.copied(*parts)

    def look(self, *parts: Array) -> Array:
        """A view of all parts, found by `seen`, or a copy."""
        seen = self.seen(*parts)
        return self.copied(*parts) if seen is None else seen

    def seen(self, *parts: Array) -> Array | None:
        """One view of memory that all of `parts` make up, if they lie at equal distances, as the
        rows of a packed register that was split do; else None."""
        first, *rest = parts
        base, dim = first.base, self._dim
        if not rest or not isinstance(base, np.ndarray) or not base.flags.c_contiguous:
            return None
        kind = first.shape, first.strides, first.dtype
        if any(x.base is not base or (x.shape, x.strides, x.dtype) != kind for x in rest):
            return None
        begins = [x.__array_interface__["data"][0] for x in (base, first, *rest)]
        step, size = begins[2] - begins[1], first.shape[dim]
        if step <= 0 or any(b - a != step for a, b in pairwise(begins[1:])):
            return None
        if size > 1 and first.strides[dim] * size != step:
            return None
        shape, strides = list(first.shape), list(first.strides)
        shape[dim], strides[dim] = size * len(parts), step // size
        return np.ndarray(shape, first.dtype, base, begins[1] - begins[0], strides)


@meaning(grid.ConcatOp)
def concat(op: grid.ConcatOp, facts: Facts) -> Function:
    """Grids one behind the other along a dimension of the grid."""
    return Joined(op.dim.value.data)


@meaning(grid.ReshapeOp)
def reshape(op: grid.ReshapeOp, facts: Facts) -> Function:
    """The same registers, row-major, in a grid of another shape."""
    shape = shape_of(op.result.type)
    return stacking(lambda x: x.reshape(shape), lambda x: x.reshape(len(x), *shape))


@meaning(grid.TransposeOp)
def transpose(op: grid.TransposeOp, facts: Facts) -> Function:
    """A view with the dimensions of the grid permuted; the register's stay."""
    moved = _integers(op.permutation)
    order = (*moved, *range(len(moved), len(shape_of(op.result.type))))
    turned = (0, *(axis + 1 for axis in order))
    return stacking(lambda x: x.transpose(order), lambda x: x.transpose(turned))


@meaning(grid.BroadcastOp)
def broadcast(op: grid.BroadcastOp, facts: Facts) -> Function:
    """NumPy's rule fits, because the register dimensions are the same on both sides."""
    return stretch(shape_of(op.value.type), shape_of(op.result.type))


@meaning(grid.PoisonOp)
def undefined(op: grid.PoisonOp, facts: Facts) -> Function:
    """Registers that nothing has written: poison, for whoever reads them by mistake."""
    element = poison(op.result.type, (1,) * len(shape_of(op.result.type)), facts.poison)
    value = np.broadcast_to(element, shape_of(op.result.type))
    return lambda: value


@meaning(grid.PositionOp)
def position(op: grid.PositionOp, facts: Facts) -> Function:
    """In every lane, the position of the register along one dimension: its index times `step`."""
    shape, dim = shape_of(op.result.type), op.dim.value.data
    along = np.arange(shape[dim], dtype=np.int32) * np.int32(op.step.value.data)
    spread = along.reshape([shape[dim] if d == dim else 1 for d in range(len(shape))])
    value = np.broadcast_to(spread, shape)
    return lambda: value


@meaning(grid.TakeOp)
def take(op: grid.TakeOp, facts: Facts) -> Function:
    """Registers picked by their row-major numbers; a negative number is a register of poison."""
    type = op.result.type
    shape, register = type.get_shape(), _register(type)
    indices = np.array(_integers(op.indices), np.intp)
    absent = indices < 0
    missing = poison(type, register, facts.poison)

    def function(x: Array) -> Array:
        taken = x.reshape(-1, *register).take(indices, 0)
        if absent.any():
            taken[absent] = missing
        return taken.reshape(shape)

    def many(x: Array) -> Array:
        taken = x.reshape(len(x), -1, *register).take(indices, 1)
        if absent.any():
            taken[:, absent] = missing
        return taken.reshape(len(x), *shape)

    return stacking(function, many)


def _pieces(dim: int, count: int) -> list[tuple[slice, ...]]:
    """For each of `count` positions along dimension `dim`, the index that takes the slice there;
    the dimension keeps size 1."""
    return [(slice(None),) * dim + (slice(i, i + 1),) for i in range(count)]


@meaning(grid.ReduceOp)
def reduce(op: grid.ReduceOp, facts: Facts) -> Function:
    """A left fold with the meaning of the named binary op, rounding included."""
    combine = reducer(op.kind.data, op.value.type)
    if combine is None:
        raise unsupported(op, f"kind {op.kind.data}")
    dim, ufunc = op.dim.value.data, _ufunc(op)
    size = shape_of(op.value.type)[dim]
    if size == 1:
        return elementwise(lambda x: x)

    def along(dim: int) -> Function:
        pieces = _pieces(dim, size)

        def function(x: Array) -> Array:
            if ufunc is not None and folds_itself(x, dim):
                return ufunc.reduce(x, axis=dim, keepdims=True)
            total = x[pieces[0]]
            for piece in pieces[1:]:
                total = combine(total, x[piece])
            return total

        return function

    return stacking(along(dim), along(dim + 1))


_UFUNCS: dict[str, np.ufunc] = {
    arith.AddfOp.name: np.add,
    arith.MulfOp.name: np.multiply,
    arith.MaximumfOp.name: np.maximum,
    arith.MinimumfOp.name: np.minimum,
}


def _ufunc(op: grid.ReduceOp) -> np.ufunc | None:
    """The NumPy function that folds 32-bit floats by itself, as nothing is rounded in between; None
    for others."""
    several = shape_of(op.value.type)[op.dim.value.data] > 2
    return _UFUNCS.get(op.kind.data) if several and element_type(op.value.type) == f32 else None


@meaning(grid.FirstExtremumOp)
def first_extremum(op: grid.FirstExtremumOp, facts: Facts) -> Function:
    """NumPy's maximum and argmax treat NaN, zeros and ties as the unrolled form does."""
    dim, step = op.dim.value.data, np.int32(op.step.value.data)
    greatest = op.kind.data == arith.MaximumfOp.name
    fold, holds = (np.maximum, np.greater_equal) if greatest else (np.minimum, np.less_equal)
    pieces = _pieces(dim, shape_of(op.value.type)[dim])

    def function(x: Array) -> tuple[Array, Array]:
        # As `np.argmax`, which takes many times longer along any but the last dimension.
        best, place = x[pieces[0]], np.zeros(x[pieces[0]].shape, np.int32)
        for number, piece in enumerate(pieces[1:], 1):
            stays = holds(best, x[piece])
            stays |= best != best
            # All of them, for masked copies branch at each.
            moved = number * step - place
            moved *= np.logical_not(stays, out=stays)
            place += moved
            best = fold(best, x[piece])
        return fold.reduce(x, axis=dim, keepdims=True), place

    return function


@meaning(grid.MatmulOp)
def matmul(op: grid.MatmulOp, facts: Facts) -> Function:
    """The product of the matrices that the native tiles hold, in the groups of `product`."""
    left_type, right_type, kind = (cast(AnyVector, v.type) for v in op.operands)
    ranks = [register_rank(t) for t in (left_type, right_type, kind)]
    multiply = product(left_type, right_type, kind, op.precision)
    transposed = op.transpose_rhs is not None and bool(op.transpose_rhs.value.data)
    blocks = grid_shape(kind)

    def left(lhs: Array) -> Array:
        return multiply.left(to_matrix(lhs, ranks[0]))

    def right(rhs: Array) -> Array:
        matrix = to_matrix(rhs, ranks[1])
        return multiply.right(matrix.T if transposed else matrix)

    start = _one_number(op.acc, kind)

    def add(left: Array, right: Array, acc: Array) -> Array:
        matrix = to_matrix(acc, ranks[2]) if start is None else start
        return to_tiles(multiply.add(left, right, matrix), blocks, 1)

    return Staged(left, right, add)


def _one_number(value: SSAValue, type: AnyVector) -> Array | None:
    """The matrix of a constant of equal elements, which takes the memory of one element."""
    owner, register = value.owner, _register(type)
    *lead, high, wide = grid_shape(type)
    if not isinstance(owner, arith.ConstantOp) or lead or len(register) != 2:
        return None
    numbers = constant_value(owner).reshape(-1)
    # Zeros differ in their signs.
    words = numbers.view(f"u{numbers.itemsize}")
    if (words != words[0]).any():
        return None
    return np.broadcast_to(numbers[0], (high * register[0], wide * register[1]))


@meaning(grid.TransposeBlocksOp)
def transpose_blocks(op: grid.TransposeBlocksOp, facts: Facts) -> Function:
    """Rows that the source's last block does not reach are undefined lanes of the result."""
    source, result = cast(AnyVector, op.value.type), op.result.type
    rank, register = register_rank(source), _register(result)
    packing = register[2] if rank == 3 else 1
    *lead, high, wide = grid_shape(result)
    rows, columns = high * register[0] * packing, wide * register[1]
    shape = (*lead, rows, columns)
    covered = grid_shape(source)[-2] * register[0] * packing

    def function(x: Array) -> Array:
        turned = to_matrix(x, rank).swapaxes(-1, -2)
        if turned.shape[-2:] != (rows, columns):
            whole = poison(result, shape, facts.poison)
            whole[..., :covered] = turned[..., :rows, :]
            turned = whole
        return to_tiles(turned, (high, wide), packing)

    return function
