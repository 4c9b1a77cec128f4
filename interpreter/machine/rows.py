"""Accesses by registers: `tpu.load`, `tpu.store` and the like (spec/vreg_lowering.md 7.3, 10.4).

A register is addressed by physical rows of 128 words: sublane s of a register holds row `row(index)
+ offsets[s]`. Sublanes that are masked off touch nothing, so `row(index)` itself may be negative; a
load fills them with poison. A grid of registers reads the register at grid position g from
`index[d] + g[d] * steps[d]` in each dimension d. Rows in the padding of the buffer's tiles may be
accessed.

A loaded grid has the shape (grid..., 8, 128), or (grid..., 8, 128, packing) for elements narrower
than words. In memory its elements lie in the order of the logical matrix (design note "Form 4",
3.3): rows of the array are contiguous, whatever its shape says.

`plan` splits an access into strided views (`Registers`); `read`, `write` and `initialised` use such
a plan. Plans are cached, since the same accesses recur in every iteration.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pallasite.diagnostics import ExecutionError, Note, SourceLocation
from pallasite.dialects.registers import Box
from pallasite.interpreter import values
from pallasite.interpreter.machine import boxes
from pallasite.interpreter.machine.boxes import Digits, Piece
from pallasite.interpreter.machine.codec import raw_codec, view
from pallasite.interpreter.machine.faults import negative, outside
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.values import Array
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.layouts.tiling import offset_of

ALL = (True,) * SUBLANES
CONSECUTIVE = tuple(range(SUBLANES))


class Registers(NamedTuple):
    """The strided views of a register access; element offsets count from the ref's base."""

    pieces: tuple[Piece, ...]
    lowest: int
    highest: int
    """The first element that is touched, and one past the last."""
    order: tuple[int, ...]
    """The axes of the (grid..., 8, 128[, packing]) value in the order of the logical matrix."""
    complete: bool
    """Whether all 8 sublanes are accessed."""


@dataclass(frozen=True, eq=False, slots=True)
class Pattern:
    """What an operation says of its registers, except the index at which they begin.

    Compared by identity, which is fast; `pattern` makes equal ones one object.
    """

    shape: tuple[int, ...]
    """The shape of all registers together: (grid..., 8, 128[, packing])."""
    steps: tuple[int, ...]
    """By how much the index grows per grid position, in each grid dimension."""
    sublanes: tuple[bool, ...]
    """Whether each of the 8 sublanes is accessed."""
    offsets: tuple[int, ...]
    """The row, in rows of 128 words after that of the index, of each sublane."""
    box: Box | None
    """The box of the ref that the kernel accesses, if that is known."""
    fixed: bool
    """Whether the index is a constant, which may leave the ref for the array around it."""
    straight: bool
    """Whether views have the axes of `shape` in order, instead of those of the logical matrix."""


@lru_cache(maxsize=1 << 12)
def pattern(
    shape: tuple[int, ...],
    steps: tuple[int, ...] = (),
    sublanes: tuple[bool, ...] = ALL,
    offsets: tuple[int, ...] = CONSECUTIVE,
    *,
    box: Box | None = None,
    fixed: bool = False,
    straight: bool = False,
) -> Pattern:
    """The pattern of these arguments; cached, so that equal ones are one object."""
    return Pattern(shape, steps, sublanes, offsets, box, fixed, straight)


def read(ref: Ref, found: Registers, shape: tuple[int, ...]) -> Array:
    """The registers of `shape` that `found` plans to load from `ref`."""
    return read_from(ref, found, shape, ref.buffer.bytes)


def read_from(ref: Ref, found: Registers, shape: tuple[int, ...], memory: Array) -> Array:
    """`read`, with `memory` as the contents of the buffer."""
    out = np.empty([shape[axis] for axis in found.order], ref.codec.carrier)
    if not found.complete:
        out[...] = values.poison(ref.element, (), ref.buffer.memory.poison)
    for piece in found.pieces:
        ref.codec.decode(memory, ref.base, piece, out if piece.part is None else out[piece.part])
    return out.transpose(inverse(found.order))


