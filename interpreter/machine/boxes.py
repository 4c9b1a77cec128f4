"""Address arithmetic of boxes: which bytes a rectangle of a tiled array occupies.

An array's address is a sum over its dimensions, and what one dimension adds is a mixed-radix
number (`layouts.tiling.Tiling.factors`): digits, slowest first, each with an extent and a stride.
A box is therefore cut, dimension by dimension, into runs whose digits are all complete; every
combination of runs is a `Piece`, one strided NumPy view of memory. Boxes along tile borders are one
piece, unaligned ones at most three per dimension and tile level. Pure arithmetic; nothing here
knows about buffers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pallasite.layouts.registers import LANES
from pallasite.layouts.tiling import Digits, Tiling, contiguous_strides, offset_of


class Run(NamedTuple):
    """`size` consecutive coordinates of one dimension, from position `first` of the box on.

    They lie at element offset `base`, along the axes (extent, stride).
    """

    first: int
    size: int
    base: int
    axes: tuple[tuple[int, int], ...]


class Piece(NamedTuple):
    """One strided view: `part` of the box (None: all of it), split to `shape`, at element `base`.

    `strides` are elements; `pair` is the axis whose positions share a 32-bit word, -1 without one.
    """

    part: tuple[slice, ...] | None
    shape: tuple[int, ...]
    base: int
    strides: tuple[int, ...]
    pair: int


def cut(array: NDArray[Any], piece: Piece) -> NDArray[Any]:
    """The part of an array of the box's shape that `piece` holds, split as it is."""
    part = array if piece.part is None else array[piece.part]
    return part.reshape(piece.shape)


def simplify(digits: Digits) -> Digits:
    """`digits` with neighbours that form one regular progression merged."""
    merged: list[tuple[int, int]] = []
    # A digit of one value adds nothing, and its stride means nothing.
    for extent, stride in reversed([d for d in digits if d[0] != 1] or digits[-1:]):
        if merged and merged[-1][0] * merged[-1][1] == stride:
            merged[-1] = (extent * merged[-1][0], merged[-1][1])
        else:
            merged.append((extent, stride))
    if merged[-1][0] != 0:
        # The slowest digit is unbounded, whatever was merged into it.
        merged[-1] = (0, merged[-1][1])
    return tuple(reversed(merged))


def block_of(digits: Digits) -> int:
    """How many coordinates all digits but the slowest span."""
    return math.prod(extent for extent, _ in digits[1:])


def place(
    digits: Sequence[Digits], starts: Sequence[int], shape: Sequence[int], index: Sequence[int]
) -> int | None:
    """The element offset of an index of the box of `shape` at `starts`; None if it is outside."""
    total = 0
    for dim, start, extent, i in zip(digits, starts, shape, index, strict=True):
        if not 0 <= i < extent:
            return None
        total += (start + i) * dim[0][1] if len(dim) == 1 else offset_of(dim, start + i)
    return total


def offsets_of(digits: Digits, coordinates: NDArray[np.int64]) -> NDArray[np.int64]:
    """`offset_of` for an array of coordinates."""
    total = np.zeros_like(coordinates)
    for extent, stride in reversed(digits[1:]):
        coordinates, digit = np.divmod(coordinates, extent)
        total += digit * stride
    return total + coordinates * digits[0][1]


def split(digits: Digits, start: int, size: int) -> list[Run]:
    """Coordinates start .. start+size as runs of complete digits, in order."""
    slowest = digits[0][1]
    if len(digits) == 1:
        return [Run(0, size, start * slowest, ((size, slowest),))]
    block = block_of(digits)
    head, inside = divmod(start, block)
    if inside + size <= block:
        return _shifted(split(digits[1:], inside, size), 0, head * slowest)
    runs: list[Run] = []
    first = 0
    if inside:
        first = block - inside
        runs += _shifted(split(digits[1:], inside, first), 0, head * slowest)
        head += 1
    whole = (size - first) // block
    if whole:
        axes = ((whole, slowest), *digits[1:])
        runs.append(Run(first, whole * block, head * slowest, axes))
        first += whole * block
        head += whole
    if first < size:
        runs += _shifted(split(digits[1:], 0, size - first), first, head * slowest)
    return runs


def _shifted(runs: list[Run], first: int, base: int) -> list[Run]:
    return [Run(run.first + first, run.size, run.base + base, run.axes) for run in runs]


