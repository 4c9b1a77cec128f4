"""Parts of refs that the TPU compiler has no layout for.

An array lies in memory as tiles of rows by 128 lanes. A part of it is a ref of its own, for
a DMA or a load, if it is whole tiles, if it lies within a tile, if it is the end of one and as much
of the next, or if tiles may be made smaller because they follow each other in memory; words of
packed rows are never cut, but by the end of the array (asked of libtpu 0.0.51 about some 2,500
slices). Sizes known at run time are multiples of tiles, or of eight rows. We move any rectangle:
`--allow-beyond-reference` lifts these refusals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import SSAValue

from pallasite.diagnostics import Unsupported
from pallasite.dialects import tpu, vector
from pallasite.dialects.types import AnyMemRef, bit_width, memory_space, memref_of, tiling_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.layouts.tiling import Tiling, contiguous_strides, refolded
from pallasite.passes.accesses import accessed_shape
from pallasite.passes.check_kernel.vectors import refusal
from pallasite.passes.divisibility import constant_of, remainder
from pallasite.passes.infer_memref_layout.parts_of_folded_tiles import last_cut
from pallasite.passes.reference_tiles import rows_of_tiles
from pallasite.targets import Target

_TILED = ("any", "hbm", "vmem", "smem")


@dataclass(frozen=True)
class Array:
    """The array a view is of, and which of its dimensions each dimension of the view is."""

    type: AnyMemRef
    dims: tuple[int, ...]
    tile: int
    """Rows of a tile, as words of the array's present type are counted."""


def slice_rule(op: tpu.MemrefSliceOp, target: Target) -> None:
    """Raises `Unsupported` where the TPU compiler has no layout for the part."""
    if (tile := _folded_tile(op.mem_ref, target)) is not None:
        _check_folded(op, tile)
        return
    array = array_of(op.mem_ref, target)
    if array is None:
        return
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
            fits = remainder(start, step) == 0 == remainder(amount, unit)
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
        if not fits:
            raise _refused(op, dim, tile, "lanes" if lanes else "rows")


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
    folded = _folded(array, new)
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


def load_rule(op: vector.LoadOp | tpu.VectorLoadOp, target: Target) -> None:
    """Raises `Unsupported` for rows of a view whose columns of tiles do not follow each other.

    `ref.at[:, 3, :]` of a wide array has one row of each tile; the TPU compiler loads single rows
    of it, and stores any.
    """
    view = op.base
    array, shape = array_of(view, target), cast(AnyMemRef, view.type).get_shape()
    loaded = accessed_shape(op)
    if array is None or len(shape) < 2:
        return
    whole = array.type.get_shape()
    dropped = array.dims[-2] != len(whole) - 2 and array.dims[-1] == len(whole) - 1
    tile = array.tile
    if dropped and tile > 1 and shape[-1] > LANES and loaded[-2] > 1:
        raise refusal(
            op, "unaligned-slice",
            f"the TPU compiler cannot load {loaded[-2]} rows of {view.type}, a view that has one "
            f"row of each tile of {tile} rows of {array.type}",
            f"the view's rows have {shape[-1]} lanes, whose tiles do not follow each other",
            f"load the array itself and index its value, or take views of up to {LANES} lanes",
        )  # fmt: skip


def part_of_tile_rule(
    op: vector.LoadOp | tpu.VectorLoadOp | vector.StoreOp | tpu.VectorStoreOp, target: Target
) -> None:
    """Raises `Unsupported` for accesses to a view of some rows of a tile, or of two neighbours, of
    a wide array.

    The columns of such a view do not follow each other in memory; of words, single rows are found,
    and of the first rows of a tile multiples of eight (asked of libtpu 0.0.51 for v5e and v6e).
    """
    view = op.base
    owner = view.owner
    while isinstance(owner, tpu.MemrefSliceOp | tpu.MemrefSqueezeOp):
        source = owner.operands[0]
        if cast(AnyMemRef, source.type).get_shape()[-2:-1] != owner.result.type.get_shape()[-2:-1]:
            break
        owner = source.owner
    if not isinstance(owner, tpu.MemrefSliceOp):
        return
    array, shape = array_of(owner.mem_ref, target), owner.result.type.get_shape()
    if array is None or len(shape) < 2 or array.dims[-2:] != _last_two(array.type):
        return
    held, rows = owner.mem_ref.type.get_shape()[-2], shape[-2]
    accessed = accessed_shape(op)
    columns = cast(AnyMemRef, view.type).get_shape()[-1]
    if rows in (held, DYNAMIC_INDEX) or columns <= LANES:
        return
    many = rows % SUBLANES == 0 or rows >= array.tile
    if many and remainder(owner.base_idx[-2], array.tile) == 0:
        return
    if len(accessed) > 1 and (accessed[-2] > 1 or packing(bit_width(array.type)) > 1):
        raise refusal(
            op, "unaligned-slice",
            f"the TPU compiler cannot access {view.type}, a view of {rows} rows of tiles of "
            f"{array.tile} rows of {array.type}",
            f"the view's rows have {columns} lanes, whose tiles do not follow each other",
            "index the array itself, once: ref[rows, columns] and not ref.at[rows][:, columns]",
        )  # fmt: skip


