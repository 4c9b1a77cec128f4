"""Loads that repeat the last row in the padding behind it, where a maximum or minimum ignores it.

The compiler takes a shuffled load whose rows lie less than 16 rows of words behind its first one;
that was tried on v4, v5e and v6e.
"""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, i32, i64
from xdsl.ir import SSAValue

from pallasite.dialects import grid, tpu, vector
from pallasite.layouts.registers import SUBLANES
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.converter import Converter, element_of, grid_type, shape_of
from pallasite.lowering.vectors_to_tiles.memory import (
    STEPS,
    Access,
    load_registers,
    moved,
    sublane_mask,
)

_ROWS = 16
"""The first row of words that a shuffled load does not reach."""


def load_filled(
    op: vector.LoadOp, plan: Access, layout: VectorLayout, c: Converter
) -> SSAValue | None:
    """The vector that `op` loads; a shuffled load fills its last block of rows.

    None unless rows of words begin a register and the last block has padding.
    """
    shape = shape_of(op.results[0])
    if len(shape) < 2 or layout != plan.layout or layout.bits != 32 or layout.row != 0:
        return None
    whole, rest = divmod(shape[-2], SUBLANES)
    if not rest or (rest - 1) * plan.sublane_stride >= _ROWS:
        return None
    blocks = layout.grid_shape(shape)
    base = list(plan.base)
    if whole:
        base[-2] = moved(base[-2], whole * plan.steps[-2], c)
    offsets = [min(s, rest - 1) * plan.sublane_stride for s in range(SUBLANES)]
    tail = tpu.ShuffledLoadOp.create(
        operands=[plan.memref, *base],
        result_types=[grid_type(layout, (*shape[:-2], rest, shape[-1]), element_of(op.results[0]))],
        properties={
            "sublane_mask": sublane_mask(0, SUBLANES),
            "sublane_offsets": DenseArrayBase.from_list(i32, offsets),
        },
        attributes={STEPS: DenseArrayBase.from_list(i64, plan.steps)},
    )
    filled = c.emit(tail)
    if not whole:
        return filled
    rows = [*blocks[:-2], whole, blocks[-1]]
    head = load_registers(plan, plan.base, element_of(op.results[0]), rows, SUBLANES, c)
    return c.emit(grid.ConcatOp([head, filled], len(blocks) - 2))