def write(ref: Ref, found: Registers, array: Array, mask: Array | None, *, add: bool) -> None:
    """Writes the registers `array` as `found` plans, where `mask` (None: everywhere) is true.

    With `add` they are added to what is there. Bits that are written are marked as initialised.
    """
    write_to(ref, found, ref.buffer.bytes, array, mask, add=add)


def write_to(
    ref: Ref, found: Registers, memory: Array, array: Array, mask: Array | None = None, *, add: bool
) -> None:
    """`write`, with `memory` as the contents of the buffer."""
    shape = array.shape
    if add:
        array = values.accumulate(ref.element, read_from(ref, found, shape, memory), array)
    ordered = array.transpose(found.order)
    where = None if mask is None else word_mask(mask, shape).transpose(found.order)
    shadow = ref.buffer.shadow
    if len(found.pieces) > 1 and np.may_share_memory(ordered, memory):
        # One piece must not change what the next one takes.
        ordered = ordered.copy()
    raw = raw_codec(ref.codec.bits)
    for piece in found.pieces:
        part: Any = ... if piece.part is None else piece.part
        chosen = None if where is None else where[part]
        ref.codec.encode(memory, ref.base, piece, ordered[part], chosen)
        if shadow is not None:
            ones = np.full(piece.shape, (1 << raw.bits) - 1, raw.carrier)
            raw.encode(shadow, ref.base, piece, ones, chosen)


