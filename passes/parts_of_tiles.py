"""Slices for transfers of arrays whose tiles they cut, as slices of whole tiles.

A row of several columns of tiles, or known rows within one tile, are found among rows of words:

    %r = tpu.memref_slice %x[%i, %j] : memref<64x256xf32, tiled<(8,128),[2,1]>> -> memref<1x256xf32>
becomes
    %rows = tpu.reinterpret_cast %x : ... -> memref<8x8x256xf32, tiled<(1,128),[16,1,8]>>
    %r = tpu.memref_slice %rows[%i / 8, %i mod 8, %j] : ... -> memref<1x1x256xf32, ...>
    %row = tpu.memref_squeeze %r : ... -> memref<1x256xf32, tiled<(1,128),[1,8]>>

Its columns of tiles lie apart, which DMA engines can do. Of arrays in SMEM as well.
Tiles of one column follow each other, so that any rows of words are whole tiles of one row:

    %r = tpu.memref_slice %x[%i, 0] : memref<40x128xf32, tiled<(8,128),[1,1]>> -> memref<12x128xf32>
becomes
    %rows = tpu.reinterpret_cast %x : ... -> memref<40x128xf32, tiled<(1,128),[1,1]>>
    %r = tpu.memref_slice %rows[%i, 0] : ... -> memref<12x128xf32, tiled<(1,128),[1,1]>>

The end of an array is cut from its padded tiles, and then seen without its padding:

    %r = tpu.memref_slice %x[24, 0] : memref<37x256xf32, tiled<(8,128),[2,1]>> -> memref<13x256xf32>
becomes
    %whole = tpu.reinterpret_cast %x : ... -> memref<40x256xf32, tiled<(8,128),[2,1]>>
    %tiles = tpu.memref_slice %whole[24, 0] : ... -> memref<16x256xf32, tiled<(8,128),[2,1]>>
    %r = tpu.reinterpret_cast %tiles : ... -> memref<13x256xf32, tiled<(8,128),[2,1]>>
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import arith, tpu
from pallasite.dialects.tpu import TiledLayoutAttr
from pallasite.dialects.types import bit_width, memory_space, memref_of
from pallasite.layouts.registers import LANES, packing
from pallasite.layouts.tiling import Tiling, squeezed
from pallasite.passes.divisibility import constant_of, remainder

MemRef = MemRefType[Attribute]


def slice_part_of_tiles(op: tpu.MemrefSliceOp, tiling: Tiling) -> bool:
    """Replaces `op` by slices of whole tiles; False if it is left as it is."""
    if DYNAMIC_INDEX in op.mem_ref.type.get_shape():
        return False
    if _within_tiles(op, tiling):
        _slice_rows_of_words(op, tiling)
    elif _cuts_column(op, tiling):
        _slice_column(op, tiling)
    elif _cut_ends(op, tiling):
        _slice_padded(op, tiling)
    else:
        return False
    return True


def _within_tiles(op: tpu.MemrefSliceOp, tiling: Tiling) -> bool:
    """Whether `op` takes one row, or known rows of one tile, of an array outside VMEM."""
    source = op.mem_ref.type
    shape, size, per_word = source.get_shape(), _rows(op), packing(bit_width(source.element_type))
    if len(shape) < 2 or memory_space(source) not in ("any", "hbm", "smem"):
        return False
    tile, start = tiling.tile_of(len(shape) - 2), constant_of(op.base_idx[-2])
    if tile <= per_word:
        return False
    if size == per_word == 1:
        return True
    if start is None or not 0 < size < tile or memory_space(source) == "smem":
        return False
    of_words = start % per_word == 0 == size % per_word
    return of_words and start % tile + size <= tile and shape[-1] > LANES


def _slice_rows_of_words(op: tpu.MemrefSliceOp, tiling: Tiling) -> None:
    """Replaces `op` by a slice of the array seen as tiles of single rows of words."""
    source, result = op.mem_ref.type, op.result.type
    *leading, rows, columns = source.get_shape()
    tile, per_word = tiling.first[0], packing(bit_width(source.element_type))
    *outer, of_tiles, of_columns = (stride * (tile // per_word) for stride in tiling.strides)
    split = Tiling(((per_word, LANES), *tiling.tiles[1:]), (*outer, of_tiles, 1, of_columns))
    view = laid_out(source, (*leading, -(-rows // tile), tile, columns), split)
    *sizes, size, wanted = result.get_shape()
    part = laid_out(result, (*sizes, 1, size, wanted), split)
    kept = squeezed(split, (*sizes, 1, size, wanted), (*sizes, size, wanted))
    assert kept is not None
    rows_type = laid_out(result, (*sizes, size, wanted), kept)

    made: list[Operation] = []

    def add(new: Operation) -> SSAValue:
        new.location = op.location
        made.append(new)
        return new.results[0]

    array = add(tpu.ReinterpretCastOp(operands=[op.mem_ref, [], []], result_types=[view]))
    *starts, row, column = op.base_idx
    count = add(arith.ConstantOp.from_int_and_width(tile, i32))
    starts += [add(arith.DivUIOp(row, count)), add(arith.RemUIOp(row, count)), column]
    sliced = add(
        tpu.MemrefSliceOp(operands=[array, starts, list(op.dynamic_sizes)], result_types=[part])
    )
    found = add(tpu.MemrefSqueezeOp(operands=[sliced], result_types=[rows_type]))
    Rewriter.insert_op(made, InsertPoint.before(op))
    op.result.replace_all_uses_with(found)
    Rewriter.erase_op(op)


def _cuts_column(op: tpu.MemrefSliceOp, tiling: Tiling) -> bool:
    """Whether `op` cuts the only column of tiles of an array in HBM, between rows of words.

    The rows may begin anywhere, also at a place known at run time, as many as that may be.
    """
    source = op.mem_ref.type
    shape = source.get_shape()
    if len(shape) < 2 or memory_space(source) not in ("any", "hbm"):
        return False
    if shape[-1] > LANES or tiling.strides[-2] != 1:
        return False
    start, size = op.base_idx[-2], _rows(op)
    if size == shape[-2] and constant_of(start) == 0:
        return False

    def whole(rows: int) -> bool:
        if size == DYNAMIC_INDEX:
            before = op.result.type.get_shape()[:-2].count(DYNAMIC_INDEX)
            return remainder(start, rows) == 0 == remainder(op.dynamic_sizes[before], rows)
        return remainder(start, rows) == 0 == size % rows

    return not whole(tiling.tile_of(len(shape) - 2)) and whole(
        packing(bit_width(source.element_type))
    )


def _slice_column(op: tpu.MemrefSliceOp, tiling: Tiling) -> None:
    """Takes `op` from the array seen as tiles of one row of words."""
    source, result = op.mem_ref.type, op.result.type
    per_word = packing(bit_width(source.element_type))
    *outer, rows, columns = tiling.strides
    factor = tiling.first[0] // per_word
    fine = Tiling(
        ((per_word, LANES), *tiling.tiles[1:]), (*(s * factor for s in outer), rows, columns)
    )
    see_operand(op, laid_out(source, source.get_shape(), fine))
    Rewriter.replace_value_with_new_type(op.result, laid_out(result, result.get_shape(), fine))


def _cut_ends(op: tpu.MemrefSliceOp, tiling: Tiling) -> list[int]:
    """The dimensions in which `op` takes whole tiles up to the array's end, which cuts the last."""
    shape, sizes = op.mem_ref.type.get_shape(), op.result.type.get_shape()
    ends: list[int] = []
    for dim, (start, held, size) in enumerate(zip(op.base_idx, shape, sizes, strict=True)):
        tile, known = tiling.tile_of(dim), constant_of(start)
        if known and known % tile == 0 and known + size == held and size % tile:
            ends.append(dim)
    return ends