@lru_cache(maxsize=1 << 14)
def pieces(
    digits: tuple[Digits, ...],
    starts: tuple[int, ...],
    sizes: tuple[int, ...],
    steps: tuple[int, ...] | None,
    packing: int,
) -> tuple[Piece, ...] | None:
    """The strided views that cover a box, or None if its steps do not fit any (see `gather`)."""
    if 0 in sizes:
        return ()
    runs: list[list[Run]] = []
    for d, dim in enumerate(digits):
        step = steps[d] if steps else 1
        if step == 1 or sizes[d] == 1:
            runs.append(split(dim, starts[d], sizes[d]))
        elif step == 0:
            runs.append([Run(0, sizes[d], offset_of(dim, starts[d]), ((sizes[d], 0),))])
        elif len(dim) == 1:
            stride = dim[0][1]
            runs.append([Run(0, sizes[d], starts[d] * stride, ((sizes[d], stride * step),))])
        else:
            return None
    found: list[Piece] = []
    for chosen in itertools.product(*runs):
        axes = [axis for run in chosen for axis in run.axes if axis[0] != 1]
        whole = all(run.size == size for run, size in zip(chosen, sizes, strict=True))
        part = None if whole else tuple(slice(r.first, r.first + r.size) for r in chosen)
        shape = tuple(extent for extent, _ in axes)
        strides = tuple(stride for _, stride in axes)
        base = sum(run.base for run in chosen)
        found.append(Piece(part, shape, base, strides, pair_axis(shape, strides, base, packing)))
    return tuple(found)


def pair_axis(shape: Sequence[int], strides: Sequence[int], base: int, packing: int) -> int:
    """The axis that runs through the elements of one 32-bit word, -1 if the words are not whole."""
    if packing == 1 or base % packing:
        return -1
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        if extent == packing and stride == 1:
            others = (s for a, s in enumerate(strides) if a != axis)
            return axis if all(s % packing == 0 for s in others) else -1
    return -1


def span(pieces: Sequence[Piece]) -> tuple[int, int]:
    """The lowest element offset of some pieces, and one past the highest; (0, 0) of none.

    Strides of 0 and below 0 (a shuffle that goes down) both occur.
    """
    low, high = 0, 0
    for number, piece in enumerate(pieces):
        ends = [(n - 1) * s for n, s in zip(piece.shape, piece.strides, strict=True)]
        first = piece.base + sum(min(0, e) for e in ends)
        last = piece.base + sum(max(0, e) for e in ends) + 1
        low, high = (min(low, first), max(high, last)) if number else (first, last)
    return low, high


def offsets(shape: Sequence[int], strides: Sequence[int], base: int) -> NDArray[np.int64]:
    """The element offset of every position of a strided view that begins at offset `base`."""
    total = np.full((), base, np.int64)
    for extent, stride in zip(shape, strides, strict=True):
        total = total[..., None] + stride * np.arange(extent, dtype=np.int64)
    return total


Views = tuple[tuple[tuple[int, ...], tuple[int, ...], int], ...]
"""Shape, strides and base of strided views, in elements."""


def apart(pieces: Sequence[Piece]) -> bool:
    """Whether no element is in two places of some pieces, or of one."""
    first = pieces[0].base if pieces else 0
    return _apart(tuple((piece.shape, piece.strides, piece.base - first) for piece in pieces))


@lru_cache(maxsize=1 << 12)
def _apart(views: Views) -> bool:
    if len(views) == 1 and _nested(*views[0][:2]):
        return True
    places = np.concatenate([offsets(*view).ravel() for view in views] or [np.empty(0)])
    return np.unique(places).size == places.size


