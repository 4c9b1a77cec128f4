"""Slices that cut tiles become slices of whole, smaller tiles, as transfers need.

Which view of the array is used depends on what the slice takes (outside VMEM unless a docstring
says otherwise):

* One row of several columns of tiles, or rows that lie in one tile (`_slice_rows_of_words`). The
  array is seen as rows of words; the columns of tiles of a row lie apart, which DMA engines can
  handle:

    %r = tpu.memref_slice %x[%i, %j] : memref<64x256xf32, tiled<(8,128),[2,1]>> -> memref<1x256xf32>
becomes
    %rows = tpu.reinterpret_cast %x : ... -> memref<8x8x256xf32, tiled<(1,128),[16,1,8]>>
    %r = tpu.memref_slice %rows[%i / 8, %i mod 8, %j] : ... -> memref<1x1x256xf32, ...>
    %row = tpu.memref_squeeze %r : ... -> memref<1x256xf32, tiled<(1,128),[1,8]>>

* Rows half of which end a tile and half of which begin the next (`_slice_halves`). The array is
  seen as such halves, whose distance is known:

    %r = tpu.memref_slice %x[6, 0] : memref<24x256xf32, tiled<(8,128),[2,1]>> -> memref<4x256xf32>
becomes
    %rows = tpu.reinterpret_cast %x : ... -> memref<2x4x4x256xf32, tiled<(2,128),[8,1,5,4]>>
    %r = tpu.memref_slice %rows[0, 3, 0, 0] : ... -> memref<1x1x4x256xf32, ...>
    %row = tpu.memref_squeeze %r : ... -> memref<4x256xf32, tiled<(2,128),[5,4]>>

* Any rows of words of an array with one column of tiles (`_slice_column`). Its tiles follow each
  other, so it is seen in tiles of one row:

    %r = tpu.memref_slice %x[%i, 0] : memref<40x128xf32, tiled<(8,128),[1,1]>> -> memref<12x128xf32>
becomes
    %rows = tpu.reinterpret_cast %x : ... -> memref<40x128xf32, tiled<(1,128),[1,1]>>
    %r = tpu.memref_slice %rows[%i, 0] : ... -> memref<12x128xf32, tiled<(1,128),[1,1]>>

* The end of an array whose last tile is padded (`_padding`), or whose last word is. It is sliced
  with its padding, and then seen without it:

    %r = tpu.memref_slice %x[24, 0] : memref<37x256xf32, tiled<(8,128),[2,1]>> -> memref<13x256xf32>
becomes
    %whole = tpu.reinterpret_cast %x : ... -> memref<40x256xf32, tiled<(8,128),[2,1]>>
    %tiles = tpu.memref_slice %whole[24, 0] : ... -> memref<16x256xf32, tiled<(8,128),[2,1]>>
    %r = tpu.reinterpret_cast %tiles : ... -> memref<13x256xf32, tiled<(8,128),[2,1]>>

* Rows of 128 words of a one-dimensional array in SMEM (`_cuts_flat_tiles`), which is seen in tiles
  of 128.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import add

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue, Use
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import arith, tpu
from pallasite.dialects.promises import multiples
from pallasite.dialects.types import AnyMemRef, bit_width, memory_space, memref_of, tiling_of
from pallasite.layouts.registers import LANES, packing
from pallasite.layouts.tiling import (
    Tiling,
    contiguous_strides,
    packed_tiling,
    rows_follow,
)
from pallasite.passes.divisibility import constant_of, remainder
from pallasite.passes.infer_memref_layout.parts_of_folded_tiles import slice_folded_tiles
from pallasite.passes.infer_memref_layout.pieces import Pieces
from pallasite.passes.laid_out import laid_out, see_operand


def take_from_whole(op: tpu.MemrefSliceOp) -> None:
    """Replaces a slice of a slice that may begin within a tile by one slice of the array itself.

    Only of the array is it known where its tiles are.
    """
    while isinstance(outer := op.mem_ref.owner, tpu.MemrefSliceOp) and _may_begin_within(outer):
        starts = [arith.AddiOp(a, b) for a, b in zip(outer.base_idx, op.base_idx, strict=True)]
        for start in starts:
            start.location = op.location
        Rewriter.insert_op(starts, InsertPoint.before(op))
        op.operands[0] = outer.mem_ref
        for number, start in enumerate(starts, 1):
            op.operands[number] = start.result


def _may_begin_within(op: tpu.MemrefSliceOp) -> bool:
    """Whether `op` may begin within a tile of its array."""
    tiling = tiling_of(op.mem_ref.type)
    return tiling is not None and any(
        remainder(start, tiling.tile_of(dim)) != 0 for dim, start in enumerate(op.base_idx)
    )


def slice_part_of_tiles(op: tpu.MemrefSliceOp, tiling: Tiling) -> bool:
    """Replaces `op`, of an array tiled by `tiling`, by slices of whole tiles; False if it is left
    as it is."""
    source, result = op.mem_ref.type, op.result.type
    if DYNAMIC_INDEX in source.get_shape():
        return False
    padding, uses = _padding(op, tiling), list(op.result.uses)
    padded = any(padding)
    if padded:
        whole = map(add, source.get_shape(), padding)
        see_operand(op, laid_out(source, whole, tiling))
        part = memref_of(
            result.element_type, tuple(map(add, result.get_shape(), padding)), result.memory_space
        )
        Rewriter.replace_value_with_new_type(op.result, part)
    sliced = _sliced(op, tiling)
    if sliced is None and not padded:
        return False
    if sliced is None:
        part = op.result.type
        sliced = Rewriter.replace_value_with_new_type(
            op.result, laid_out(part, part.get_shape(), tiling)
        )
    if padded:
        _see_without_padding(sliced, result, uses)
    return True


def _sliced(op: tpu.MemrefSliceOp, tiling: Tiling) -> SSAValue | None:
    """What takes the place of `op`; None if it takes whole tiles."""
    if len(tiling.first) > 2:
        return slice_folded_tiles(op, tiling)
    if _within_tiles(op, tiling):
        return _slice_rows_of_words(op, tiling)
    if _straddles_tiles(op, tiling):
        return _slice_halves(op, tiling)
    if _cuts_column(op, tiling):
        return _slice_column(op, tiling)
    if _cuts_flat_tiles(op, tiling):
        fine = Tiling(((LANES,),), (1,))
        see_operand(op, laid_out(op.mem_ref.type, op.mem_ref.type.get_shape(), fine))
        return Rewriter.replace_value_with_new_type(
            op.result, laid_out(op.result.type, op.result.type.get_shape(), fine)
        )
    return None


def _padding(op: tpu.MemrefSliceOp, tiling: Tiling) -> list[int]:
    """How much larger the part is in memory than `op` says, in each dimension.

    A part that reaches the array's end includes the padding of its last tile, or of the word that
    its last rows share.
    """
    shape, sizes = op.mem_ref.type.get_shape(), op.result.type.get_shape()
    per_word, padding = packing(bit_width(op.mem_ref.type.element_type)), [0] * len(shape)
    for dim, (start, held, size) in enumerate(zip(op.base_idx, shape, sizes, strict=True)):
        tile, known = tiling.tile_of(dim), constant_of(start)
        rows = dim == len(shape) - 2
        if not known or known + size != held or (rows and _within_tiles(op, tiling)):
            continue
        if known % tile == 0:
            padding[dim] = -size % tile
        elif rows and known % per_word == 0:
            padding[dim] = -size % per_word
    return padding


def _see_without_padding(sliced: SSAValue, kind: AnyMemRef, uses: list[Use]) -> None:
    """Makes `uses` see `sliced` in the shape of `kind`, without padding."""
    made, tiling = sliced.owner, tiling_of(sliced.type)
    assert isinstance(made, tpu.MemrefSliceOp | tpu.MemrefSqueezeOp) and tiling is not None
    cut = made if isinstance(made, tpu.MemrefSliceOp) else made.input.owner
    assert isinstance(cut, tpu.MemrefSliceOp)
    view = tpu.ReinterpretCastOp(
        operands=[sliced, [], list(cut.dynamic_sizes)],
        result_types=[laid_out(kind, kind.get_shape(), tiling)],
    )
    view.location = made.location
    Rewriter.insert_op(view, InsertPoint.after(made))
    for use in uses:
        use.operation.operands[use.index] = view.result


def _within_tiles(op: tpu.MemrefSliceOp, tiling: Tiling) -> bool:
    """Whether `op` takes one row, or rows that are known to lie in one tile, of an array outside
    VMEM."""
    source = op.mem_ref.type
    shape, size, per_word = source.get_shape(), _rows(op), packing(bit_width(source.element_type))
    if len(shape) < 2 or memory_space(source) not in ("any", "hbm", "smem"):
        return False
    tile, start = tiling.tile_of(len(shape) - 2), op.base_idx[-2]
    if tile <= per_word:
        return False
    if size == per_word == 1:
        return True
    if not 0 < size < min(tile, shape[-2]) or shape[-1] <= LANES:
        return False
    if size % per_word or remainder(start, per_word) != 0:
        return False
    known = constant_of(start)
    if known is not None:
        return known % tile + size <= tile
    return shape[-2] <= tile or (tile % size == 0 and remainder(start, size) == 0)


def _cuts_flat_tiles(op: tpu.MemrefSliceOp, tiling: Tiling) -> bool:
    """Whether `op` takes rows of 128 words, but not whole tiles, of a one-dimensional array of
    words in SMEM.

    The words of such an array follow each other, whatever its tiles.
    """
    source = op.mem_ref.type
    if len(source.get_shape()) != 1 or memory_space(source) != "smem":
        return False
    if bit_width(source.element_type) != 32 or tiling.tile_of(0) <= LANES:
        return False
    size = op.result.type.get_shape()[0]
    return remainder(op.base_idx[0], LANES) == 0 and 0 < size and size % tiling.tile_of(0) != 0


def _slice_rows_of_words(op: tpu.MemrefSliceOp, tiling: Tiling) -> SSAValue:
    """Replaces `op` by a slice of the array seen in tiles of single rows of words."""
    source = op.mem_ref.type
    *leading, rows, columns = source.get_shape()
    tile, per_word = tiling.first[0], packing(bit_width(source.element_type))
    *outer, of_tiles, of_columns = (stride * (tile // per_word) for stride in tiling.strides)
    split = Tiling(((per_word, LANES), *tiling.tiles[1:]), (*outer, of_tiles, 1, of_columns))
    view = _Rows(op, split, (*leading, -(-rows // tile), tile, columns))
    row = op.base_idx[-2]
    if rows <= tile:
        return view.part((view.number(0), row))
    count = view.number(tile)
    number, row = view.emit(arith.DivUIOp(row, count)), view.emit(arith.RemUIOp(row, count))
    if per_word > 1 and constant_of(op.base_idx[-2]) is None:
        # The row is a multiple, so this is true; the TPU compiler does not follow remainders.
        row = view.emit(tpu.AssumeMultipleOp.of(row, per_word))
    return view.part((number, row))


def _straddles_tiles(op: tpu.MemrefSliceOp, tiling: Tiling) -> bool:
    """Whether `op` takes as many rows from the end of a tile as from the beginning of the next.

    The array has several columns of tiles and lies outside VMEM, and the first row is constant.
    """
    source = op.mem_ref.type
    shape, size, per_word = source.get_shape(), _rows(op), packing(bit_width(source.element_type))
    if len(shape) < 2 or memory_space(source) not in ("any", "hbm", "smem"):
        return False
    if shape[-1] <= LANES or size <= 0 or size % (2 * per_word):
        return False
    tile, half, first = tiling.tile_of(len(shape) - 2), size // 2, constant_of(op.base_idx[-2])
    cuts = half < tile and tile % half == 0
    return first is not None and cuts and first % tile == tile - half


def _slice_halves(op: tpu.MemrefSliceOp, tiling: Tiling) -> SSAValue:
    """Replaces `op` by a slice of the array seen as pieces of tiles, each of the rows of one half.

    One dimension counts tiles, the next one pieces of a tile. Along the rows, the next piece is the
    first one of the next tile, which is right for the last piece of a tile.
    """
    source, first = op.mem_ref.type, constant_of(op.base_idx[-2])
    assert first is not None
    *leading, rows, columns = source.get_shape()
    tile, size = tiling.first[0], _rows(op)
    pieces = 2 * tile // size
    *outer, of_tiles, of_columns = (stride * pieces for stride in tiling.strides)
    split = Tiling(
        ((size // 2, LANES), *tiling.tiles[1:]),
        (*outer, of_tiles, 1, of_tiles - pieces + 1, of_columns),
    )
    view = _Rows(op, split, (*leading, -(-rows // tile) - 1, pieces, size, columns))
    return view.part((view.number(first // tile), view.number(pieces - 1), view.number(0)))


class _Rows(Pieces):
    """An array seen as pieces of its tiles, with several dimensions in place of its rows."""

    def __init__(self, op: tpu.MemrefSliceOp, tiling: Tiling, shape: Sequence[int]) -> None:
        super().__init__(op)
        self._tiling, self._array = tiling, self.array(shape, tiling)

    def part(self, rows: Sequence[SSAValue]) -> SSAValue:
        """Replaces the slice by one that begins at `rows` in the dimensions that replace the rows.

        Its size is 1 in all of these but the last.
        """
        *outer, _, column = self._op.base_idx
        *sizes, size, wanted = self._op.result.type.get_shape()
        return self.replace(
            self._array,
            self._tiling,
            (*outer, *rows, column),
            (*sizes, *[1] * (len(rows) - 1), size, wanted),
        )


def _cuts_column(op: tpu.MemrefSliceOp, tiling: Tiling) -> bool:
    """Whether `op` cuts tiles, but not words, of an array outside VMEM with one column of tiles.

    First row and number of rows may be known at run time only, if they are known to be multiples of
    the rows of a word.
    """
    source = op.mem_ref.type
    shape = source.get_shape()
    if len(shape) < 2 or memory_space(source) not in ("any", "hbm", "smem"):
        return False
    if shape[-1] > LANES or tiling.strides[-2] != 1:
        return False
    start, size, last = op.base_idx[-2], _rows(op), len(shape) - 2
    if size == shape[-2] and constant_of(start) == 0:
        return False
    rounded = multiples(op)

    def whole(rows: int) -> bool:
        if remainder(start, rows) != 0:
            return False
        if last in rounded:
            # Transfers round the size up to whole tiles, whatever it is.
            return rounded[last] % rows == 0
        if size == DYNAMIC_INDEX:
            before = op.result.type.get_shape()[:-2].count(DYNAMIC_INDEX)
            return remainder(op.dynamic_sizes[before], rows) == 0
        return size % rows == 0

    return not whole(tiling.tile_of(len(shape) - 2)) and whole(
        packing(bit_width(source.element_type))
    )


def _slice_column(op: tpu.MemrefSliceOp, tiling: Tiling) -> SSAValue:
    """Replaces the source of `op` by the array seen in tiles of one row of words."""
    source, result = op.mem_ref.type, op.result.type
    per_word = packing(bit_width(source.element_type))
    *outer, rows, columns = tiling.strides
    factor = tiling.first[0] // per_word
    fine = Tiling(
        ((per_word, LANES), *tiling.tiles[1:]), (*(s * factor for s in outer), rows, columns)
    )
    see_operand(op, laid_out(source, source.get_shape(), fine))
    return Rewriter.replace_value_with_new_type(
        op.result, laid_out(result, result.get_shape(), fine)
    )


def rows_of_column(kind: AnyMemRef, tiling: Tiling) -> Tiling | None:
    """The tiling by single rows of words of an array outside VMEM.

    None unless it has one column of tiles, without padding between its rows.
    """
    shape, last, bits = kind.get_shape(), kind.get_num_dims() - 2, bit_width(kind)
    if last < 0 or DYNAMIC_INDEX in shape or memory_space(kind) not in ("any", "hbm", "smem"):
        return None
    if shape[-1] > LANES or tiling.tiles[1:] != packed_tiling(shape, tiling.first, bits).tiles[1:]:
        return None
    padded = shape[-2] % tiling.tile_of(last) and prod(shape[:-2]) > 1
    if padded or tiling.strides != contiguous_strides(shape, tiling.first):
        return None
    if not rows_follow(tiling, shape):
        return None
    return packed_tiling(shape, (packing(bits), LANES), bits)


def _rows(op: tpu.MemrefSliceOp) -> int:
    """Rows of the part, `DYNAMIC_INDEX` if they are not known; 0 if it has one dimension."""
    shape = op.result.type.get_shape()
    return shape[-2] if len(shape) > 1 else 0
