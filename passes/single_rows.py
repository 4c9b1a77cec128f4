"""Single rows of arrays whose tiles have several rows, for transfers.

    %r = tpu.memref_slice %x[%i, %j] : memref<64x256xf32, tiled<(8,128),[2,1]>> -> memref<1x256xf32>
becomes
    %rows = tpu.reinterpret_cast %x : ... -> memref<8x8x256xf32, tiled<(1,128),[16,1,8]>>
    %r = tpu.memref_slice %rows[%i / 8, %i mod 8, %j] : ... -> memref<1x1x256xf32, ...>
    %row = tpu.memref_squeeze %r : ... -> memref<1x256xf32, tiled<(1,128),[1,8]>>

A slice must consist of whole tiles; seen as rows of 128 words, 8 of which are a tile, a row does,
wherever it is. Its columns of tiles lie apart, which DMA engines can do. Of arrays in SMEM as well.
"""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX, i32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import arith, tpu
from pallasite.dialects.tpu import TiledLayoutAttr
from pallasite.dialects.types import bit_width, memory_space, memref_of
from pallasite.layouts.registers import LANES
from pallasite.layouts.tiling import Tiling, squeezed


def takes_single_row(op: tpu.MemrefSliceOp, tiling: Tiling) -> bool:
    """Whether `op` takes one row of an array outside VMEM, tiled by several rows of words."""
    source, result = op.mem_ref.type, op.result.type
    shape = source.get_shape()
    return (
        memory_space(source) in ("any", "hbm", "smem")
        and bit_width(source.element_type) == 32
        and len(shape) > 1
        and len(tiling.tiles) == 1
        and tiling.tile_of(len(shape) - 2) > 1
        and DYNAMIC_INDEX not in shape
        and result.get_shape()[-2] == 1
    )


def slice_single_row(op: tpu.MemrefSliceOp, tiling: Tiling) -> None:
    """Replaces `op` by a slice of the array seen as tiles of single rows."""
    source, result = op.mem_ref.type, op.result.type
    *leading, rows, columns = source.get_shape()
    tile = tiling.first[0]
    *outer, of_tiles, of_columns = (stride * tile for stride in tiling.strides)
    split = Tiling(((1, LANES),), (*outer, of_tiles, 1, of_columns))
    space, element = source.memory_space, source.element_type
    view = memref_of(
        element, (*leading, -(-rows // tile), tile, columns), space, TiledLayoutAttr.of(split)
    )
    *sizes, _, wanted = result.get_shape()
    part = memref_of(element, (*sizes, 1, 1, wanted), space, TiledLayoutAttr.of(split))
    kept = squeezed(split, (*sizes, 1, 1, wanted), (*sizes, 1, wanted))
    assert kept is not None
    row_type = memref_of(element, (*sizes, 1, wanted), space, TiledLayoutAttr.of(kept))

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
    single = add(tpu.MemrefSqueezeOp(operands=[sliced], result_types=[row_type]))
    Rewriter.insert_op(made, InsertPoint.before(op))
    op.result.replace_all_uses_with(single)
    Rewriter.erase_op(op)
