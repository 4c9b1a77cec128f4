"""Parts of refs that the TPU compiler has no layout for.

An array lies in memory as tiles of rows by 128 lanes. A part of it is a ref of its own, for
a DMA or a load, if it is whole tiles, if it lies within a tile, if it is the end of one and as much
of the next, or if tiles may be made smaller because they follow each other in memory; words of
packed rows are never cut, but by the end of the array (asked of libtpu 0.0.51 about some 2,500
slices). Sizes known at run time are multiples of tiles, or of eight rows. We move any rectangle:
`--allow-beyond-reference` lifts these refusals.
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
    """Raises `Unsupported` where the TPU compiler has no layout for the part."""
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
    """Raises `Unsupported` where no step makes accesses of a part that begins within a register
    accesses of its array (`infer_memref_layout/vectors_of_parts.py`): at a distance, or as of
    another type."""
    kind, start = op.mem_ref.type, constant_of(op.base_idx[-1])
    if start is None or start % LANES == 0 or memory_space(kind) not in ("vmem", None):
        return
    if len(kind.get_shape()) > 1 and _is_accessed_otherwise(op.result):
        raise _refused(op, len(kind.get_shape()) - 1, LANES, "lanes")


def _is_accessed_otherwise(part: SSAValue, *, seen_anew: bool = False) -> bool:
    """Whether `part` is loaded or stored, but not as neighbours of the array that it is of."""
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
    """Whether a part of some lanes of scalar memory, in one row of tiles, lies in one of them, or
    half in one and half in the next.

    In arrays of one row of words, tiles lie one behind the other, and parts anywhere.
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
    """What a tile of `view` has of each dimension, if that is a whole array of words, wider than a
    tile, whose reshape spread the rows of a tile over several dimensions."""
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
    """Raises `Unsupported` unless a distance per dimension tells where the rows of the part are."""
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
    """Whether the lanes are all of an array that ends within a column of tiles, as a part that
    begins at a place known at run time: its rows are then whole tiles, or whole parts of the last
    (asked of libtpu 0.0.51 for v5e and v6e). Single columns of 32-bit tiles are no matter."""
    if len(array.type.get_shape()) < 2 or array.dims[-1:] != (len(array.type.get_shape()) - 1,):
        return False
    size, start = op.result.type.get_shape()[-1], op.base_idx[-1]
    return size > 0 and size % LANES != 0 and constant_of(start) is None


def _only_scalars(op: tpu.MemrefSliceOp, array: Array) -> bool:
    """Whether only scalars are read from the part, which lies in scalar memory."""
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
    """Whether a part is known to lie within one tile."""
    first = constant_of(start)
    return first is not None and first % tile + size <= tile


def _whole_tiles(
    start: SSAValue, size: int, held: int, tile: int, unit: int, *, ends: bool = True
) -> bool:
    """Whether a part begins with a tile and has multiples of `unit`, or all, or all that is left
    if that `ends` it."""
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
    """Whether a part of what was seen as narrower elements begins with a tile and ends, after eight
    rows or more of them, in one that is neither of eight rows nor as large as a register, as bytes
    have of half words. The compiler makes no smaller tiles of these, but where a part lies apart
    from the first row of a tile, or has fewer rows."""
    array = viewed(op.mem_ref, *PARTS, tpu.MemrefReshapeOp)
    if not isinstance(array.owner, tpu.MemrefBitcastOp):
        return False
    small = SUBLANES < tile < SUBLANES * packing(bit_width(op.mem_ref.type))
    begins = remainder(start, tile) == 0
    return small and begins and size % SUBLANES == 0 and size % tile != 0


def _in_halves(start: SSAValue, size: int, tile: int, per_word: int) -> bool:
    """Whether a part that divides a tile is known to be half in it and half in the next, or begins
    at a multiple of its size, known at run time."""
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
