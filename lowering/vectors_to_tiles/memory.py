"""Loads of vectors; a layout that memory can serve directly is loaded again when it is wanted."""

from __future__ import annotations

from functools import partial

from xdsl.ir import SSAValue

from pallasite.dialects import vector
from pallasite.dialects.types import element_of, shape_of
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.access import access, access_in, dense_access
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.loading import load_grid
from pallasite.lowering.vectors_to_tiles.packed_loads import (
    load_between_words,
    load_spread_row,
    load_words,
)
from pallasite.lowering.vectors_to_tiles.shuffled_loads import load_filled, load_rows


@rule(vector.LoadOp)
def lower_load(op: vector.LoadOp, c: Converter) -> None:
    """Loads one grid, and offers the value in other layouts, in which it is loaded again."""
    result, indices = op.results[0], list(op.indices)
    shape = shape_of(result.type)
    plan = access(op, op.base, indices, shape, c)
    chosen = (dense_access(plan, shape) if c.dense else None) or plan
    c.define(result, load_grid(chosen, shape, element_of(result), c), chosen.layout)

    def again(layout: VectorLayout) -> SSAValue | None:
        """The value loaded in `layout`; None if memory cannot serve that."""
        other = access_in(plan, indices, shape, layout)
        if other is not None:
            return load_grid(other, shape, element_of(result), c)
        spread = load_spread_row(op, plan, layout, c)
        return spread if spread is not None else load_between_words(op, plan, layout, c)

    c.offer(result, again)
    c.offer_form("rows", result, partial(load_rows, op, plan, c))
    c.offer_form("filled", result, partial(load_filled, op, plan, c))
    if plan.layout.bits < 32 and len(shape) > 1:
        c.offer_form("words", result, partial(load_words, op, c))
    c.retire(op)
