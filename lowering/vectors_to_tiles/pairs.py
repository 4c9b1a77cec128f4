"""Transposes 16-bit rows with a leading dimension, where memory can load the latter along the
sublanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IntegerType, VectorType, i32
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, grid
from pallasite.dialects.types import element_of, shape_of, splat, vector_of
from pallasite.layouts.registers import SUBLANES
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.casts import narrow
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.loading import load_slots
from pallasite.lowering.vectors_to_tiles.relayout import relayout_cost
from pallasite.lowering.vectors_to_tiles.stacked import stack
from pallasite.lowering.vectors_to_tiles.tiled import Tiled, grid_type


def transpose_pairs(
    op: Operation, permutation: Sequence[int] | None, target: VectorLayout, c: Converter
) -> SSAValue | None:
    """The result of the transpose `op` in the native layout `target`; None if this way does not
    serve."""
    rank, element = len(shape_of(op.results[0].type)), element_of(op.results[0])
    wide = _halves(op, permutation, c) if target == VectorLayout.native(rank, 16) else None
    if wide is None:
        return None
    value, layout = narrow(wide, IntegerType(16), c)
    made = c.bitcast(value, grid_type(layout, wide.shape, element))
    # `narrow` may have packed few rows into smaller tiles.
    return c.relayout(Tiled(made, layout, wide.shape), target).grid


def stack_pairs(op: Operation, permutation: Sequence[int] | None, c: Converter) -> SSAValue | None:
    """The result of `op` in registers that neighbours share (`stacked.stack`); None if this way
    does not serve."""
    wide = _halves(op, permutation, c)
    value = None if wide is None else stack(wide, IntegerType(16), c)
    if value is None:
        return None
    kind = cast(VectorType[Attribute], value.type)
    return c.bitcast(value, vector_of(element_of(op.results[0]), kind.get_shape()))


def _halves(op: Operation, permutation: Sequence[int] | None, c: Converter) -> Tiled | None:
    """The elements of the result of `op`, each in the lower half of a word, in the native
    layout."""
    held, shape = c.tiled(op.operands[0]), shape_of(op.results[0].type)
    rank = len(shape)
    if permutation is None or held.layout.bits != 16:
        return None
    axis = permutation[-2]
    if rank < 3 or permutation[-1] != rank - 1 or axis == rank - 2:
        return None
    words = _words(op.operands[0], axis, c)
    if words is None:
        return None
    # Order the grid as the dimensions of the source.
    order = [*(d for d in range(rank - 1) if d != axis), axis, rank - 1]
    words = c.emit(grid.TransposeOp(words, [order.index(d) for d in range(rank)]))
    blocks = list(cast(VectorType[Attribute], words.type).get_shape()[:rank])
    word = VectorLayout(32, axis, rank - 1).register_shape()
    half = c.emit(arith.ConstantOp(splat(cast(VectorType[Attribute], words.type), 16)))
    # A pack drops the upper halves of its words.
    apart = vector_of(i32, (*blocks[:-1], 1, blocks[-1], *word))
    halves = [c.emit(grid.ReshapeOp(h, apart)) for h in (words, c.emit(arith.ShRUIOp(words, half)))]
    rows = vector_of(i32, (*blocks[:-2], held.shape[-2], blocks[-1], *word))
    both = c.emit(grid.ReshapeOp(c.emit(grid.ConcatOp(halves, rank - 1)), rows))
    moved = c.emit(grid.TransposeOp(both, permutation))
    return Tiled(moved, VectorLayout.native(rank, 32), shape)


def _words(value: SSAValue, axis: int, c: Converter) -> SSAValue | None:
    """The words of `value` with dimension `axis` on the sublanes; None if memory does not serve
    them.

    Where rows would wait for each other in memory, they are loaded otherwise and moved, if that
    costs less.
    """
    held, rank = c.tiled(value), len(shape_of(value.type))
    wanted = VectorLayout(32, axis, rank - 1)
    words = c.form("words", value, wanted)
    if words is None or (times := load_slots(words, c)) == 1:
        return words
    near = VectorLayout.native(rank, 32)
    shape = (*held.shape[:-2], held.shape[-2] // 2, held.shape[-1])
    moved = near.register_count(shape) + relayout_cost(near, shape, wanted, c)
    # A last register that is not full takes less time.
    filled = shape[axis] / (-(-shape[axis] // SUBLANES) * SUBLANES)
    if times * wanted.register_count(shape) * filled <= moved:
        return words
    apart = c.form("words", value, near)
    return words if apart is None else c.relayout(Tiled(apart, near, shape), wanted).grid