def _nested(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether each axis of a view steps over all that faster ones reach."""
    end = 1
    for stride, extent in sorted(zip(map(abs, strides), shape, strict=True)):
        if extent == 1:
            continue
        if stride < end:
            return False
        end = stride * extent
    return True


def gather(
    digits: Sequence[Digits], starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]
) -> NDArray[np.int64]:
    """The element offset of every position of a box with arbitrary steps."""
    total = np.zeros((), np.int64)
    for dim, start, size, step in zip(digits, starts, sizes, steps, strict=True):
        total = total[..., None] + offsets_of(dim, start + step * np.arange(size, dtype=np.int64))
    return total


def regroup(axes: Sequence[tuple[int, int]], shape: Sequence[int]) -> tuple[Digits, ...] | None:
    """Row-major `axes` (extent, stride) dealt out to dimensions of `shape`; None if impossible.

    This is a reshape of a strided array: every dimension takes whole axes, or a factor of one.
    Axes that continue each other are one, which can be cut anywhere.
    """
    rest: list[tuple[int, int]] = []
    for extent, stride in axes:
        if extent == 1:
            continue
        if rest and rest[-1][1] == extent * stride:
            extent *= rest.pop()[0]
        rest.append((extent, stride))
    dims: list[Digits] = []
    for size in reversed(shape):
        taken: list[tuple[int, int]] = []
        while size > 1:
            if not rest:
                return None
            extent, stride = rest.pop()
            if extent > size:
                if extent % size:
                    return None
                rest.append((extent // size, stride * size))
                extent = size
            if size % extent:
                return None
            taken.append((extent, stride))
            size //= extent
        dims.append(simplify(tuple(reversed(taken))) if taken else ((0, 0),))
    return tuple(reversed(dims)) if not rest else None


@lru_cache(maxsize=4096)
def digits_of(tiling: Tiling) -> tuple[Digits, ...]:
    """The address digits of every dimension of a tiled array."""
    return tuple(simplify(tiling.factors(d)) for d in range(len(tiling.strides)))


@lru_cache(maxsize=4096)
def blocks_of(tiling: Tiling) -> tuple[int, ...]:
    """What a slice must begin at a multiple of in every dimension: whole first-level tiles, or rows
    of 128 words of the tiles of a one-dimensional array, which follow each other anyway."""
    if len(tiling.strides) == 1 and tiling.first:
        packed = tiling.tiles[-1][0] if len(tiling.tiles) > 1 else 1
        return (math.gcd(tiling.first[0], LANES * packed),)
    return tuple(tiling.tile_of(d) for d in range(len(tiling.strides)))


def row_major_digits(shape: Sequence[int]) -> tuple[Digits, ...]:
    """The address digits of an array of `shape` in row-major order."""
    return digits_of(Tiling((), contiguous_strides(shape, ())))


def row_major_view(
    shape: Sequence[int], tiling: Tiling, seen: Sequence[int], tiles: Tiling
) -> tuple[Digits, ...] | None:
    """Where, in an array of `shape` in row-major order, the elements lie that an array of shape
    `seen` in `tiles` has if it is in the memory of one of `shape` in `tiling`.

    None if one of the two has padding, or if they are not equally large, or if the place is no sum
    over the dimensions. Otherwise both number the same memory by digits. So each digit of `seen`
    is some digits of `shape`, or factors of them, which have other strides in row-major order:

        16x256 in tiles of (8,128)    row = 8a + b, column = 128c + d, memory [a, c, b, d]
        2x8x256 in tiles of (1,128)   the same a, b and 128c + d: [i, j, k] is row 8i + j, column k
    """
    given, wanted = _in_memory(shape, tiling), _in_memory(seen, tiles)
    if given is None or wanted is None or math.prod(shape) != math.prod(seen):
        return None
    strides = contiguous_strides(shape, ())
    axes = [(size, weight * strides[dim]) for dim, size, weight in given]
    parts = regroup(axes, [size for _, size, _ in wanted])
    if parts is None:
        return None
    found: list[list[tuple[int, int, int]]] = [[] for _ in seen]
    for (dim, size, weight), digits in zip(wanted, parts, strict=True):
        rest = size // block_of(digits)
        for extent, stride in ((rest, digits[0][1]), *digits[1:]):
            found[dim].append((weight, extent, stride))
    # The digits of a dimension, which may lie in memory in any order, by what they count.
    ordered = [sorted(digits, key=lambda digit: -digit[0]) for digits in found]
    return tuple(
        simplify(tuple([(extent, stride) for _, extent, stride in digits])) if digits else ((0, 0),)
        for digits in ordered
    )


def _in_memory(shape: Sequence[int], tiling: Tiling) -> list[tuple[int, int, int]] | None:
    """The digits of all dimensions of an array, from the slowest in memory on: the dimension, how
    many values the digit has, and how many coordinates each of them counts.

    None if not all memory from the first element to the last is one element each.
    """
    if 0 in shape or not tiling.nested or tiling.padded(shape) != tuple(shape):
        return None
    found: list[tuple[int, int, int, int]] = []
    for dim, digits in enumerate(digits_of(tiling)):
        block = block_of(digits)
        if shape[dim] % block:
            return None
        weight = 1
        for extent, stride in (*digits[:0:-1], (shape[dim] // block, digits[0][1])):
            if extent != 1:
                found.append((stride, dim, extent, weight))
            weight *= extent
    found.sort()
    end = 1
    for stride, _, extent, _ in found:
        if stride != end:
            return None
        end *= extent
    return [(dim, extent, weight) for _, dim, extent, weight in reversed(found)]
