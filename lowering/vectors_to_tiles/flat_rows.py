"""Stores to flat memory, row by row, of vectors whose registers are the same in every sublane.

Such a register is what a reduction over rows leaves. Flat memory is rows of 128 words, and the
first sublane of each register is one of them. Of narrow elements, those of neighbouring registers
become one word:

    %h = tpu.pack_subelements %w0, %w1 interleaved
    tpu.store %h, %b[%i] sublanes [true, false, false, false, false, false, false, false]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IntegerType, VectorType, i32
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, grid, tpu
from pallasite.dialects.grid_base import grid_of
from pallasite.dialects.integers import wrap
from pallasite.dialects.types import bit_width, is_float, splat, vector_of
from pallasite.layouts.registers import register_shape
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.blocks import deal_columns
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.tiled import Tiled

FORM = "flat rows"


def is_row(layout: VectorLayout) -> bool:
    """Whether registers in `layout` hold a one-dimensional vector along the lanes, from lane 0 on,
    the same in every sublane."""
    placed = (layout.sublane_dim, layout.lane_dim, layout.row, layout.column)
    return layout.is_native and placed == (None, 0, None, 0)


def offer_rows(result: SSAValue, wide: Tiled, element: Attribute, c: Converter) -> None:
    """Offers `result`, which is `wide` narrowed to `element`, as rows of words (form `flat
    rows`)."""
    if _operations(element, c) and wide.layout.bits == 32 and is_row(wide.layout):
        c.offer_form(FORM, result, lambda: _words(wide.grid, element, c))


def rows_cost(value: SSAValue, c: Converter) -> int | None:
    """Operations that compute and store one row of words of `value`; None if it has no such
    rows."""
    held = c.tiled(value)
    if not is_row(held.layout):
        return None
    if held.layout.bits == 32:
        return 1
    return 1 + _operations(held.element, c) if c.offers(FORM, value) else None


def rows_of(value: SSAValue, c: Converter) -> SSAValue:
    """A register for each row of words of `value`, which must have a `rows_cost`."""
    held = c.tiled(value)
    made = held.grid if held.layout.bits == 32 else c.form(FORM, value)
    assert made is not None
    kind = vector_of(held.element, (grid_of(made)[-1], *register_shape(held.layout.bits)))
    return c.emit(grid.ReshapeOp(made, kind))


def _operations(element: Attribute, c: Converter) -> int:
    """Operations that put elements of neighbouring registers into the same words; 0 if there is no
    way."""
    bits = bit_width(element)
    if bits == 16:
        return 1 if _interleaves(c) else 0 if is_float(element) else 3
    return (6 if _interleaves(c) else 0) if bits == 8 and not is_float(element) else 0


def _interleaves(c: Converter) -> bool:
    """Whether the target packs half words of two registers, element by element, in one
    operation."""
    return c.target.interleaved_pack_bits <= 16


def _words(wide: SSAValue, element: Attribute, c: Converter) -> SSAValue:
    """The registers `wide` of a row, narrowed to `element`: neighbours share words.

    As many neighbours become one register as a word holds elements; each fills its part of the
    words.
    """
    bits = bit_width(element)
    count = 32 // bits
    blocks = (*grid_of(wide)[:-1], -(-grid_of(wide)[-1] // count))
    if missing := -grid_of(wide)[-1] % count:
        *lead, columns = grid_of(wide)
        last = c.box(wide, [*[0] * len(lead), columns - 1], [*lead, 1])
        wide = c.emit(grid.ConcatOp([wide, *[last] * missing], len(lead)))
    parts = deal_columns(wide, blocks[-1], count, c)
    kind = vector_of(element, (*blocks, *register_shape(bits)))
    if count == 2 and _interleaves(c):
        return _pack(parts, kind, c)
    if count == 2:
        words = _merged(parts[0], parts[1], 16, c)
        return c.bitcast(words, kind)
    halves = vector_of(IntegerType(16), (*blocks, *register_shape(16)))
    word = vector_of(i32, (*blocks, *register_shape(32)))
    even, odd = (c.bitcast(_pack(parts[first::2], halves, c), word) for first in (0, 1))
    return c.bitcast(_merged(even, odd, 8, c), kind)


def _merged(low: SSAValue, high: SSAValue, bits: int, c: Converter) -> SSAValue:
    """Parts of `bits` bits: those of `low` in even places of each word, those of `high` in odd
    ones."""
    kind = cast(VectorType[Attribute], low.type)
    ones = sum(((1 << bits) - 1) << place for place in range(0, 32, 2 * bits))
    kept = arith.AndIOp(low, c.emit(arith.ConstantOp(splat(kind, wrap(ones, 32)))))
    raised = c.emit(arith.ShLIOp(high, c.emit(arith.ConstantOp(splat(kind, bits)))))
    if bits < 16:
        above = c.emit(arith.ConstantOp(splat(kind, wrap(ones << bits, 32))))
        raised = c.emit(arith.AndIOp(raised, above))
    return c.emit(arith.OrIOp(c.emit(kept), raised))


def _pack(parts: Sequence[SSAValue], kind: Attribute, c: Converter) -> SSAValue:
    """Packs `parts` into registers of type `kind`, interleaved: part i in place i of each word."""
    return c.emit(tpu.PackSubelementsOp.in_order(parts, kind, tpu.PackFormat.INTERLEAVED))
