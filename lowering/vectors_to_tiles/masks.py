"""Masks of words where masks of packed elements are needed."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, VectorType, i1, i32
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import tpu
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.blocks import deal
from pallasite.lowering.vectors_to_tiles.converter import Converter, element_of, grid_type


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
