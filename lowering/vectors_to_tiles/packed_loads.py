"""Packed loads as loads of words.

These serve other layouts of the words, rows that begin inside a word, and one row replicated over
all sublanes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
    i16,
    i32,
)
from xdsl.ir import Attribute, SSAValue

from pallasite.diagnostics import Unsupported
from pallasite.dialects import arith, tpu, vector
from pallasite.dialects.tpu import TiledLayoutAttr
from pallasite.dialects.types import bit_width, element_of, shape_of, splat, tiling_of, vector_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.layouts.tiling import Tiling
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.access import Access, access, access_in
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.loading import load_grid, load_registers
from pallasite.lowering.vectors_to_tiles.tiled import grid_type
from pallasite.passes.divisibility import constant_of


def _words_of(memref: SSAValue, c: Converter) -> SSAValue | None:
    """The words of packed `memref`, as a view; None if its rows do not fill words."""
    kind = cast(MemRefType[Attribute], memref.type)
    tiling, shape = tiling_of(kind), kind.get_shape()
    p = packing(bit_width(kind.element_type))
    if tiling is None or len(tiling.first) != 2 or tiling.first[0] % p or shape[-2] % p:
        return None
    words = Tiling(((tiling.first[0] // p, LANES),), tiling.strides)
    view = MemRefType(
        i32, (*shape[:-2], shape[-2] // p, shape[-1]), TiledLayoutAttr.of(words), kind.memory_space
    )
    return c.emit(tpu.MemrefBitcastOp(operands=[memref], result_types=[view]))


def load_words(
    op: vector.LoadOp, c: Converter, layout: VectorLayout, row: int | None = None
) -> SSAValue | None:
    """The words of the packed load `op` in `layout`; None if memory does not serve them, or a word
    would be cut.

    With `row` they are as many words, from that row of elements on.
    """
    shape = shape_of(op.results[0].type)
    p = packing(bit_width(element_of(op.results[0])))
    start = constant_of(op.indices[-2]) if row is None else row
    if start is None or start % p or shape[-2] % p:
        return None
    memref = _words_of(op.base, c)
    if memref is None:
        return None
    places = [*op.indices[:-2], c.constant_index(start // p), op.indices[-1]]
    size = (*shape[:-2], shape[-2] // p, shape[-1])
    try:
        plan = access_in(access(op, memref, places, size, c), places, size, layout)
    except Unsupported:
        return None
    return load_grid(plan, size, i32, c) if plan is not None else None


def load_between_words(
    op: vector.LoadOp, plan: Access, layout: VectorLayout, c: Converter
) -> SSAValue | None:
    """The packed load `op`, which begins inside a word, in a layout that begins with a word.

    Each word is the upper part of one word of memory and the lower part of the next. None if memory
    does not serve words from any row.
    """
    shape, kind = shape_of(op.results[0].type), element_of(op.results[0])
    bits, start = bit_width(kind), constant_of(op.indices[-2]) if len(shape) > 1 else None
    p = packing(bits)
    if start is None or not start % p or layout != plan.layout.with_offsets(0, plan.layout.column):
        return None
    words = VectorLayout(32, layout.sublane_dim, layout.lane_dim, 0, layout.column)
    first = start - start % p
    parts = [load_words(op, c, words, row) for row in (first, first + p)]
    low, high = parts
    if low is None or high is None:
        return None
    made = grid_type(layout, shape, kind)
    if p == 2 and c.target.interleaved_pack_bits <= bits:
        return c.bitcast(_upper_and_lower(low, high, grid_type(layout, shape, i16), c), made)
    word = cast(VectorType[Attribute], low.type)
    down, up = (
        c.emit(arith.ConstantOp(splat(word, n)))
        for n in (bits * (start % p), 32 - bits * (start % p))
    )
    joined = arith.OrIOp(c.emit(arith.ShRUIOp(low, down)), c.emit(arith.ShLIOp(high, up)))
    return c.bitcast(c.emit(joined), made)


def _upper_and_lower(low: SSAValue, high: SSAValue, halves: Attribute, c: Converter) -> SSAValue:
    """Words whose lower half is the upper half of `low`, and whose upper half is the lower half of
    `high`.

    Interleaved packing works within words: an unpack takes one half of each word, and a pack drops
    the upper halves of its operands.
    """
    interleaved = tpu.PackFormatAttr(tpu.PackFormat.INTERLEAVED)
    upper = tpu.UnpackSubelementsOp.create(
        operands=[c.bitcast(low, halves)],
        result_types=[low.type],
        properties={"index": IntegerAttr(1, i32), "pack_format": interleaved},
    )
    joined = tpu.PackSubelementsOp.in_order(
        [c.emit(upper), high], halves, tpu.PackFormat.INTERLEAVED
    )
    return c.emit(joined)


def load_spread_row(
    op: vector.LoadOp, plan: Access, layout: VectorLayout, c: Converter
) -> SSAValue | None:
    """The packed load `op` of one row, replicated over all rows of its registers.

    The words of the row are loaded into every sublane and packed with themselves. None for other
    loads.
    """
    shape, kind = shape_of(op.results[0].type), element_of(op.results[0])
    rank, bits = len(shape), bit_width(kind)
    if bits == 32 or rank < 2 or shape[-2] != 1:
        return None
    if layout != VectorLayout.native(rank, bits, None, plan.layout.column):
        return None
    row, p = constant_of(op.indices[-2]), packing(bits)
    if row is None:
        return None
    base = [*op.indices[:-2], c.constant_index(row - row % p), plan.base[-1]]
    spread = replace(plan, layout=layout, sublane_stride=0)
    loaded = load_registers(spread, base, kind, layout.grid_shape(shape), SUBLANES, c)
    words = vector_of(i32, (*layout.grid_shape(shape), SUBLANES, LANES))
    value = c.bitcast(loaded, words)
    if row % p:
        down = c.emit(arith.ConstantOp(splat(words, bits * (row % p))))
        value = c.emit(arith.ShRUIOp(value, down))
    made = tpu.PackSubelementsOp.in_order(
        [value] * p, grid_type(layout, shape, IntegerType(bits)), tpu.PackFormat.COMPRESSED
    )
    return c.bitcast(c.emit(made), grid_type(layout, shape, kind))
