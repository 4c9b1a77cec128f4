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
    rounded = multiples(op)
    whole, amounts = array.type.get_shape(), iter(op.dynamic_sizes)
    per_word, one_column = packing(bit_width(array.type)), whole[-1] <= LANES
    scalars = _only_scalars(op, array)
    single = scalars and per_word == 1
    if single and (len(whole) < 2 or one_column):
        return
    of_words = scalars and len(whole) > 1 and one_column
    cut = _cuts_a_column_of_tiles(op, array) and (per_word > 1 or not one_column)
    cut = cut and not scalars
    for dim, (start, size) in enumerate(zip(op.base_idx, op.result.type.get_shape(), strict=True)):
        amount = next(amounts) if size == DYNAMIC_INDEX else None
        held = op.mem_ref.type.get_shape()[dim]
        back = len(whole) - array.dims[dim]
        if back > 2 or held == DYNAMIC_INDEX or (size == held and constant_of(start) == 0):
            continue
        lanes = back == 1
        if lanes:
            tile = step = LANES if len(whole) > 1 else LANES * per_word
        else:
            tile = array.tile
            # One tile, and tiles that follow each other in memory, are cut between words.
            step = per_word if one_column or held <= tile else tile
        if amount is not None:
            unit = step if lanes else min(step, max(SUBLANES, per_word))
            # A promise holds for transfers, whatever the number is: they round it up.
            tiles = rounded.get(dim, 1) % unit == 0 or remainder(amount, unit) == 0
            fits = tiles and remainder(start, step) == 0
        elif of_words:
            # Narrow scalars of one column of tiles are parts of words, which lie anywhere.
            fits = lanes or _whole_tiles(start, size, held, per_word, per_word)
        elif lanes:
            fits = _whole_tiles(start, size, held, tile, tile)
            fits = fits or (scalars and _in_one_tile(op, array, start, size))
        elif cut:
            fits = _whole_tiles(start, size, held, tile, min(tile, SUBLANES), ends=False)
        else:
            fits = _rows_fit(start, size, held, tile, step, per_word)
            fits = fits and not _ends_in_small_tile(op, start, size, tile)
        if not fits:
            raise _refused(op, dim, tile, "lanes" if lanes else "rows")


def begun_lanes_rule(op: tpu.MemrefSliceOp, target: Target) -> None:
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


def _in_one_tile(op: tpu.MemrefSliceOp, array: Array, start: SSAValue, lanes: int) -> bool:
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
    return _within(start, lanes, LANES) or _in_halves(start, lanes, LANES, 1)


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
    start, last = op.base_idx[-1], len(tile) - 1
    size, held = op.result.type.get_shape()[last], op.mem_ref.type.get_shape()[last]
    whole = size == held and constant_of(start) == 0
    if not whole and not _whole_tiles(start, size, held, LANES, LANES):
        raise _refused(op, len(tile) - 1, LANES, "lanes")


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


def _within(start: SSAValue, size: int, tile: int) -> bool:
    """Whether the slice certainly lies within one tile."""
    first = constant_of(start)
    return first is not None and first % tile + size <= tile


def _whole_tiles(
    start: SSAValue, size: int, held: int, tile: int, unit: int, *, ends: bool = True
) -> bool:
    """Whether the slice begins at a tile, and its size is a multiple of `unit`, or the whole
    dimension, or, with `ends`, all that is left of it."""
    if remainder(start, tile) != 0:
        return False
    if size % unit == 0 or size == held:
        return True
    return ends and constant_of(start) == held - size


def _rows_fit(start: SSAValue, size: int, held: int, tile: int, step: int, per_word: int) -> bool:
    if _whole_tiles(start, size, held, tile, min(tile, SUBLANES)):
        return True
    first = constant_of(start)
    if first is not None and first + size == held:
        # What is left of the last word is padding.
        size += -size % per_word
    if size % per_word or remainder(start, per_word) != 0:
        return False
    if step == per_word:
        return True
    return (first is not None and _within(start, size, tile)) or _in_halves(
        start, size, tile, per_word
    )


def _ends_in_small_tile(op: tpu.MemrefSliceOp, start: SSAValue, size: int, tile: int) -> bool:
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
    begins = remainder(start, tile) == 0
    return small and begins and size % SUBLANES == 0 and size % tile != 0


def _in_halves(start: SSAValue, size: int, tile: int, per_word: int) -> bool:
    """Whether a slice whose size divides a tile is known to lie half in one tile and half in the
    next, or begins at a multiple of its size known only at run time."""
    if size > tile or tile % size:
        return False
    first = constant_of(start)
    if first is None:
        return remainder(start, size) == 0
    return size % (2 * per_word) == 0 and first % (size // 2) == 0


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
