"""Copies the elements of one ref to another, whatever the tilings of the two.

Both sides are cut into strided views (`boxes`). Where their axes have a common refinement the copy
is one NumPy assignment between two views; else the elements pass through a row-major array.
"""

from __future__ import annotations

from math import gcd, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pallasite.interpreter.machine import boxes
from pallasite.interpreter.machine.boxes import Piece
from pallasite.interpreter.machine.codec import Codec, raw_codec, view, words
from pallasite.interpreter.machine.memory import Buffer
from pallasite.interpreter.machine.views import Ref
from pallasite.layouts.tiling import Tiling, contiguous_strides

Bytes = NDArray[np.uint8]


def copy(source: Ref, target: Ref) -> None:
    """Copies all elements; shapes and element widths are equal. Initialised marks travel along."""
    raw = raw_codec(source.codec.bits)
    read = _pieces(source)
    write = _pieces(target)
    _move(raw, source.buffer.bytes, source.base, read, target.buffer.bytes, target.base, write,
          source.shape)  # fmt: skip
    if target.buffer.shadow is None:
        return
    shadow = source.buffer.shadow
    if shadow is None:
        shadow = np.full(len(source.buffer.bytes), 0xFF, np.uint8)
    _move(raw, shadow, source.base, read, target.buffer.shadow, target.base, write, source.shape)


def snapshot(ref: Ref) -> Ref:
    """A copy of all elements in a buffer of its own, which no memory accounts for."""
    tiling = Tiling((), contiguous_strides(ref.shape, ()))
    size = tiling.elements(ref.shape) * ref.codec.bits // 8 + 4
    buffer = Buffer(ref.buffer.memory, 0, size, ref.buffer.name, ref.buffer.location)
    if ref.buffer.shadow is not None:
        buffer.track()
    held = Ref.of(buffer, ref.element, ref.shape, tiling)
    copy(ref, held)
    return held


def _pieces(ref: Ref) -> tuple[Piece, ...]:
    found = boxes.pieces(ref.digits, ref.starts, ref.shape, None, ref.codec.packing)
    # Without steps every box is made of strided views.
    return found or ()


def _move(
    raw: Codec,
    source: Bytes,
    source_base: int,
    read: tuple[Piece, ...],
    target: Bytes,
    target_base: int,
    write: tuple[Piece, ...],
    shape: tuple[int, ...],
) -> None:
    if (
        len(read) == 1
        and len(write) == 1
        and _direct(raw, source, source_base, read[0], target, target_base, write[0])
    ):
        return
    whole = np.empty(shape, raw.carrier)
    for piece in read:
        part: Any = whole if piece.part is None else whole[piece.part]
        raw.decode(source, source_base, piece, part.reshape(piece.shape))
    for piece in write:
        part = whole if piece.part is None else whole[piece.part]
        raw.encode(target, target_base, piece, part.reshape(piece.shape), None)


def _direct(
    raw: Codec,
    source: Bytes,
    source_base: int,
    read: Piece,
    target: Bytes,
    target_base: int,
    write: Piece,
) -> bool:
    packing = raw.packing
    aligned = source_base % packing == 0 and target_base % packing == 0
    if packing > 1 and aligned and read.pair >= 0 and write.pair >= 0:
        if prod(read.shape[read.pair :]) == prod(write.shape[write.pair :]):
            return _assign(
                words(source, source_base, read, packing),
                words(target, target_base, write, packing),
            )
    if raw.bits < 8:
        return False
    return _assign(
        view(source, raw.storage, source_base, read, raw.bits),
        view(target, raw.storage, target_base, write, raw.bits),
    )


def _assign(source: NDArray[Any], target: NDArray[Any]) -> bool:
    """`target[...] = source` in row-major order, if the axes of both can be split alike."""
    axes = _refine(source.shape, source.strides, target.shape, target.strides)
    if axes is None:
        return False
    shape, read, write = axes
    split = np.lib.stride_tricks.as_strided
    split(target, shape, write)[...] = split(source, shape, read)
    return True


def _refine(
    first: tuple[int, ...], a: tuple[int, ...], second: tuple[int, ...], b: tuple[int, ...]
) -> tuple[list[int], list[int], list[int]] | None:
    left = list(zip(first, a, strict=True))
    right = list(zip(second, b, strict=True))
    shape: list[int] = []
    read: list[int] = []
    write: list[int] = []
    while left and right:
        n, s = left.pop()
        m, t = right.pop()
        extent = gcd(n, m)
        if extent not in (n, m):
            return None
        shape.append(extent)
        read.append(s)
        write.append(t)
        if n > extent:
            left.append((n // extent, s * extent))
        if m > extent:
            right.append((m // extent, t * extent))
    if left or right:
        return None
    return shape[::-1], read[::-1], write[::-1]