def _last_two(array: AnyMemRef) -> tuple[int, int]:
    rank = len(array.get_shape())
    return rank - 2, rank - 1


def array_of(view: SSAValue, target: Target) -> Array | None:
    """What `view` is a part of; None for memories without tiles and for other ways to see them."""
    owner = view.owner
    if isinstance(owner, tpu.MemrefSliceOp):
        return array_of(owner.mem_ref, target)
    if isinstance(owner, tpu.MemrefSqueezeOp):
        array = array_of(owner.input, target)
        kept = _kept(owner.input.type.get_shape(), owner.result.type.get_shape())
        if array is None or kept is None:
            return None
        return replace(array, dims=tuple(array.dims[dim] for dim in kept))
    kind = view.type
    if isinstance(owner, tpu.MemrefBitcastOp):
        return _as_other_type(array_of(owner.input, target), owner.result.type)
    if isinstance(owner, tpu.MemrefReshapeOp):
        return _reshaped(array_of(owner.input, target), owner)
    if not isinstance(kind, MemRefType):
        return None
    if memory_space(kind) not in _TILED or tiling_of(kind) is not None or not kind.get_shape():
        return None
    shape = kind.get_shape()
    tile = rows_of_tiles(view, target) if len(shape) > 1 else 1
    return Array(kind, tuple(range(len(shape))), tile)


def _as_other_type(array: Array | None, view: AnyMemRef) -> Array | None:
    """The array seen as elements of another width: its tiles keep their words."""
    if array is None or len(array.type.get_shape()) < 2:
        return None
    old, new = bit_width(array.type), bit_width(view)
    *leading, rows, lanes = array.type.get_shape()
    kind = memref_of(
        view.element_type, (*leading, rows * old // new, lanes), array.type.memory_space
    )
    return replace(array, type=kind, tile=array.tile * old // new)


def _reshaped(array: Array | None, op: tpu.MemrefReshapeOp) -> Array | None:
    """A whole array of packed or wide rows in another shape: its tiles stay, with all lanes."""
    old, new = op.input.type.get_shape(), op.result.type.get_shape()
    if array is None or array.type.get_shape() != old or min(len(old), len(new)) < 2:
        return None
    if old[-1] != new[-1] or DYNAMIC_INDEX in (*old, *new):
        return None
    tile = array.tile
    if packing(bit_width(op.result.type)) == 1:
        if old[-1] <= LANES:
            # Rows of one column of tiles follow each other.
            return replace(array, type=op.result.type, dims=tuple(range(len(new))), tile=1)
        folded = _folded(array, new)
        if folded is None or len(folded.first) > 2:
            return None
        tile = folded.tile_of(len(new) - 2)
    return replace(array, type=op.result.type, dims=tuple(range(len(new))), tile=tile)


def _folded(array: Array, shape: tuple[int, ...]) -> Tiling | None:
    """The tiling of `array`, of words, seen in another shape."""
    old, tile = array.type.get_shape(), (array.tile, LANES)
    return refolded(Tiling((tile,), contiguous_strides(old, tile)), old, shape)


def _kept(old: tuple[int, ...], new: tuple[int, ...]) -> list[int] | None:
    """The dimensions that a squeeze keeps, from the last one; None if that is not all."""
    kept: list[int] = []
    left = list(new)
    for dim in reversed(range(len(old))):
        if left and old[dim] == left[-1]:
            left.pop()
            kept.insert(0, dim)
        elif old[dim] != 1:
            return None
    return None if left else kept


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
