"""Masks of words where masks of packed elements are needed."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, VectorType, i1, i32
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, tpu
from pallasite.dialects.types import splat
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.blocks import deal
from pallasite.lowering.vectors_to_tiles.converter import (
    Converter,
    Tiled,
    element_of,
    grid_type,
)


def is_mask(value: SSAValue) -> bool:
    """Whether `value` is a vector of i1."""
    return element_of(value) == i1


def mask_in_layout(c: Converter, value: SSAValue, layout: VectorLayout) -> SSAValue:
    """The grid of mask `value` for data in `layout`; a mask of words is packed for 16-bit data.

    A packed register has the rows of two registers of words, one after the other, so two masks of
    words make one of half words (spec/vreg_lowering.md section 6.6).
    """
    held = c.tiled(value)
    if held.layout.bits == layout.bits:
        return c.in_layout(value, layout)
    if held.layout.bits < layout.bits == 32:
        return _unpacked(c, held, layout)
    wide = VectorLayout(
        held.layout.bits, layout.sublane_dim, layout.lane_dim, layout.row, layout.column
    )
    if (held.layout.bits, layout.bits) != (32, 16) or (wide.row or 0) >= wide.block[0]:
        raise c.unsupported(
            c.anchor,
            "mask-width",
            f"a mask of {held.layout.bits}-bit data cannot govern {layout.bits}-bit data",
            "mask registers hold one bit per element of one width",
            "compute the mask from data of the width it governs, or widen the data first",
        )
    words = c.in_layout(value, wide)
    shape = cast(VectorType[Attribute], words.type).get_shape()[:-2]
    packed = layout.grid_shape(held.shape)
    halves = [words, words] if layout.row is None else deal(c, words, shape, packed[-2], 2)
    made = tpu.PackVmskOp.create(
        operands=halves,
        result_types=[grid_type(layout, held.shape, i1)],
        properties={"positions": DenseArrayBase.from_list(i32, [0, 1])},
    )
    return c.emit(made)


def _unpacked(c: Converter, held: Tiled, layout: VectorLayout) -> SSAValue:
    """A mask of packed elements for words: 1 and 0 in the packed width, widened and compared."""
    from pallasite.lowering.vectors_to_tiles.casts import widen

    kind = cast(
        VectorType[Attribute],
        grid_type(held.layout, held.shape, IntegerType(held.layout.bits)),
    )
    one, zero = (c.emit(arith.ConstantOp(splat(kind, n))) for n in (1, 0))
    chosen = c.emit(arith.SelectOp(held.grid, one, zero))
    number, found = widen(c, Tiled(chosen, held.layout, held.shape), i32)
    words = c.relayout(Tiled(number, found, held.shape), layout).grid
    none = c.emit(arith.ConstantOp(splat(cast(VectorType[Attribute], words.type), 0)))
    return c.emit(arith.CmpiOp(words, none, "ne"))
