"""Transposes rows of 8 or 16 bits with a leading dimension, where memory can load the latter along
the sublanes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IntegerType, VectorType, i32
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, grid
from pallasite.dialects.types import element_of, shape_of, splat, split_grid, vector_of
from pallasite.layouts.registers import SUBLANES
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.casts import narrow
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.loading import load_slots
from pallasite.lowering.vectors_to_tiles.relabel import transposed
from pallasite.lowering.vectors_to_tiles.relayout import relayout_cost
from pallasite.lowering.vectors_to_tiles.stacked import stack
from pallasite.lowering.vectors_to_tiles.tiled import Tiled, grid_type


def transpose_pairs(
    op: Operation, permutation: Sequence[int] | None, target: VectorLayout, c: Converter
) -> SSAValue | None:
    """The result of the transpose `op` in the native layout `target`; None if this way does not
    serve."""
    rank, element = len(shape_of(op.results[0].type)), element_of(op.results[0])
    bits = target.bits
    registers = target.register_count(shape_of(op.results[0].type))
    native = target == VectorLayout.native(rank, bits)
    wide = _parts(op, permutation, registers, c) if native else None
    if wide is None:
        return None
    value, layout = narrow(wide, IntegerType(bits), c)
    made = c.bitcast(value, grid_type(layout, wide.shape, element))
    # `narrow` may have packed few rows into smaller tiles.
    return c.relayout(Tiled(made, layout, wide.shape), target).grid


def stack_pairs(op: Operation, permutation: Sequence[int] | None, c: Converter) -> SSAValue | None:
    """The result of `op` in registers that neighbours share (`stacked.stack`); None if this way
    does not serve."""
    bits, shape = c.tiled(op.operands[0]).layout.bits, shape_of(op.results[0].type)
    registers = VectorLayout.native(len(shape), bits).register_count(shape)
    # The other registers are neither packed nor stored.
    saved = registers - registers * bits // 32
    wide = _parts(op, permutation, registers - 2 * saved, c)
    value = None if wide is None else stack(wide, IntegerType(bits), c)
    if value is None:
        return None
    kind = cast(VectorType[Attribute], value.type)
    return c.bitcast(value, vector_of(element_of(op.results[0]), kind.get_shape()))


def _parts(
    op: Operation, permutation: Sequence[int] | None, packs: int, c: Converter
) -> Tiled | None:
    """The elements of the result of `op`, each in the lowest part of a word, in the native layout.

    None if it takes less to move the operand than to do this and `packs` operations more.
    """
    held, shape = c.tiled(op.operands[0]), shape_of(op.results[0].type)
    rank, bits = len(shape), held.layout.bits
    if permutation is None or bits not in (8, 16):
        return None
    axis = permutation[-2]
    if rank < 3 or permutation[-1] != rank - 1 or axis == rank - 2:
        return None
    words = _words(op.operands[0], axis, c)
    if words is None or (
        held.shape[axis] < SUBLANES
        and _moved_cost(held, shape, permutation, c)
        < packs + held.layout.packing * _register_count(words)
    ):
        return None
    # Order the grid as the dimensions of the source.
    order = [*(d for d in range(rank - 1) if d != axis), axis, rank - 1]
    words = c.emit(grid.TransposeOp(words, [order.index(d) for d in range(rank)]))
    blocks = list(cast(VectorType[Attribute], words.type).get_shape()[:rank])
    word = VectorLayout(32, axis, rank - 1).register_shape()
    # A pack drops the upper parts of its words.
    apart = vector_of(i32, (*blocks[:-1], 1, blocks[-1], *word))
    kind = cast(VectorType[Attribute], words.type)
    parts = [c.emit(grid.ReshapeOp(words, apart))]
    for first in range(bits, 32, bits):
        distance = c.emit(arith.ConstantOp(splat(kind, first)))
        parts.append(c.emit(grid.ReshapeOp(c.emit(arith.ShRUIOp(words, distance)), apart)))
    rows = vector_of(i32, (*blocks[:-2], held.shape[-2], blocks[-1], *word))
    both = c.emit(grid.ReshapeOp(c.emit(grid.ConcatOp(parts, rank - 1)), rows))
    moved = c.emit(grid.TransposeOp(both, permutation))
    return Tiled(moved, VectorLayout.native(rank, 32), shape)


def _moved_cost(
    held: Tiled, shape: tuple[int, ...], permutation: Sequence[int], c: Converter
) -> float:
    """What it takes to load `held`, and to transpose it by a planned move."""
    layout = transposed(held.layout, permutation)
    target = VectorLayout.native(len(shape), held.layout.bits)
    return held.layout.register_count(held.shape) + relayout_cost(layout, shape, target, c)


def _register_count(value: SSAValue) -> int:
    """The number of registers of the grid `value`."""
    split = split_grid(value.type)
    return 0 if split is None else math.prod(split[0])


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
    shape = (*held.shape[:-2], held.shape[-2] // held.layout.packing, held.shape[-1])
    moved = near.register_count(shape) + relayout_cost(near, shape, wanted, c)
    # A last register that is not full takes less time.
    filled = shape[axis] / (-(-shape[axis] // SUBLANES) * SUBLANES)
    if times * wanted.register_count(shape) * filled <= moved:
        return words
    apart = c.form("words", value, near)
    return words if apart is None else c.relayout(Tiled(apart, near, shape), wanted).grid
