"""Converts masks of words to masks of packed elements and back, and merges parts of words."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, VectorType, i1, i32
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, grid, tpu, vector
from pallasite.dialects.integers import wrap
from pallasite.dialects.types import bit_width, element_of, splat, vector_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.blocks import deal, deal_columns
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.tiled import Tiled, grid_type


def is_mask(value: SSAValue) -> bool:
    """Whether `value` is a vector of i1."""
    return element_of(value) == i1


def governed(mask: SSAValue) -> set[int]:
    """The widths, in bits, of the data that `mask`, or a mask computed from it, selects; 32 for any
    other use."""
    widths, seen, left = set[int](), {mask}, [mask]
    while left:
        for use in left.pop().uses:
            user = use.operation
            if isinstance(user, arith.AndIOp | arith.OrIOp | arith.XOrIOp):
                if user.result not in seen:
                    seen.add(user.result)
                    left.append(user.result)
            elif isinstance(user, arith.SelectOp) and not is_mask(user.result):
                widths.add(bit_width(element_of(user.result)))
            else:
                widths.add(32)
    return widths


def mask_in_layout(value: SSAValue, layout: VectorLayout, c: Converter) -> SSAValue:
    """The grid of mask `value` for data in `layout`; a mask of words is packed for narrower data.

    A packed register has the rows of two registers of words, one after the other, so two masks of
    words make one of half words (spec/vreg_lowering.md section 6.6).
    """
    held = c.tiled(value)
    if held.layout.bits == layout.bits:
        return c.in_layout(value, layout)
    if (number := arith.splat_number(value)) is not None:
        kind = grid_type(layout, held.shape, i1)
        return c.emit(arith.ConstantOp(splat(kind, number)))
    if layout.bits < 32 and (made := c.form("mask", value, layout)) is not None:
        return made
    if held.layout.bits < layout.bits == 32:
        return _unpacked(held, layout, c)
    if layout.bits == 8:
        return _packed(value, layout, c)
    if (held.layout.bits, layout.bits) != (32, 16):
        raise c.unsupported(
            c.anchor,
            "mask-width",
            f"a mask of {held.layout.bits}-bit data cannot govern {layout.bits}-bit data",
            "mask registers hold one bit per element of one width",
            "compute the mask from data of the width it governs, or widen the data first",
        )
    if not layout.is_native:
        return _packed_tiles(value, layout, c)
    first, row = (0, None) if layout.row is None else divmod(layout.row, SUBLANES)
    wide = VectorLayout(held.layout.bits, layout.sublane_dim, layout.lane_dim, row, layout.column)
    words = c.in_layout(value, wide)
    shape = cast(VectorType[Attribute], words.type).get_shape()[:-2]
    packed = layout.grid_shape(held.shape)
    halves = [words, words] if row is None else deal(words, shape, packed[-2], 2, c, first)
    return _pack(halves, grid_type(layout, held.shape, i1), c)


def packs_tiles(layout: VectorLayout) -> bool:
    """Whether masks of words can be packed for `layout`: half words, in tiles of at most 8 rows."""
    return layout.bits == 16 and layout.tile_rows <= SUBLANES and None not in (
        layout.row, layout.column, layout.sublane_dim
    )  # fmt: skip


def _packed_tiles(value: SSAValue, layout: VectorLayout, c: Converter) -> SSAValue:
    """A mask of words as one of half words in small tiles: neighbouring registers become one."""
    shape = c.tiled(value).shape
    wide = VectorLayout(32, layout.sublane_dim, layout.lane_dim, layout.row, 0, layout.tile_rows)
    assert layout.column is not None
    first, column = divmod(layout.column, wide.block[1])
    words = c.in_layout(value, wide.with_offsets(wide.row, column))
    halves = deal_columns(words, layout.grid_shape(shape)[-1], 2, c, first)
    return _pack(halves, grid_type(layout, shape, i1), c)


def _pack(halves: list[SSAValue], kind: Attribute, c: Converter) -> SSAValue:
    """Two masks of words as one of half words, of type `kind`."""
    made = tpu.PackVmskOp.create(
        operands=halves,
        result_types=[kind],
        properties={"positions": DenseArrayBase.from_list(i32, [0, 1])},
    )
    return c.emit(made)


def _unpacked(held: Tiled, layout: VectorLayout, c: Converter) -> SSAValue:
    """A mask of packed elements as one of words: integers 1 and 0 of their width, widened and
    compared."""
    from pallasite.lowering.vectors_to_tiles.casts import widen

    kind = grid_type(held.layout, held.shape, IntegerType(held.layout.bits))
    one, zero = (c.emit(arith.ConstantOp(splat(kind, n))) for n in (1, 0))
    chosen = c.emit(arith.SelectOp(held.grid, one, zero))
    number, found = widen(Tiled(chosen, held.layout, held.shape), i32, c)
    words = c.relayout(Tiled(number, found, held.shape), layout).grid
    none = c.emit(arith.ConstantOp(splat(cast(VectorType[Attribute], words.type), 0)))
    return c.emit(arith.CmpiOp(words, none, "ne"))


def _packed(value: SSAValue, layout: VectorLayout, c: Converter) -> SSAValue:
    """A mask of words or half words as one of bytes: integers of their width, narrowed and
    compared."""
    from pallasite.lowering.vectors_to_tiles.casts import narrow

    held = c.tiled(value)
    kind = grid_type(held.layout, held.shape, IntegerType(held.layout.bits))
    chosen = c.emit(arith.ExtUIOp.create(operands=[held.grid], result_types=[kind]))
    number, found = narrow(Tiled(chosen, held.layout, held.shape), IntegerType(layout.bits), c)
    parts = c.relayout(Tiled(number, found, held.shape), layout).grid
    none = c.emit(arith.ConstantOp(splat(cast(VectorType[Attribute], parts.type), 0)))
    return c.emit(arith.CmpiOp(parts, none, "ne"))


def everywhere(bit: SSAValue, value: SSAValue, c: Converter) -> SSAValue:
    """A mask of the shape of grid `value`, set where the scalar i32 `bit` is not zero."""
    word = vector_of(i32, (SUBLANES, LANES))
    spread = c.emit(vector.BroadcastOp(bit, word))
    mask = c.emit(arith.CmpiOp(spread, c.emit(arith.ConstantOp(splat(word, 0))), "ne"))
    kind = cast(VectorType[Attribute], value.type)
    return c.emit(grid.BroadcastOp(mask, vector_of(i1, kind.get_shape())))


def merge_rows(
    value: SSAValue, old: SSAValue, bits: int, low: int, high: int, c: Converter
) -> SSAValue:
    """Rows [low, high) of every register of `value`, the other rows of `old`."""
    p = packing(bits)
    sublane = _iota([0], c)
    chosen = _constant(-1, c)
    for edge, kept in (
        (low // p, -1 << low % p * bits),
        (high // p, (1 << high % p * bits) - 1),
    ):
        if kept not in (0, -1):
            here = c.emit(arith.CmpiOp(sublane, _constant(edge, c), "eq"))
            part = c.emit(arith.AndIOp(chosen, _constant(kept, c)))
            chosen = c.emit(arith.SelectOp(here, part, chosen))
    return _merged(value, old, chosen, c)


def merge_flat(
    value: SSAValue, old: SSAValue, bits: int, low: int, high: int, c: Converter
) -> SSAValue:
    """Elements [low, high) of every flat register of `value`, the others of `old`.

    Element `row * 128 + lane` of a flat register lies in subelement `row % packing` of sublane
    `row // packing`.
    """
    p = packing(bits)
    sublane, lane = _iota([0], c), _iota([1], c)
    first = c.emit(arith.MuliOp(sublane, _constant(p * LANES, c)))
    first = c.emit(arith.AddiOp(first, lane))
    chosen = _constant(0, c)
    for part in range(p):
        inside: SSAValue | None = None
        for bound, predicate in ((low, "sge"), (high, "slt")):
            if bound not in (0, SUBLANES * p * LANES):
                limit = _constant(bound - part * LANES, c)
                side = c.emit(arith.CmpiOp(first, limit, predicate))
                inside = side if inside is None else c.emit(arith.AndIOp(inside, side))
        field = _constant(wrap(((1 << bits) - 1) << part * bits, 32), c)
        if inside is not None:
            field = c.emit(arith.SelectOp(inside, field, _constant(0, c)))
        chosen = c.emit(arith.OrIOp(chosen, field))
    return _merged(value, old, chosen, c)


def _merged(value: SSAValue, old: SSAValue, chosen: SSAValue, c: Converter) -> SSAValue:
    """The bits of `value` where the register `chosen` has ones, those of `old` elsewhere."""
    kind = cast(VectorType[Attribute], value.type)
    lead = kind.get_shape()[:-3]
    words = vector_of(i32, (*lead, SUBLANES, LANES))
    new, kept = c.bitcast(value, words), c.bitcast(old, words)
    spread = c.emit(grid.BroadcastOp(chosen, words))
    changed = c.emit(arith.AndIOp(c.emit(arith.XOrIOp(new, kept)), spread))
    return c.bitcast(c.emit(arith.XOrIOp(kept, changed)), kind)


def _iota(dims: list[int], c: Converter) -> SSAValue:
    made = tpu.IotaOp.create(
        result_types=[VectorType(i32, (SUBLANES, LANES))],
        properties={"dimensions": DenseArrayBase.from_list(i32, dims)},
    )
    return c.emit(made)


def _constant(number: int, c: Converter) -> SSAValue:
    return c.emit(arith.ConstantOp(splat(vector_of(i32, (SUBLANES, LANES)), number)))
