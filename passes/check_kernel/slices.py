"""Refuses slices of refs for which the TPU compiler has no layout.

An array lies in memory as tiles of rows by 128 lanes. A slice is a legal ref, for a DMA or a load,
if

* it consists of whole tiles;
* it lies within one tile;
* it is the end of one tile and as many rows of the next; or
* its tiles can be made smaller, because the tiles of the array are adjacent in memory.

Words of packed rows are never cut, except by the end of the array (asked of libtpu 0.0.51 about
some 2,500 slices). Sizes known only at run time must be multiples of tiles, or of eight rows. Our
own lowering moves any rectangle, so `--allow-beyond-reference` lifts these refusals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import SSAValue

from pallasite.diagnostics import Unsupported
from pallasite.dialects import tpu
from pallasite.dialects.locations import refusal
from pallasite.dialects.promises import multiples
from pallasite.dialects.types import bit_width, memory_space
from pallasite.dialects.viewed import PARTS, viewed
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.accesses import ACCESSES, base_of
from pallasite.passes.check_kernel.viewed_array import Array, array_of, tiling_in_shape
from pallasite.passes.divisibility import constant_of, remainder
from pallasite.passes.infer_memref_layout.parts_of_folded_tiles import last_cut
from pallasite.targets import Target


def slice_rule(op: tpu.MemrefSliceOp, target: Target) -> None:
    """Raises `Unsupported` if the TPU compiler has no layout for the slice."""
    if (tile := _folded_tile(op.mem_ref, target)) is not None:
        _check_folded(op, tile)
        return
    array = array_of(op.mem_ref, target)
    if array is None:
        return
    if _takes_any_scalar(op, array):
        return
    amounts = iter(op.dynamic_sizes)
    for dim, (start, size) in enumerate(zip(op.base_idx, op.result.type.get_shape(), strict=True)):
        amount = next(amounts) if size == DYNAMIC_INDEX else None
        held = op.mem_ref.type.get_shape()[dim]
        back = len(array.type.get_shape()) - array.dims[dim]
        if back > 2 or held == DYNAMIC_INDEX or (size == held and constant_of(start) == 0):
            continue
        cut = _Cut(start, size, held)
        tile, step = _tile_along(array, cut, lanes=back == 1)
        if amount is not None:
            unit = step if back == 1 else min(step, max(SUBLANES, packing(bit_width(array.type))))
            # A promise holds for transfers, whatever the number is: they round it up.
            tiles = multiples(op).get(dim, 1) % unit == 0 or remainder(amount, unit) == 0
            fits = tiles and remainder(start, step) == 0
        elif back == 1:
            fits = _lanes_fit(op, array, cut, tile)
        else:
            fits = _rows_of_slice_fit(op, array, cut, step)
        if not fits:
            raise _refused(op, dim, tile, "lanes" if back == 1 else "rows")


@dataclass(frozen=True)
class _Cut:
    """What a slice takes of one dimension: `size` of `held` elements, from `start` on."""

    start: SSAValue
    size: int
    held: int

    def has_whole_tiles(self, tile: int, unit: int, *, ends: bool = True) -> bool:
        """Whether the slice begins at a tile, and its size is a multiple of `unit`, or the whole
        dimension, or, with `ends`, all that is left of it."""
        if remainder(self.start, tile) != 0:
            return False
        if self.size % unit == 0 or self.size == self.held:
            return True
        return ends and constant_of(self.start) == self.held - self.size

    def is_within(self, tile: int) -> bool:
        """Whether the slice certainly lies within one tile."""
        first = constant_of(self.start)
        return first is not None and first % tile + self.size <= tile

    def is_in_halves(self, tile: int, per_word: int) -> bool:
        """Whether a slice whose size divides a tile is known to lie half in one tile and half in
        the next, or begins at a multiple of its size known only at run time."""
        if self.size > tile or tile % self.size:
            return False
        first = constant_of(self.start)
        if first is None:
            return remainder(self.start, self.size) == 0
        return self.size % (2 * per_word) == 0 and first % (self.size // 2) == 0


def _takes_any_scalar(op: tpu.MemrefSliceOp, array: Array) -> bool:
    """Whether only scalar words are read from the slice, of an array in which they lie in order."""
    whole = array.type.get_shape()
    in_order = len(whole) < 2 or whole[-1] <= LANES
    return in_order and packing(bit_width(array.type)) == 1 and _only_scalars(op, array)


def _tile_along(array: Array, cut: _Cut, *, lanes: bool) -> tuple[int, int]:
    """The size of a tile along the lanes, or rows, that `cut` is of, and what a slice of a size
    known at run time must be a multiple of."""
    per_word, whole = packing(bit_width(array.type)), array.type.get_shape()
    if lanes:
        size = LANES if len(whole) > 1 else LANES * per_word
        return size, size
    # One tile, and tiles that follow each other in memory, are cut between words.
    adjacent = whole[-1] <= LANES or cut.held <= array.tile
    return array.tile, per_word if adjacent else array.tile


def _lanes_fit(op: tpu.MemrefSliceOp, array: Array, cut: _Cut, tile: int) -> bool:
    """Whether the lanes of a slice have a layout."""
    whole, scalars = array.type.get_shape(), _only_scalars(op, array)
    if scalars and len(whole) > 1 and whole[-1] <= LANES:
        # Narrow scalars of one column of tiles are parts of words, which lie anywhere.
        return True
    return cut.has_whole_tiles(tile, tile) or (scalars and _in_one_tile(op, array, cut))


def _rows_of_slice_fit(op: tpu.MemrefSliceOp, array: Array, cut: _Cut, step: int) -> bool:
    """Whether the rows of a slice have a layout."""
    whole, per_word, tile = array.type.get_shape(), packing(bit_width(array.type)), array.tile
    one_column, scalars = whole[-1] <= LANES, _only_scalars(op, array)
    if scalars and len(whole) > 1 and one_column:
        return cut.has_whole_tiles(per_word, per_word)
    ragged = _cuts_a_column_of_tiles(op, array) and (per_word > 1 or not one_column)
    if ragged and not scalars:
        return cut.has_whole_tiles(tile, min(tile, SUBLANES), ends=False)
    return _rows_fit(cut, tile, step, per_word) and not _ends_in_small_tile(op, cut, tile)


def slice_offset_rule(op: tpu.MemrefSliceOp, target: Target) -> None:
    """Refuses slices that begin within a register along the lanes, if no pass can rewrite their
    accesses as accesses to the array: strided ones, and those of a bitcast.

    Other accesses are rewritten by `infer_memref_layout/vectors_of_parts.py`.
    """
    kind, start = op.mem_ref.type, constant_of(op.base_idx[-1])
    if start is None or start % LANES == 0 or memory_space(kind) not in ("vmem", None):
        return
    if len(kind.get_shape()) > 1 and _is_accessed_otherwise(op.result):
        raise _refused(op, len(kind.get_shape()) - 1, LANES, "lanes")


def _is_accessed_otherwise(part: SSAValue, *, seen_anew: bool = False) -> bool:
    """Whether `part`, or a view of it, has accesses that cannot be rewritten; `seen_anew` says that
    a bitcast or reshape lies between."""
    for use in part.uses:
        op = use.operation
        if isinstance(op, ACCESSES):
            strided = isinstance(op, tpu.StridedLoadOp | tpu.StridedStoreOp)
            if base_of(op) is part and (seen_anew or strided):
                return True
        elif op.results and isinstance(op.results[0].type, MemRefType):
            anew = seen_anew or not isinstance(op, PARTS)
            if _is_accessed_otherwise(op.results[0], seen_anew=anew):
                return True
    return False


def _in_one_tile(op: tpu.MemrefSliceOp, array: Array, lanes: _Cut) -> bool:
    """Whether some lanes of one row of tiles of SMEM lie in one tile, or half in one tile and half
    in the next.

    In arrays of one row of words the tiles are adjacent, and any part is legal.
    """
    rank = len(array.type.get_shape())
    if rank < 2:
        return False
    if array.type.get_shape()[-2] <= packing(bit_width(array.type)):
        return True
    for dim, first, size in zip(array.dims, op.base_idx, op.result.type.get_shape(), strict=True):
        known, tile = constant_of(first) or 0, array.tile
        if dim != rank - 2 or known % tile + size <= tile:
            continue
        # Halves that are single rows of words are as good.
        if size > tile or gcd(known, size, tile) > packing(bit_width(array.type)):
            return False
    return lanes.is_within(LANES) or lanes.is_in_halves(LANES, 1)


def _folded_tile(view: SSAValue, target: Target) -> tuple[int, ...] | None:
    """The sizes of a tile in each dimension of `view`, if it is a reshape of a whole, wide array of
    words that spreads the rows of a tile over several dimensions; else None."""
    op = view.owner
    if not isinstance(op, tpu.MemrefReshapeOp) or bit_width(op.result.type) != 32:
        return None
    array, new = array_of(op.input, target), op.result.type.get_shape()
    old = op.input.type.get_shape()
    if array is None or array.type.get_shape() != old or min(len(old), len(new)) < 2:
        return None
    if old[-1] <= LANES or DYNAMIC_INDEX in (*old, *new):
        return None
    folded = tiling_in_shape(array, new)
    if folded is None or len(folded.first) < 3:
        return None
    return tuple(folded.tile_of(dim) for dim in range(len(new)))


def _check_folded(op: tpu.MemrefSliceOp, tile: tuple[int, ...]) -> None:
    """Raises `Unsupported` unless the rows of the slice have one stride per dimension."""
    if last_cut(op, tile) == -1:
        cut = [dim for dim, rows in enumerate(tile[:-1]) if rows > 1]
        sizes, held = op.result.type.get_shape(), op.mem_ref.type.get_shape()
        dim = next((dim for dim in reversed(cut) if sizes[dim] != held[dim]), cut[-1])
        raise _refused(op, dim, tile[dim], "rows")
    last = len(tile) - 1
    cut = _Cut(op.base_idx[-1], op.result.type.get_shape()[last], op.mem_ref.type.get_shape()[last])
    whole = cut.size == cut.held and constant_of(cut.start) == 0
    if not whole and not cut.has_whole_tiles(LANES, LANES):
        raise _refused(op, last, LANES, "lanes")


def _cuts_a_column_of_tiles(op: tpu.MemrefSliceOp, array: Array) -> bool:
    """Whether the slice has all lanes of an array that ends within a column of tiles, and begins at
    an index known only at run time.

    Its rows must be whole tiles then, or whole parts of the last one (asked of libtpu 0.0.51 for
    v5e and v6e). This does not matter for 32-bit arrays of one column of tiles.
    """
    if len(array.type.get_shape()) < 2 or array.dims[-1:] != (len(array.type.get_shape()) - 1,):
        return False
    size, start = op.result.type.get_shape()[-1], op.base_idx[-1]
    return size > 0 and size % LANES != 0 and constant_of(start) is None


def _only_scalars(op: tpu.MemrefSliceOp, array: Array) -> bool:
    """Whether the slice is in SMEM and only scalars are read from it."""
    if memory_space(array.type) != "smem":
        return False
    seen: list[SSAValue] = [op.result]
    for view in seen:
        for use in view.uses:
            if isinstance(use.operation, tpu.EnqueueDmaOp):
                return False
            seen += [r for r in use.operation.results if isinstance(r.type, MemRefType)]
    return True


def _rows_fit(cut: _Cut, tile: int, step: int, per_word: int) -> bool:
    if cut.has_whole_tiles(tile, min(tile, SUBLANES)):
        return True
    first = constant_of(cut.start)
    if first is not None and first + cut.size == cut.held:
        # What is left of the last word is padding.
        cut = replace(cut, size=cut.size + -cut.size % per_word)
    if cut.size % per_word or remainder(cut.start, per_word) != 0:
        return False
    return step == per_word or cut.is_within(tile) or cut.is_in_halves(tile, per_word)


def _ends_in_small_tile(op: tpu.MemrefSliceOp, cut: _Cut, tile: int) -> bool:
    """Whether a slice of a ref that was bitcast to narrower elements begins at a tile and ends,
    after eight or more rows, within a tile that is neither eight rows nor a whole register, as
    bitcasts of 16-bit rows to bytes have.

    The compiler makes no smaller tiles for these, except where the slice does not start at the
    first row of a tile, or has fewer rows.
    """
    array = viewed(op.mem_ref, *PARTS, tpu.MemrefReshapeOp)
    if not isinstance(array.owner, tpu.MemrefBitcastOp):
        return False
    small = SUBLANES < tile < SUBLANES * packing(bit_width(op.mem_ref.type))
    begins = remainder(cut.start, tile) == 0
    return small and begins and cut.size % SUBLANES == 0 and cut.size % tile != 0


def _refused(op: tpu.MemrefSliceOp, dim: int, tile: int, what: str) -> Unsupported:
    held, size = op.mem_ref.type.get_shape()[dim], op.result.type.get_shape()[dim]
    start = constant_of(op.base_idx[dim])
    where = "at a place known at run time" if start is None else f"from {start}"
    many = "a number known at run time" if size == DYNAMIC_INDEX else str(size)
    *leading, columns = op.mem_ref.type.get_shape()
    apart = [*leading, 1, columns]
    space = memory_space(op.mem_ref.type)
    if space == "smem":
        instead = "or read single numbers where they are: ref[index]"
    else:
        taken = "load" if space in ("vmem", None) else "copy"
        instead = f"or {taken} the tiles and " + (
            "slice the value" if start is not None else "rotate the value: pltpu.roll"
        )
    if what == "rows":
        own = f"reshaped to {apart}, any of them are sliced"
        more = f"or pass the array with rows in tiles of their own: {own}"
    else:
        more = _as_rows(op, dim)
    return refusal(
        op, "unaligned-slice",
        f"the TPU compiler cannot slice {many} of {held} {what} {where} (dimension {dim} of "
        f"{op.mem_ref.type})",
        f"the array lies in tiles of {tile} {what}, which a slice takes whole or keeps within",
        *([f"if index and size are multiples of {tile}, say so: pl.multiple_of(index, {tile})"]
          if start is None or size == DYNAMIC_INDEX else []),
        f"slice whole multiples of {tile} at multiples of {tile}, {instead}",
        *([more] if more else []),
    )  # fmt: skip


def _as_rows(op: tpu.MemrefSliceOp, dim: int) -> str:
    """How scalar memory holds parts of rows so that any is copied, if it can."""
    kind, size = op.mem_ref.type, op.result.type.get_shape()[dim]
    *leading, held = kind.get_shape()
    words = memory_space(kind) == "smem" and packing(bit_width(kind)) == 1
    if not words or size == DYNAMIC_INDEX or held % size:
        return ""
    shape = [*leading, held // size, size]
    return f"or keep each part in a row of its own: of {shape}, any is copied, ref.at[index]"
