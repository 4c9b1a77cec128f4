"""Fills the padding of native tiles with zeros, for any element width."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import IntegerAttr, VectorType, i1, i32
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, grid, tpu
from pallasite.dialects.types import splat, vector_of
from pallasite.layouts.registers import LANES, SUBLANES, native_tile, packing, register_shape
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.tiled import Tiled


def zero_padding(held: Tiled, dim: int, c: Converter) -> SSAValue:
    """The grid of `held` (two dimensions, offsets 0) with zeros after its data along `dim`.

    Elements are selected where the target has masks of that width. Others are masked as words of 32
    bits; a word of which only some rows are data keeps these by a bitwise and.
    """
    bits = held.layout.bits
    block = native_tile(bits)[dim]
    extent = held.shape[dim]
    valid = extent % block
    if not valid:
        return held.grid
    kind = cast(VectorType[Attribute], held.grid.type)
    register = len(register_shape(bits))
    shape = kind.get_shape()[:-register]
    axis = len(shape) - 2 + dim
    blocks = shape[axis]
    last = _cut(held.grid, shape, axis, blocks - 1, 1, c)
    zeroed = _zero_rows(last, bits, valid, c) if dim == 0 else _zero_lanes(last, bits, valid, c)
    if blocks == 1:
        return zeroed
    return c.emit(grid.ConcatOp([_cut(held.grid, shape, axis, 0, blocks - 1, c), zeroed], axis))


def _cut(
    value: SSAValue, shape: tuple[int, ...], axis: int, first: int, count: int, c: Converter
) -> SSAValue:
    """`count` registers of a grid of `shape`, from number `first` on, along grid dimension
    `axis`."""
    offsets, sizes = [0] * len(shape), list(shape)
    offsets[axis], sizes[axis] = first, count
    return c.box(value, offsets, sizes)


def as_words(value: SSAValue, bits: int, c: Converter) -> SSAValue:
    """The registers of `value` seen as 32-bit integers."""
    kind = cast(VectorType[Attribute], value.type)
    if kind.element_type == i32:
        return value
    shape = kind.get_shape()[: -len(register_shape(bits))]
    return c.bitcast(value, vector_of(i32, (*shape, SUBLANES, LANES)))


def _zero_lanes(value: SSAValue, bits: int, valid: int, c: Converter) -> SSAValue:
    """Registers with zeros from lane `valid` on."""
    if packing(bits) <= c.target.max_mask_subelements:
        return _select_box(value, bits, SUBLANES, valid, c)
    words = as_words(value, bits, c)
    return _from_words(_select_box(words, 32, SUBLANES, valid, c), value, c)


def _zero_rows(value: SSAValue, bits: int, valid: int, c: Converter) -> SSAValue:
    """Registers with zeros from row `valid` on."""
    p = packing(bits)
    if p <= c.target.max_mask_subelements and not valid % p:
        return _select_box(value, bits, valid // p, LANES, c)
    if 1 < p <= c.target.max_mask_subelements:
        rows = tpu.CreateSubelementMaskOp.create(
            result_types=[VectorType(i1, register_shape(bits))],
            properties={"from": IntegerAttr(0, i32), "to": IntegerAttr(valid, i32)},
        )
        return _select(c.emit(rows), value, c)
    words = as_words(value, bits, c)
    whole, part = divmod(valid, p)
    if part:
        # The last word with data keeps its lowest `part` elements.
        kind = cast(VectorType[Attribute], words.type)
        keep = c.emit(arith.ConstantOp(splat(kind, (1 << part * bits) - 1)))
        kept = c.emit(arith.AndIOp(words, keep))
        full = c.emit(grid.BroadcastOp(_box(whole, LANES, 32, c), _mask_of(kind)))
        words = c.emit(arith.SelectOp(full, words, kept))
    return _from_words(_select_box(words, 32, whole + bool(part), LANES, c), value, c)


def _box(sublanes: int, lanes: int, bits: int, c: Converter) -> SSAValue:
    """A mask of the first sublanes and lanes of one register."""
    bounds = [c.constant_index(n) for n in (0, 0, sublanes, lanes)]
    kind = VectorType(i1, register_shape(bits))
    return c.emit(tpu.CreateMaskOp.create(operands=bounds, result_types=[kind]))


def _mask_of(kind: VectorType[Attribute]) -> VectorType[Attribute]:
    """The type of masks for values of type `kind`."""
    return vector_of(i1, kind.get_shape())


def _select_box(value: SSAValue, bits: int, sublanes: int, lanes: int, c: Converter) -> SSAValue:
    """Registers with zeros outside of their first sublanes and lanes."""
    if (sublanes, lanes) == (SUBLANES, LANES):
        return value
    return _select(_box(sublanes, lanes, bits, c), value, c)


def _select(mask: SSAValue, value: SSAValue, c: Converter) -> SSAValue:
    """The registers of `value` where `mask`, one register, is set, zeros elsewhere."""
    kind = cast(VectorType[Attribute], value.type)
    zero = c.emit(arith.ConstantOp(splat(kind, 0)))
    every = c.emit(grid.BroadcastOp(mask, _mask_of(kind)))
    return c.emit(arith.SelectOp(every, value, zero))


def _from_words(words: SSAValue, like: SSAValue, c: Converter) -> SSAValue:
    """Words seen as registers of the type of `like`."""
    return c.bitcast(words, like.type)