def _slice_padded(op: tpu.MemrefSliceOp, tiling: Tiling) -> None:
    """Slices whole tiles of the padded array, and sees the part without its padding."""
    source, result = op.mem_ref.type, op.result.type
    whole, part, ends = list(source.get_shape()), list(result.get_shape()), _cut_ends(op, tiling)
    for dim in ends:
        tile = tiling.tile_of(dim)
        whole[dim] += -whole[dim] % tile
        part[dim] += -part[dim] % tile
    see_operand(op, laid_out(source, whole, tiling))
    uses = list(op.result.uses)
    sliced = Rewriter.replace_value_with_new_type(op.result, laid_out(result, part, tiling))
    view = tpu.ReinterpretCastOp(
        operands=[sliced, [], list(op.dynamic_sizes)],
        result_types=[laid_out(result, result.get_shape(), tiling)],
    )
    view.location = op.location
    Rewriter.insert_op(view, InsertPoint.after(op))
    for use in uses:
        use.operation.operands[use.index] = view.result


def see_operand(op: tpu.MemrefSliceOp, kind: MemRef) -> None:
    """Makes `op` slice its array seen as `kind`."""
    view = tpu.ReinterpretCastOp(operands=[op.mem_ref, [], []], result_types=[kind])
    view.location = op.location
    Rewriter.insert_op(view, InsertPoint.before(op))
    op.operands[0] = view.result


def _rows(op: tpu.MemrefSliceOp) -> int:
    """Rows of the part, `DYNAMIC_INDEX` if known at run time only; 0 if it has none."""
    shape = op.result.type.get_shape()
    return shape[-2] if len(shape) > 1 else 0


def laid_out(kind: MemRef, shape: Iterable[int], tiling: Tiling) -> MemRef:
    """`shape` of the elements of `kind` and where they are, laid out by `tiling`."""
    return memref_of(kind.element_type, tuple(shape), kind.memory_space, TiledLayoutAttr.of(tiling))
