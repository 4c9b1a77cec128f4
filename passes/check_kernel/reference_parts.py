"""A model of the tilings that the TPU compiler gives views: slices, squeezes, bitcasts, reshapes.

A slice that does not consist of whole tiles gets smaller tiles, with strides that skip what lies
between its columns. Asked of libtpu 0.0.51 about some 150 slices that are reshaped.
"""

from __future__ import annotations

from math import gcd, prod
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.tpu.views import is_contiguous
from pallasite.dialects.types import bit_width, shape_of, tiling_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.layouts.tiling import Tiling, contiguous_strides, refolded, squeezed
from pallasite.passes.divisibility import constant_of, remainder
from pallasite.passes.infer_memref_layout.parts_of_folded_tiles import last_cut
from pallasite.passes.reference_tiles import VIEWS, rows_of_tiles
from pallasite.targets import Target


def tiles_of_part(view: SSAValue, target: Target) -> Tiling | None:
    """The tiling of `view`, without the second level that packs elements into words.

    None where it is not known: for rank 1, for sizes known only at run time, and for refs whose
    layout is given.
    """
    kind = cast(MemRefType[Attribute], view.type)
    shape, op = kind.get_shape(), view.owner
    if len(shape) < 2 or DYNAMIC_INDEX in shape or tiling_of(kind) is not None:
        return None
    if not isinstance(op, VIEWS):
        tile = (rows_of_tiles(view, target), LANES)
        strides = contiguous_strides(shape, tile)
        if bit_width(kind) == 32 and shape[-1] <= LANES:
            # In one column of tiles, rows are adjacent, whatever the size of a tile.
            return Tiling(((1, LANES),), (*(s * tile[0] for s in strides[:-2]), 1, 1))
        return Tiling((tile,), strides)
    tiling, old = tiles_of_part(op.operands[0], target), shape_of(op.operands[0].type)
    if tiling is None:
        return None
    if isinstance(op, tpu.MemrefSliceOp):
        return _sliced(op, tiling) if len(tiling.first) == 2 else _sliced_box(op, tiling)
    if isinstance(op, tpu.MemrefSqueezeOp):
        return squeezed(tiling, old, shape)
    if isinstance(op, tpu.MemrefBitcastOp):
        rows = tiling.first[-2] * bit_width(op.input.type) // bit_width(kind)
        return Tiling(((*tiling.first[:-2], rows, LANES),), tiling.strides)
    if not is_contiguous(tiling, old):
        return None
    rows_stay = tiling.first == (1, LANES) and old[-1] == shape[-1]
    if bit_width(kind) == 32 and not rows_stay:
        return refolded(tiling, old, shape)
    return Tiling(tiling.tiles, contiguous_strides(shape, tiling.first))


def _sliced(op: tpu.MemrefSliceOp, tiling: Tiling) -> Tiling | None:
    """The tiling of a slice: that of its array, or smaller tiles that divide start and size."""
    tile, start = tiling.first[0], op.base_idx[-2]
    held, size = op.mem_ref.type.get_shape()[-2], op.result.type.get_shape()[-2]
    first = constant_of(start)
    whole = size == held or size % min(tile, SUBLANES) == 0 or first == held - size
    if whole and remainder(start, tile) == 0:
        return tiling
    one_column = op.mem_ref.type.get_shape()[-1] <= LANES
    least = packing(bit_width(op.result.type))
    piece = gcd(size, tile) if first is None else gcd(first, size, tile)
    if piece < least:
        return None
    factor = tile // piece
    *outer, rows, columns = tiling.strides
    if not one_column:
        # Pieces of one tile, or the last of one and the first of the next.
        within = first is None or first % tile + size <= tile
        rows = 1 if within else rows * factor - factor + 1
    strides = (*(stride * factor for stride in outer), rows, columns * factor)
    return Tiling(((piece, LANES),), strides)


def _sliced_box(op: tpu.MemrefSliceOp, tiling: Tiling) -> Tiling:
    """The tiling of a slice of an array with tiles of more than two dimensions, which only wide
    arrays of words have. If tiles are cut, single rows, whose columns are not adjacent anyway."""
    if last_cut(op, [tiling.tile_of(dim) for dim in range(len(tiling.strides))]) is None:
        return tiling
    factor = prod(tiling.first[:-1])
    return Tiling(((1, LANES),), tuple(stride * factor for stride in tiling.strides))
