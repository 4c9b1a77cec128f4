"""A roll of loaded columns by a dynamic amount: loads of other tiles, and a roll by less than a
tile.

    %x = vector.load %a[%z, %z] : vector<16x512xf32>
    %y = tpu.dynamic_rotate %x by %n dim 1
becomes, if the columns begin at the tile `%c = (512 - %n / 128 * 128) mod 512`
    %p = vector.load %a[%z, %c] : vector<16x128xf32>
    %q = vector.load %a[%z, (%c + 128) mod 512] : vector<16x128xf32>
    ...
    %w = tpu.concatenate %p, %q, ... in 1
    %y = tpu.dynamic_rotate %w by (%n mod 128) dim 1

In registers, the roll by whole tiles would take one select for each power of two of tiles.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, VectorType, i32
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, tpu, vector
from pallasite.dialects.registers import BOX, Box, box_of
from pallasite.dialects.types import bit_width, shape_of
from pallasite.layouts.registers import LANES
from pallasite.lowering.absorb_moves.memory import buffer_of, part_of
from pallasite.lowering.absorb_moves.rolls import Deepened, memory_is_kept
from pallasite.passes.divisibility import constant_of
from pallasite.passes.insertion import insert_before

_MOST_TILES = 16
"""Tiles of columns that get a load each, so that the size of the result stays bounded."""


def roll_tiles_in_memory(op: tpu.DynamicRotateOp, deepened: Deepened) -> None:
    """Replaces the source of `op` by loads of tiles, and its amount by the remainder of it by 128.

    `op` must roll the columns of words (32 bits) that are loaded from all columns of a buffer: 2,
    4, 8 or 16 tiles of 128. Nothing may write that memory between the load and `op`.
    """
    load, shape = op.value.owner, shape_of(op.value.type)
    rank, columns = len(shape), shape[-1]
    if not isinstance(load, vector.LoadOp) or op.stride is not None or rank < 2:
        return
    tiles = columns // LANES
    if op.dimension.value.data != rank - 1 or constant_of(op.amount) is not None:
        return
    if columns % LANES or not 1 < tiles <= _MOST_TILES or tiles & (tiles - 1):
        return
    kind = cast(MemRefType[Attribute], load.base.type)
    whole = kind.get_shape()[-1] == columns and constant_of(load.indices[-1]) == 0
    if not whole or bit_width(kind.element_type) != 32 or len(load.indices) != rank:
        return
    if buffer_of(load.base) is None or not op.value.has_one_use():
        return
    if not memory_is_kept(load, op, deepened):
        return
    within = _masked(op.amount, LANES - 1, op)
    parts = [_load(load, start, op) for start in _starts(op, columns)]
    joined = insert_before(
        tpu.ConcatenateOp.create(
            operands=parts,
            result_types=[op.result.type],
            properties={"dimension": IntegerAttr(rank - 1, i32)},
        ),
        op,
    )
    op.operands[0], op.operands[1] = joined, within


def _starts(op: tpu.DynamicRotateOp, columns: int) -> list[SSAValue]:
    """The column, a multiple of 128, at which each tile of the rolled value begins in memory."""
    whole = insert_before(arith.SubiOp(op.amount, _masked(op.amount, LANES - 1, op)), op)
    starts: list[SSAValue] = []
    for start in range(0, columns, LANES):
        behind = insert_before(arith.SubiOp(_number(start, op), whole), op)
        tile = insert_before(arith.ShRUIOp(_masked(behind, columns - 1, op), _number(7, op)), op)
        column = insert_before(arith.MuliOp(tile, _number(LANES, op)), op)
        starts.append(insert_before(arith.IndexCastOp(column, IndexType()), op))
    return starts


def _masked(value: SSAValue, bits: int, anchor: Operation) -> SSAValue:
    """`value & bits`, inserted before `anchor`."""
    return insert_before(arith.AndIOp(value, _number(bits, anchor)), anchor)


def _number(value: int, anchor: Operation) -> SSAValue:
    return insert_before(arith.ConstantOp(IntegerAttr(value, i32)), anchor)


def _load(like: vector.LoadOp, column: SSAValue, anchor: Operation) -> SSAValue:
    """A tile of 128 columns, from `column` on, of the rows that `like` loads."""
    old = like.result.type
    kind = VectorType(old.element_type, [*old.get_shape()[:-1], LANES])
    loaded = vector.LoadOp(like.base, [*like.indices[:-1], column], kind)
    loaded.attributes.update(part_of(like, like.indices))
    if (box := box_of(loaded)) is not None:
        # Rows may leave the ref; its columns are all loaded, so `column` is inside it.
        inside = Box(
            (*box.offsets[:-1], 0),
            (*box.sizes[:-1], LANES),
            (*box.extents[:-1], old.get_shape()[-1]),
        )
        loaded.attributes[BOX] = inside.attribute
    return insert_before(loaded, anchor)
