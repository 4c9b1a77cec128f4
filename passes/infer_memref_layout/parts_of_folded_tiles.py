"""Rewrites slices of refs that cut tiles of more than two dimensions, which reshaped refs have.

The ref is viewed with smaller tiles (`tpu.reinterpret_cast`), without the dimensions that the slice
cuts and those before them. A cut dimension becomes two, the number of the tile and the row in it.
That is possible if one stride per dimension describes the rows of the slice:

    %r = tpu.memref_slice %x[%i, 0, 0] : memref<8x4x256xf32, tiled<(2,4,128),[2,2,1]>>
        -> memref<1x4x256xf32>
becomes
    %rows = tpu.reinterpret_cast %x : ... -> memref<4x2x4x256xf32, tiled<(4,128),[4,1,4,2]>>
    %r = tpu.memref_slice %rows[%i / 2, %i mod 2, 0, 0] : ... -> memref<1x1x4x256xf32, ...>
    %row = tpu.memref_squeeze %r : ... -> memref<1x4x256xf32, tiled<(4,128),[1,4,2]>>
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from xdsl.ir import SSAValue

from pallasite.dialects import arith, tpu
from pallasite.layouts.tiling import Tiling
from pallasite.passes.divisibility import constant_of, remainder
from pallasite.passes.infer_memref_layout.pieces import Pieces


@dataclass(frozen=True)
class Cut:
    """How a slice cuts the tiles of one dimension: into pieces of `piece` rows each.

    The slice lies within one tile, or, if it `straddles`, half in one tile and half in the next.
    """

    piece: int
    straddles: bool = False


def cut_of(start: SSAValue, size: int, held: int, tile: int) -> Cut | None:
    """The cut of a dimension of `held` rows by a slice of `size` rows from `start`.

    None if its tiles stay whole, or if one stride cannot describe the rows of the slice.
    """
    first = constant_of(start)
    if _stays_whole(start, size, held, tile) or size <= 0:
        return None
    if size == 1:
        return Cut(1)
    if first is None:
        fits = size <= tile and tile % size == 0 and remainder(start, size) == 0
        return Cut(size) if fits else None
    if first % tile + size <= tile:
        return Cut(gcd(first % tile, size, tile))
    half = size // 2
    if size % 2 == 0 and tile % half == 0 and first % tile == tile - half:
        return Cut(half, straddles=True)
    return None


def _stays_whole(start: SSAValue, size: int, held: int, tile: int) -> bool:
    """Whether a slice of a dimension takes whole tiles, or all of the dimension."""
    return (size == held and constant_of(start) == 0) or (
        size % tile == 0 and remainder(start, tile) == 0
    )


def last_cut(op: tpu.MemrefSliceOp, tile: Sequence[int]) -> int | None:
    """The last dimension, other than the lanes, along which the slice `op` cuts tiles.

    `tile` has the tile's size in each dimension. None if it cuts none, -1 if no layout describes
    the slice.
    """
    shape, sizes = op.mem_ref.type.get_shape(), op.result.type.get_shape()
    bounds = list(zip(op.base_idx, sizes, shape, tile, strict=True))[:-1]
    cuts = [cut_of(*bound) for bound in bounds]
    last = max((dim for dim, bound in enumerate(bounds) if not _stays_whole(*bound)), default=None)
    if last is None:
        return None
    for dim, bound in enumerate(bounds[: last + 1]):
        _, size, held, rows = bound
        cut = cuts[dim]
        # In one tile, all rows of a dimension have the same distance.
        one_tile = rows > 1 and (
            (cut is None and held == rows) or (_stays_whole(*bound) and size == rows)
        )
        # In two tiles, that holds for one row of each.
        apart = cut and (dim == last or not cut.straddles or cut.piece == 1)
        if not (one_tile or rows == 1 or apart):
            return -1
    return last


def slice_folded_tiles(op: tpu.MemrefSliceOp, tiling: Tiling) -> SSAValue | None:
    """Replaces `op`, a slice of a ref of words in tiles of more than two dimensions, by slices of
    whole tiles.

    None if it already consists of whole tiles, or if there is no layout for it.
    """
    shape = op.mem_ref.type.get_shape()
    tile = [tiling.tile_of(dim) for dim in range(len(shape))]
    last = last_cut(op, tile)
    if last is None or last < 0:
        return None
    return _Part(op, tiling, tile, last).rewrite()


class _Part(Pieces):
    """A slice that cuts tiles of the sizes `tile` in dimensions up to `last`, under rewriting."""

    def __init__(
        self, op: tpu.MemrefSliceOp, tiling: Tiling, tile: Sequence[int], last: int
    ) -> None:
        super().__init__(op)
        self._tiling, self._tile, self._last = tiling, tile, last
        self._shape: list[int] = []
        self._strides: list[int] = []
        self._starts: list[SSAValue] = []
        self._sizes: list[int] = []

    def rewrite(self) -> SSAValue:
        """Replaces the operation by a slice of the array viewed in smaller tiles."""
        op, tile, last, kind = self._op, self._tile, self._last, self._op.result.type
        shape, sizes = op.mem_ref.type.get_shape(), kind.get_shape()
        cut = cut_of(op.base_idx[last], sizes[last], shape[last], tile[last])
        assert cut is not None
        left = (cut.piece, *tile[last + 1 :])
        factor = prod(tile) // prod(left)
        for dim, start in enumerate(op.base_idx):
            apart = self._tiling.strides[dim] * factor
            if dim > last or tile[dim] == 1 or shape[dim] == tile[dim] == sizes[dim]:
                inner = apart if dim > last or tile[dim] == 1 else self._inner(dim, left)
                self._add(shape[dim], inner, start, sizes[dim])
            else:
                self._cut(dim, apart, left, self._cut_before(dim, start, sizes[dim], cut))
        while len(left) > 2 and left[0] == 1:
            left = left[1:]
        split = Tiling((left,), tuple(self._strides))
        array = self.array(self._shape, split)
        return self.replace(array, split, self._starts, self._sizes)

    def _cut_before(self, dim: int, start: SSAValue, size: int, last: Cut) -> Cut:
        """The cut of `dim`; dimensions before the last one are cut into single rows."""
        if dim == self._last:
            return last
        cut = cut_of(start, size, self._op.mem_ref.type.get_shape()[dim], self._tile[dim])
        return Cut(1, cut is not None and cut.straddles)

    def _inner(self, dim: int, left: Sequence[int]) -> int:
        """The stride within a tile, in units of the smaller tile, of the rows of `dim`, or of its
        pieces if it is the last one."""
        return prod(self._tile[dim + 1 :]) // prod(left) if dim < self._last else 1

    def _cut(self, dim: int, apart: int, left: Sequence[int], cut: Cut) -> None:
        """Adds the dimensions that replace `dim`: the number of the tile, and the row or piece
        within it.

        `apart` is the stride from tile to tile.
        """
        start, size = self._op.base_idx[dim], self._op.result.type.get_shape()[dim]
        tile, inner = self._tile[dim], self._inner(dim, left)
        count = -(-self._op.mem_ref.type.get_shape()[dim] // tile)
        rows = self.number(tile)
        number = self.emit(arith.DivUIOp(start, rows))
        if cut.straddles:
            pieces = tile // cut.piece
            self._add(count - 1, apart, number, 1)
            self._add(pieces, inner, self.number(pieces - 1), 1)
            self._add(size, apart - (pieces - 1) * inner, self.number(0), size)
        else:
            self._add(count, apart, number, 1)
            within = self.emit(arith.RemUIOp(start, rows))
            if cut.piece > 1 and constant_of(start) is None:
                # This is true, but the TPU compiler does not follow remainders.
                within = self.emit(tpu.AssumeMultipleOp.of(within, cut.piece))
            self._add(tile, inner, within, size)

    def _add(self, extent: int, stride: int, start: SSAValue, size: int) -> None:
        """Adds a dimension of the view, and what the slice takes of it."""
        self._shape.append(extent)
        self._strides.append(stride)
        self._starts.append(start)
        self._sizes.append(size)