def initialised(ref: Ref, found: Registers, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """For each register of a load, whether any of its elements was ever written.

    The result has the shape of the grid. It is None if all elements were written, or if nobody
    tracks that.
    """
    shadow = ref.buffer.shadow
    if shadow is None or all(marked(ref, shadow, piece) for piece in found.pieces):
        return None
    marks = marks_of(ref, found, shape, shadow)
    grid = len(shape) - (2 if ref.codec.packing == 1 else 3)
    register = tuple(range(grid, len(shape)))
    return np.asarray(marks.any(axis=register))


def marks_of(ref: Ref, found: Registers, shape: tuple[int, ...], shadow: Array) -> Array:
    """The marks of the elements of registers, as a new array of `shape`."""
    raw = raw_codec(ref.codec.bits)
    marks = np.zeros([shape[axis] for axis in found.order], raw.carrier)
    for piece in found.pieces:
        raw.decode(shadow, ref.base, piece, marks if piece.part is None else marks[piece.part])
    return marks.transpose(inverse(found.order))


def set_marks(ref: Ref, found: Registers, marks: Array, shadow: Array) -> None:
    """Sets the marks of the elements of registers, of which no two lie at the same place."""
    raw, ordered = raw_codec(ref.codec.bits), marks.transpose(found.order)
    for piece in found.pieces:
        part = ordered if piece.part is None else ordered[piece.part]
        raw.encode(shadow, ref.base, piece, part, None)


def marked(ref: Ref, shadow: NDArray[np.uint8], piece: Piece) -> bool:
    """Whether every element of a piece was written; False also where finding out would take
    long."""
    if ref.codec.bits < 8:
        return False
    return bool(view(shadow, ref.codec.mark, ref.base, piece, ref.codec.bits).all())


def word_mask(mask: Array, shape: tuple[int, ...]) -> Array:
    """`mask` broadcast to every element of `shape`.

    A mask that ends in (8, 128) covers all elements of each packed word.
    """
    if len(shape) > 2 and shape[-3:-1] == (SUBLANES, LANES) and mask.shape[-1] == LANES:
        mask = mask[..., None]
    return np.broadcast_to(mask, shape)


@lru_cache(maxsize=256)
def inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes `order`."""
    return tuple(order.index(axis) for axis in range(len(order)))


def plan(
    ref: Ref, what: str, index: Sequence[int], wanted: Pattern, at: SourceLocation | None
) -> Registers:
    """Splits a `what` (load or store) of registers at `index` into strided views.

    Raises `ExecutionError` if a register does not start at lane 0 of a sublane, if it begins
    outside the ref or touches what is outside the buffer, or if the kernel's box leaves the ref.
    """
    if ref.buffer.freed:
        ref.alive(at)
    place = ref.digits, ref.base, ref.starts, ref.shape, ref.blocks, ref.ends
    found, fault = _judged(place, tuple(index), wanted, ref.buffer.size, ref.codec.bits)
    if fault is None and found is not None:
        return found
    shape, box = wanted.shape, wanted.box
    if fault is Fault.BOX and box is not None:
        start = [int(i) + low for i, low in zip(index, box.offsets, strict=True)]
        raise outside(ref, what, start, box.sizes, None, at, box.extents)
    if fault is Fault.REF:
        raise outside(ref, f"register {what}", index, shape, None, at)
    if found is None:
        raise ExecutionError(
            "unaligned-register-access",
            f"register {what} at {[int(i) for i in index]} of memref of shape {list(ref.shape)} "
            f"does not start at lane 0 of a sublane",
            at,
            [Note("registers are loaded in whole sublanes of 128 words; shift with a rotate")],
        )
    row = LANES * ref.codec.packing
    low, high = ref.base + found.lowest, ref.base + found.highest
    raise ExecutionError(
        "out-of-bounds",
        f"register {what} of {list(shape)} at {[int(i) for i in index]} touches sublanes "
        f"{low // row} to {high // row - 1} of {ref.buffer.name or 'a buffer'}, which has "
        f"{ref.buffer.size // 512}",
        at,
        negative(index),
    )


class Fault(Enum):
    """Why a register access is not allowed."""

    BOX = "the box that the kernel accesses reaches out of its ref"
    ALIGNMENT = "it does not start at lane 0"
    REF = "it begins outside of the ref"
    BUFFER = "it touches what is not of the buffer"


_Place = tuple[
    tuple[Digits, ...], int, tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]
]
"""The fields of a ref that decide an access: digits, base, starts, shape, blocks and ends."""


@lru_cache(maxsize=1 << 14)
def _judged(
    place: _Place, index: tuple[int, ...], wanted: Pattern, size: int, bits: int
) -> tuple[Registers | None, Fault | None]:
    """How an access to a buffer of `size` bytes splits, and what is wrong with it, if anything
    is."""
    digits, base, first, extents, blocks, ends = place
    if wanted.box is not None and wanted.box.leaves(index):
        return None, Fault.BOX
    starts = tuple(a + int(b) for a, b in zip(first, index, strict=True))
    per_word = packing(bits)
    found = registers(digits, starts, wanted, per_word)
    if found is None or base % (LANES * per_word):
        return None, Fault.ALIGNMENT
    if not found.pieces:
        return found, None
    if wanted.fixed:
        extents = tuple(end - start for end, start in zip(ends, first, strict=True))
    counted = tuple(any(stride for _, stride in dim) for dim in digits)
    if _leaves(index, extents, first, blocks, counted, wanted, per_word):
        return found, Fault.REF
    if base + found.lowest < 0 or (base + found.highest) * bits > size * 8:
        return found, Fault.BUFFER
    return found, None


def _leaves(
    index: Sequence[int],
    extents: Sequence[int],
    starts: Sequence[int],
    blocks: Sequence[int],
    counted: Sequence[bool],
    wanted: Pattern,
    packing: int,
) -> bool:
    """Whether registers begin beyond the last tile of a dimension, or before the first.

    What lies there belongs to others: a neighbouring row, or another block of the same buffer. The
    sublanes of a register may be rows of any dimension, so for them it is only checked that they
    lie in the buffer. In the dimension of rows, registers may begin before the rows that they hold,
    as long as the first sublane is masked off. That needs a `counted` dimension: in one that is
    not, such as one of a single row, an index moves nothing.

    The passes of Mosaic in C++ slice too small a part of an array for a box that begins within a
    tile, and address its last registers by constants. Those accesses are judged by the extents of
    the array instead of the ref's (`Pattern.fixed`).
    """
    grid, steps = _grid(wanted.shape, packing), wanted.steps
    for d, (extent, block, start) in enumerate(zip(extents, blocks, index, strict=True)):
        last = int(start) + (max(grid[d] - 1, 0) * steps[d] if d < len(grid) else 0)
        inner = starts[d] % block
        rows = d == len(extents) - 2 and counted[d]
        before = start < -inner and (not rows or wanted.sublanes[0])
        if before or last >= -(-(inner + extent) // block) * block - inner:
            return True
    return False


def _grid(shape: tuple[int, ...], packing: int) -> tuple[int, ...]:
    """The leading part of a shape (grid..., 8, 128[, packing]) that counts registers."""
    return shape[: -2 if packing == 1 else -3]


def registers(
    digits: tuple[Digits, ...], starts: tuple[int, ...], wanted: Pattern, packing: int
) -> Registers | None:
    """How a register access splits into strided views; None if a register does not start on lane 0.

    `digits` and `starts` describe the dimensions of the ref, `packing` is elements per word. Grid
    dimensions and sublanes are cut into arithmetic progressions of offsets; each combination of
    those is one view.
    """
    row = LANES * packing
    shape, steps = wanted.shape, wanted.steps
    grid = _grid(shape, packing)
    origin = sum(offset_of(d, s) for d, s in zip(digits, starts, strict=True))
    if origin % row:
        return None
    runs: list[list[tuple[int, int, int, int]]] = []
    for d, extent in enumerate(grid):
        here = offset_of(digits[d], starts[d])
        moved = [offset_of(digits[d], starts[d] + g * steps[d]) - here for g in range(extent)]
        if any(m % row for m in moved):
            return None
        runs.append(_progressions(list(enumerate(moved))))
    rows = [(s, wanted.offsets[s] * row) for s, valid in enumerate(wanted.sublanes) if valid]
    order = tuple(range(len(shape))) if wanted.straight else matrix_order(len(grid), packing > 1)
    pieces: list[Piece] = []
    for combination in itertools.product(*runs, _progressions(rows)):
        *blocks, sublane = combination
        extents = [*((first, count) for first, count, _, _ in combination), (0, LANES)]
        strides = [*(stride for *_, stride in combination), packing]
        if packing > 1:
            extents.append((0, packing))
            strides.append(1)
        base = origin + sublane[2] + sum(block[2] for block in blocks)
        part = tuple(slice(extents[a][0], extents[a][0] + extents[a][1]) for a in order)
        view = tuple(extents[a][1] for a in order)
        whole = all(shape[axis] == count for axis, count in zip(order, view, strict=True))
        pair = order.index(len(shape) - 1) if packing > 1 else -1
        pieces.append(
            Piece(None if whole else part, view, base, tuple(strides[a] for a in order), pair)
        )
    low, high = boxes.span(pieces)
    return Registers(tuple(pieces), low, high, order, len(rows) == SUBLANES)


def matrix_order(grid: int, is_packed: bool) -> tuple[int, ...]:
    """The axes of a value of `grid` grid dimensions and registers, in the order of the logical
    matrix.

    For a grid of two dimensions and whole words it is (0, 2, 1, 3): row of registers, sublane,
    column of registers, lane.
    """
    sub, lane = grid, grid + 1
    packed = (grid + 2,) if is_packed else ()
    if grid < 2:
        return (*range(grid), sub, *packed, lane)
    return (*range(grid - 1), sub, *packed, grid - 1, lane)


def _progressions(points: list[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Cuts (position, offset) pairs into runs in arithmetic progression.

    A run is (first position, count, first offset, stride). For example offsets 0, 8, 16, 100 at
    positions 0 to 3 become (0, 3, 0, 8) and (3, 1, 100, 0).
    """
    runs: list[tuple[int, int, int, int]] = []
    for position, offset in points:
        if runs:
            first, count, base, stride = runs[-1]
            if first + count == position:
                if count == 1:
                    runs[-1] = (first, 2, base, offset - base)
                    continue
                if base + count * stride == offset:
                    runs[-1] = (first, count + 1, base, stride)
                    continue
        runs.append((position, 1, offset, 0))
    return runs
