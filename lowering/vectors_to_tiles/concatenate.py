"""Concatenations and repetitions: registers are renamed where possible, else moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from xdsl.ir import Operation

from pallasite.dialects import grid, tpu
from pallasite.layouts.move import Move
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.chains import emit_move
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.tiled import concrete_layout
from pallasite.passes.equal_values import equal_values


@rule(tpu.ConcatenateOp)
def lower_concatenate(op: tpu.ConcatenateOp, c: Converter) -> None:
    """Concatenates: along a leading dimension the lists of registers are joined, along rows or
    lanes values are moved."""
    result = op.results[0]
    sources = [c.tiled(v) for v in op.operands]
    dim = op.dimension.value.data
    bits = sources[0].layout.bits
    rank = len(sources[0].shape)
    target = VectorLayout.native(rank, bits)
    if rank == 1:
        target = VectorLayout(bits, None, 0, 0, 0, 1)
    if dim < rank - 2:
        target = _in_common([s.layout for s in sources], dim, rank) or target
        grids = [c.in_layout(v, target) for v in op.operands]
        place = target.leading_dims(rank).index(dim)
        c.define(result, c.emit(grid.ConcatOp(grids, place)), target)
        c.retire(op)
        return
    if all(equal_values(v, op.operands[0]) for v in op.operands[1:]):
        _repeat(op, len(op.operands), dim, target, c)
        return
    concrete = [
        concrete_layout(s, dim, place)
        for s, place in zip(sources, _places([s.shape[dim] for s in sources]), strict=True)
    ]
    move = Move.concat([(k, s.shape) for k, s in zip(concrete, sources, strict=True)], target, dim)
    grids = [c.in_layout(v, k) for v, k in zip(op.operands, concrete, strict=True)]
    emit_move(op, move, grids, c)


def _in_common(layouts: Sequence[VectorLayout], dim: int, rank: int) -> VectorLayout | None:
    """The layout that all values have, with offsets 0 if they differ only in these.

    None if they differ otherwise, or if `dim` does not number registers.
    """
    first, others = layouts[0], {replace(la, row=0, column=0) for la in layouts}
    if len(others) > 1 or dim not in first.leading_dims(rank):
        return None
    return first if len(set(layouts)) == 1 else others.pop()


def _places(sizes: Sequence[int]) -> Iterator[int]:
    """The starts of several blocks that follow each other."""
    return accumulate(sizes[:-1], initial=0)


@rule(tpu.RepeatOp)
def lower_repeat(op: tpu.RepeatOp, c: Converter) -> None:
    """`tpu.repeat`: copies of one value side by side."""
    target = c.native(op.operands[0])
    _repeat(op, op.times.value.data, op.dimension.value.data, target, c)


def _repeat(op: Operation, times: int, dim: int, target: VectorLayout, c: Converter) -> None:
    """Defines the first operand of `op` repeated `times` times along a dimension; equal registers
    are moved once."""
    held = c.tiled(op.operands[0])
    laid = (concrete_layout(held), held.shape)
    move = Move.repeat(laid, target, [times if d == dim else 1 for d in range(len(held.shape))])
    emit_move(op, move, [c.in_layout(op.operands[0], laid[0])], c)
