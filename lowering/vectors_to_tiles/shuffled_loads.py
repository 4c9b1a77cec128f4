"""Loads of rows in any order (`tpu.shuffled_load`).

They serve gathers of rows, and maxima and minima: the padding after the last row is filled with
that row, which changes neither.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import SSAValue

from pallasite.dialects import grid, tpu, vector
from pallasite.dialects.types import element_of, shape_of
from pallasite.layouts.registers import REACH, SUBLANES
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.access import Access, moved
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.loading import load_registers, sublane_mask
from pallasite.lowering.vectors_to_tiles.tiled import grid_type


def load_filled(
    op: vector.LoadOp, plan: Access, c: Converter, layout: VectorLayout
) -> SSAValue | None:
    """The vector that `op` loads, with its last row repeated in the padding of the last block of
    rows.

    None unless rows of words begin a register and the last block has padding.
    """
    shape = shape_of(op.results[0].type)
    if len(shape) < 2 or layout != plan.layout or layout.bits != 32 or layout.row != 0:
        return None
    whole, rest = divmod(shape[-2], SUBLANES)
    if not rest or (rest - 1) * plan.sublane_stride >= REACH:
        return None
    blocks = layout.grid_shape(shape)
    base = list(plan.base)
    if whole:
        base[-2] = moved(base[-2], whole * plan.steps[-2], c)
    last = [min(s, rest - 1) for s in range(SUBLANES)]
    filled = _shuffled(op, plan, layout, base, (*shape[:-2], rest, shape[-1]), last, c)
    if not whole:
        return filled
    rows = [*blocks[:-2], whole, blocks[-1]]
    head = load_registers(plan, plan.base, element_of(op.results[0]), rows, SUBLANES, c)
    return c.emit(grid.ConcatOp([head, filled], len(blocks) - 2))


def load_rows(
    op: vector.LoadOp, plan: Access, c: Converter, layout: VectorLayout, rows: Sequence[int]
) -> SSAValue | None:
    """The given `rows`, at most a register of them, of the vector that `op` loads; None if memory
    cannot serve that."""
    shape = shape_of(op.results[0].type)
    if len(shape) < 2 or layout != plan.layout or layout.bits != 32 or layout.row != 0:
        return None
    if shape[-2] > plan.tile_rows and not plan.single_rows:
        return None
    if len(rows) > SUBLANES or max(rows) * plan.sublane_stride >= REACH:
        return None
    offsets = [*rows, *[rows[-1]] * (SUBLANES - len(rows))]
    kind = (*shape[:-2], len(rows), shape[-1])
    return _shuffled(op, plan, layout, plan.base, kind, offsets, c)


def _shuffled(
    op: vector.LoadOp, plan: Access, layout: VectorLayout, base: Sequence[SSAValue],
    shape: tuple[int, ...], rows: Sequence[int], c: Converter,
) -> SSAValue:  # fmt: skip
    """Registers of a vector of `shape` whose sublanes are `rows`, counted from index `base`."""
    made = tpu.ShuffledLoadOp.create(
        operands=[plan.memref, *base],
        result_types=[grid_type(layout, shape, element_of(op.results[0]))],
        properties={
            "sublane_mask": sublane_mask(0, SUBLANES),
            "sublane_offsets": DenseArrayBase.from_list(
                i32, [row * plan.sublane_stride for row in rows]
            ),
        },
        attributes=plan.attributes(base),
    )
    return c.emit(made)
