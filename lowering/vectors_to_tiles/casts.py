"""Conversions between element types; a change of width packs or unpacks registers.

A packed register covers `ratio` times the rows of a wider one (compressed packing): a register of
bf16 has the rows of two registers of f32, one block after the other. Widening thus turns one block
of rows into `ratio` blocks, and narrowing merges them (spec/vreg_lowering.md sections 5.2 and 7.4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from xdsl.dialects.builtin import (
    BoolAttr,
    IntegerAttr,
    IntegerType,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, tpu
from pallasite.dialects.grid_base import grid_of
from pallasite.dialects.in_words import in_words
from pallasite.dialects.types import bit_width, element_of, is_vector, splat, vector_of
from pallasite.layouts.registers import LANES, SUBLANES, packing, register_shape
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.agreement import meet
from pallasite.lowering.vectors_to_tiles.blocks import (
    deal,
    deal_columns,
    interleave,
    interleave_columns,
    rows_of,
)
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.elementwise import lower_in_layout
from pallasite.lowering.vectors_to_tiles.flat_rows import offer_rows
from pallasite.lowering.vectors_to_tiles.stacked import stack
from pallasite.lowering.vectors_to_tiles.tiled import Tiled, grid_type

WIDENING = (arith.ExtFOp, tpu.ExtfOp, arith.ExtSIOp, arith.ExtUIOp, tpu.SitofpOp, tpu.UitofpOp,
            arith.SIToFPOp, arith.UIToFPOp)  # fmt: skip
NARROWING = (arith.TruncFOp, tpu.TruncfOp, arith.TruncIOp, tpu.FptosiOp, tpu.FptouiOp,
             arith.FPToSIOp, arith.FPToUIOp)  # fmt: skip


@rule(*WIDENING, *NARROWING)
def lower_cast(op: Operation, c: Converter) -> None:
    """Lowers a cast: elementwise if the width stays, else as packs or unpacks; masks become 0 and
    1."""
    source, result = op.operands[0], op.results[0]
    if not is_vector(result):
        return
    held = c.tiled(source)
    old, new = bit_width(element_of(source)), bit_width(element_of(result))
    if old == 1:
        _mask_to_number(op, held, new, c)
    elif new == 1:
        raise c.unsupported(
            op,
            "cast-to-mask",
            f"{in_words(op)} to booleans has no register form",
            "compare with zero instead",
        )
    elif old == new:
        lower_in_layout(op, held.layout, c)
        return
    elif old < new:
        value, layout = widen(held, element_of(result), c, signed=not _unsigned(op))
        c.define(result, value, layout)
    else:
        value, layout = narrow(held, element_of(result), c)
        c.define(result, value, layout)
        c.offer(result, partial(side_by_side, held, element_of(result), c))
        c.offer_form("stacked", result, partial(stack, held, element_of(result), c))
        offer_rows(result, held, element_of(result), c)
    c.retire(op)


def _unsigned(op: Operation) -> bool:
    """Whether `op` reads its operand as unsigned integers."""
    return isinstance(op, arith.ExtUIOp | arith.UIToFPOp | tpu.UitofpOp)


def _mask_to_number(op: Operation, held: Tiled, bits: int, c: Converter) -> None:
    """Defines 1 where the mask is set, else 0; a sign extension gives -1 instead of 1.

    The numbers are made in the width of the data that the mask is for, and converted from there.
    """
    result, signed = op.results[0], isinstance(op, arith.ExtSIOp)
    element = IntegerType(held.layout.bits)
    kind = grid_type(held.layout, held.shape, element)
    if held.layout.bits == 32 and not signed:
        made = c.emit(arith.ExtUIOp.create(operands=[held.grid], result_types=[kind]))
    else:
        one = c.emit(arith.ConstantOp(splat(kind, -1 if signed else 1)))
        zero = c.emit(arith.ConstantOp(splat(kind, 0)))
        made = c.emit(arith.SelectOp(held.grid, one, zero))
    number, layout = Tiled(made, held.layout, held.shape), held.layout
    if layout.bits < bits:
        made, layout = widen(number, element_of(result), c, signed)
    elif layout.bits > bits:
        made, layout = narrow(number, element_of(result), c)
    c.define(result, made, layout)


def widen(
    held: Tiled, element: Attribute, c: Converter, signed: bool = True
) -> tuple[SSAValue, VectorLayout]:
    """The elements of `held` converted to the wider type `element`, and their layout.

    Layouts whose tiles do not fit either width are changed to native tiles before.
    """
    layout, bits = held.layout, bit_width(element)
    ratio = bits // layout.bits
    new_rows = layout.native_rows // ratio
    tiles = not layout.is_native and new_rows % layout.tile_rows == 0
    halves = not layout.is_native and layout.tile_rows % new_rows == 0 and not tiles
    if not (layout.is_native or tiles or halves):
        layout = VectorLayout.native(len(held.shape), layout.bits)
        held = c.relayout(held, layout)
    parts = 1 if layout.row is None and layout.is_native else ratio
    grid_shape = grid_of(held.grid)
    piece = vector_of(element, (*grid_shape, *register_shape(bits)))
    unpacked = [_unpack(held.grid, part, piece, signed, c) for part in range(parts)]
    if tiles:
        skip, column = divmod(layout.column or 0, layout.block[1] // ratio)
        wide = replace(layout, bits=bits, column=None if layout.column is None else column)
        return interleave_columns(unpacked, skip, wide.grid_shape(held.shape), c), wide
    if halves:
        return _widened_tiles(unpacked, held, bits, c)
    if layout.row is None:
        wide = VectorLayout(bits, layout.sublane_dim, layout.lane_dim, None, layout.column)
        return unpacked[0], wide
    skip, row = divmod(layout.row, new_rows)
    wide = VectorLayout(bits, layout.sublane_dim, layout.lane_dim, row, layout.column)
    whole = interleave(unpacked, grid_shape, c)
    shape = wide.grid_shape(held.shape)
    return rows_of(whole, skip, shape, c), wide


def _widened_tiles(
    parts: list[SSAValue], held: Tiled, bits: int, c: Converter
) -> tuple[SSAValue, VectorLayout]:
    """Arranges unpacked `parts` where one small tile becomes several registers: all blocks of rows
    of the first tile, then those of the next."""
    layout, blocks = held.layout, grid_of(held.grid)
    wide = VectorLayout(bits, layout.sublane_dim, layout.lane_dim, 0, 0)
    unit = layout.tile_rows // wide.tile_rows
    tiles = [interleave(parts[k : k + unit], blocks, c) for k in range(0, len(parts), unit)]
    skip, row = (0, None) if layout.row is None else divmod(layout.row, wide.tile_rows)
    first, column = (0, None) if layout.column is None else divmod(layout.column, LANES)
    wide = wide.with_offsets(row, column)
    shape = wide.grid_shape(held.shape)
    whole = (*shape[:-2], unit * blocks[-2], shape[-1])
    return rows_of(interleave_columns(tiles, first, whole, c), skip, shape, c), wide


def _unpack(
    packed: SSAValue, part: int, kind: VectorType[Attribute], signed: bool, c: Converter
) -> SSAValue:
    """Part `part` of each word of the registers `packed`, converted to registers of type `kind`."""
    source = element_of(packed)
    unsigned = isinstance(source, IntegerType) and not signed
    # Where bytes and nibbles extend with their sign only.
    by_mask = unsigned and bit_width(source) < 16 and not c.target.unsigned_unpack
    properties: dict[str, Attribute] = {
        "index": IntegerAttr(part, i32),
        "pack_format": tpu.PackFormatAttr(tpu.PackFormat.COMPRESSED),
        "integer_extended": BoolAttr.from_bool(True),
        "unsigned_integers": BoolAttr.from_bool(unsigned and not by_mask),
    }
    wide = c.emit(
        tpu.UnpackSubelementsOp.create(
            operands=[packed], result_types=[kind], properties=properties
        )
    )
    if not by_mask:
        return wide
    low = c.emit(arith.ConstantOp(splat(kind, (1 << bit_width(source)) - 1)))
    return c.emit(arith.AndIOp(wide, low))


def narrow(held: Tiled, element: Attribute, c: Converter) -> tuple[SSAValue, VectorLayout]:
    """The elements of `held` converted to the narrower type `element`, and their layout."""
    layout, bits = held.layout, bit_width(element)
    ratio = layout.bits // bits
    if not layout.is_native:
        layout = _whole_words(layout, held.shape, packing(bits))
        held = c.relayout(held, layout)
    if not layout.is_native or (c.dense and _is_one_tile(layout, held.shape)):
        return _narrow_tiles(held, element, c)
    if c.dense and (rows := _rows_of_tile(layout, held.shape, bits)):
        return _narrow_blocks(held, element, rows, c)
    packed = VectorLayout(bits, layout.sublane_dim, layout.lane_dim, layout.row, layout.column)
    shape = layout.grid_shape(held.shape)
    target = packed.grid_shape(held.shape)
    if layout.row is None:
        sources = [held.grid] * ratio
    else:
        sources = deal(held.grid, shape, target[-2], ratio, c)
    return _pack(sources, grid_type(packed, held.shape, element), c), packed


def _is_one_tile(layout: VectorLayout, shape: Sequence[int]) -> bool:
    """Whether all rows lie in one row of several tiles."""
    rows, columns = layout.extents(shape)
    if layout.row is None or layout.column is None or layout.sublane_dim is None:
        return False
    return layout.row + rows <= layout.tile_rows and layout.column + columns > LANES


def _whole_words(layout: VectorLayout, shape: Sequence[int], words: int) -> VectorLayout:
    """`layout` in tiles whose rows are multiples of `words`: small tiles if they take fewer
    registers than native ones."""
    native = VectorLayout.native(len(shape), layout.bits)
    if layout.row is None or layout.column is None:
        return native
    rows = math.lcm(layout.tile_rows, words)
    if rows >= layout.native_rows:
        return native
    small = replace(layout, tile_rows=rows, column=layout.column % LANES)
    return small if small.register_count(shape) < native.register_count(shape) else native


def _narrow_tiles(held: Tiled, element: Attribute, c: Converter) -> tuple[SSAValue, VectorLayout]:
    """`narrow`, for registers that hold several tiles: neighbouring registers are packed into
    one."""
    layout, bits = held.layout, bit_width(element)
    packed = replace(layout, bits=bits)
    target, ratio = packed.grid_shape(held.shape), layout.bits // bits
    sources = deal_columns(held.grid, target[-1], ratio, c)
    return _pack(sources, grid_type(packed, held.shape, element), c), packed


def _rows_of_tile(layout: VectorLayout, shape: Sequence[int], bits: int) -> int:
    """The rows of a tile of elements of `bits` that fills several registers of `layout`, but only a
    part of a packed one.

    0 if there is none, or if the value does not lie in one row of several such tiles.
    """
    if layout.row is None or layout.column is None or layout.sublane_dim is None:
        return 0
    rows, columns = layout.extents(shape)
    tile = SUBLANES
    while tile < layout.row + rows:
        tile *= 2
    full = SUBLANES * packing(bits)
    several = layout.tile_rows < tile < full and layout.column + columns > LANES
    return tile if several else 0


def _narrow_blocks(
    held: Tiled, element: Attribute, rows: int, c: Converter
) -> tuple[SSAValue, VectorLayout]:
    """`narrow`, into tiles of `rows` rows: all blocks of rows of one tile, then those of the
    next."""
    layout, bits = held.layout, bit_width(element)
    packed = replace(layout, bits=bits, tile_rows=rows)
    target, unit = packed.grid_shape(held.shape), rows // layout.tile_rows
    blocks = layout.grid_shape(held.shape)
    tiles = packed.native_rows // rows
    dealt = [
        deal_columns(part, target[-1], tiles, c) for part in deal(held.grid, blocks, 1, unit, c)
    ]
    sources = [part[tile] for tile in range(tiles) for part in dealt]
    return _pack(sources, grid_type(packed, held.shape, element), c), packed


def side_by_side(
    held: Tiled, element: Attribute, c: Converter, layout: VectorLayout
) -> SSAValue | None:
    """The elements of `held`, the same in every row, narrowed to `element` in `layout`.

    Registers of `layout` hold as many columns of tiles as a word holds elements, so they take half
    as many packs (for bf16). None in other layouts.

        %h0 = tpu.pack_subelements %w0, %w0
        %h1 = tpu.pack_subelements %w1, %w1     ->     %h = tpu.pack_subelements %w0, %w1
    """
    wide = held.layout
    if not wide.is_native or wide.row is not None or layout.row is None or wide.column is None:
        return None
    if layout.row + layout.extents(held.shape)[0] > layout.tile_rows:
        return None
    if layout != replace(wide, bits=bit_width(element), row=layout.row):
        return None
    placed = replace(held, layout=wide.with_offsets(layout.row, wide.column))
    return _narrow_tiles(placed, element, c)[0]


def _pack(sources: Sequence[SSAValue], kind: Attribute, c: Converter) -> SSAValue:
    """Source i in part i of each word, packed to registers of type `kind`."""
    return c.emit(tpu.PackSubelementsOp.in_order(sources, kind, tpu.PackFormat.COMPRESSED))


@rule(tpu.StochasticConvertOp)
def lower_stochastic_convert(op: tpu.StochasticConvertOp, c: Converter) -> None:
    """Rounds word by word, and packs the low bits of the words."""
    held = [c.tiled(op.input), c.tiled(op.random)]
    shape, element = held[0].shape, element_of(op.result)
    layout = meet(op.operands, 32, c)
    operands = [c.in_layout(value, layout) for value in op.operands]
    words = tpu.StochasticConvertElementwiseOp.create(
        operands=operands,
        result_types=[grid_type(layout, shape, i32)],
        properties={"dst_type": element},
    )
    rounded = Tiled(c.emit(words), layout, shape)
    value, packed = narrow(rounded, IntegerType(bit_width(element)), c)
    c.define(op.result, c.bitcast(value, grid_type(packed, shape, element)), packed)
    c.retire(op)


@rule(tpu.BitcastOp)
def lower_bitcast(op: tpu.BitcastOp, c: Converter) -> None:
    """Renames registers: the same words with another element type. Rows scale with the width."""
    held, result = c.tiled(op.operands[0]), op.results[0]
    if result.type == op.operands[0].type:
        c.define(result, held.grid, held.layout)
        c.retire(op)
        return
    element = element_of(result)
    rank = len(held.shape)
    old, new = held.layout.bits, bit_width(element)
    layout = held.layout if old == new else VectorLayout.native(rank, old)
    value = c.in_layout(op.operands[0], layout)
    target = layout if old == new else VectorLayout.native(rank, new)
    kind = grid_type(target, tuple(cast(VectorType[Attribute], result.type).get_shape()), element)
    c.define(result, c.bitcast(value, kind), target)
    c.retire(op)


@rule(arith.BitcastOp)
def lower_same_width_bitcast(op: arith.BitcastOp, c: Converter) -> None:
    """Renames registers: elements of equal width stay where they are."""
    if not is_vector(op.results[0]):
        return
    held = c.tiled(op.operands[0])
    kind = grid_type(held.layout, held.shape, element_of(op.results[0]))
    c.define(op.results[0], c.bitcast(held.grid, kind), held.layout)
    c.retire(op)
