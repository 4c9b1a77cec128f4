"""The order in which memory has the elements of a load or store of whole matrices.

Two accesses with the same order can see their memory as the same rows of 128, so that elementwise
operations between them need not know where elements belong.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import BlockArgument, SSAValue

from pallasite.dialects import memref, tpu
from pallasite.dialects.tpu.views import is_contiguous
from pallasite.dialects.types import AnyMemRef, bit_width, memory_space, tiling_of
from pallasite.layouts.registers import LANES
from pallasite.layouts.tiling import Tiling, word_tiles
from pallasite.passes.divisibility import constant_of

Order = tuple[int, ...]
"""How memory has the elements of an array, or of each of its matrices. It is one of

* (total,): row by row, in `total` rows of 128;
* (columns, tile, total): in tiles of `tile` rows, which are full;
* (rows, columns, tile, total): the same, with last tiles that are not full;
* (rows, tile): of matrices of `rows` rows;
* (): not known.
"""


def order_of_array(ref: SSAValue, indices: Sequence[SSAValue], shape: tuple[int, ...]) -> Order:
    """The order in VMEM of what a load or store of `shape` accesses: whole matrices of `ref`, or
    whole rows of tiles of one.

    () if there are gaps between its tiles, or if others have elements in its padding.
    """
    kind = cast(AnyMemRef, ref.type)
    tiling = _tiling(ref, indices, shape, part=takes_rows_of_tiles(ref, indices, shape))
    if tiling is None or not is_contiguous(tiling, shape):
        return ()
    bits = bit_width(kind)
    known = [constant_of(index) for index in indices]
    for start, count, size in zip(known, shape, kind.get_shape(), strict=True):
        if start is None or not 0 <= start <= size - count:
            return ()
    if len(shape) == 1:
        return (shape[0] // LANES,) if bits == 32 and shape[0] % LANES == 0 else ()
    if len(tiling.first) != 2 or tiling.first[1] != LANES:
        return ()
    *outer, rows, columns = shape
    tile = tiling.first[0]
    padded = _is_padded(shape, tile)
    # Matrices with padded tiles have registers of their own, as Pallas documents
    # (spec/pallas_semantics.md, row O25).
    if padded and (prod(outer) > 1 or not is_own(ref)):
        return ()
    total = prod(outer) * rows_of(shape, tile)
    row_by_row = not padded and (columns == LANES or (tile == 1 and bits == 32))
    if row_by_row:
        return (total,)
    return (rows, columns, tile, total) if padded else (columns, tile, total)


def takes_rows_of_tiles(ref: SSAValue, indices: Sequence[SSAValue], shape: tuple[int, ...]) -> bool:
    """Whether a load or store takes some rows of tiles, with all columns, of one packed matrix of
    `ref`.

    Registers of words may begin at any row, so words are not asked about.
    """
    kind = cast(AnyMemRef, ref.type)
    held, tiling = kind.get_shape(), tiling_of(kind)
    if (
        tiling is None
        or bit_width(kind) == 32
        or len(tiling.first) != 2
        or not len(indices) == len(shape) == len(held) > 1
    ):
        return False
    row, column = (constant_of(index) for index in indices[-2:])
    if row is None or column != 0 or prod(shape[:-2]) > 1 or shape[-1] != held[-1]:
        return False
    # The TPU compiler accepts only views of whole tiles, also where the array ends.
    tile = tiling.first[0]
    return 0 < shape[-2] < held[-2] and row % tile == 0 and shape[-2] % tile == 0


def order_of_matrices(ref: SSAValue, indices: Sequence[SSAValue], shape: tuple[int, ...]) -> Order:
    """The order of each matrix that a load or store accesses: its rows, and the rows of its tiles.

    Of matrices with one row of tiles, columns may be taken from column `first_column` on.
    """
    kind = cast(AnyMemRef, ref.type)
    if len(shape) < 2 or DYNAMIC_INDEX in kind.get_shape():
        return ()
    whole = (*shape[:-1], kind.get_shape()[-1])
    start = first_column(indices)
    # Columns may begin at any tile: the index of the rows stands in for theirs.
    tiling = _tiling(ref, [*indices[:-1], indices[-2]], whole)
    if tiling is None or start is None or len(tiling.first) != 2 or tiling.first[1] != LANES:
        return ()
    tile = tiling.first[0]
    if shape != whole and (shape[-2] > tile or start + shape[-1] > whole[-1]):
        return ()
    if not is_contiguous(tiling, kind.get_shape()):
        return ()
    if (_is_padded(shape, tile) or _is_padded(whole, tile)) and not is_own(ref):
        return ()
    return (shape[-2], tile)


def first_column(indices: Sequence[SSAValue]) -> int | None:
    """The first column of a load or store, if it is constant and begins a tile; else None."""
    start = constant_of(indices[-1])
    return None if start is None or start < 0 or start % LANES else start


def ends_tiles(ref: SSAValue, indices: Sequence[SSAValue], shape: tuple[int, ...]) -> bool:
    """Whether the columns of a load or store end with a tile, or with the array.

    A store of rows of 128 writes all of their last tile.
    """
    start, columns = first_column(indices), cast(AnyMemRef, ref.type).get_shape()[-1]
    return shape[-1] % LANES == 0 or (start is not None and start + shape[-1] == columns)


def _tiling(
    ref: SSAValue, indices: Sequence[SSAValue], shape: tuple[int, ...], part: bool = False
) -> Tiling | None:
    """The tiling of `ref` in VMEM, if an access of `shape` takes its matrices whole, or takes
    `part` of one."""
    kind = cast(AnyMemRef, ref.type)
    tiling = tiling_of(kind)
    if tiling is None or memory_space(kind) != "vmem" or len(indices) != len(shape):
        return None
    starts = [constant_of(index) for index in indices[-2:]]
    whole = tuple(kind.get_shape()[-2:]) == shape[-2:] and not any(start != 0 for start in starts)
    if not whole and not part:
        return None
    known = tiling.tiles[1:] == word_tiles(len(tiling.first), bit_width(kind))
    return tiling if known and tiling.first[-1] % LANES == 0 else None


def _is_padded(shape: tuple[int, ...], tile: int) -> bool:
    """Whether a matrix does not fill its last tiles of `tile` rows."""
    return bool(shape[-2] % tile or shape[-1] % LANES)


def rows_of(shape: tuple[int, ...], tile: int) -> int:
    """The rows of 128 that a matrix takes in tiles of `tile` rows."""
    return -(-shape[-2] // tile) * tile * -(-shape[-1] // LANES)


def is_own(ref: SSAValue) -> bool:
    """Whether `ref` has the padding of its last tiles for itself."""
    owner = ref.owner
    if isinstance(owner, tpu.MemrefSliceOp | tpu.MemrefSqueezeOp):
        source = cast(AnyMemRef, owner.operands[0].type)
        same = source.get_shape()[-2:] == cast(AnyMemRef, ref.type).get_shape()[-2:]
        return same and is_own(owner.operands[0])
    return isinstance(owner, memref.AllocaOp) or isinstance(ref, BlockArgument)
