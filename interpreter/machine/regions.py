"""Which bits of a buffer an access touches, and whether two accesses touch the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pallasite.interpreter.machine import boxes
from pallasite.interpreter.machine.boxes import Piece
from pallasite.interpreter.machine.codec import raw_codec
from pallasite.interpreter.machine.rows import Registers
from pallasite.interpreter.machine.views import Ref

Mask = NDArray[np.bool_] | None


@dataclass(eq=False)
class Region:
    """The elements at `base` plus some pieces, those that `mask` selects."""

    key: Any
    """Equal for equal regions of one buffer."""
    bits: int
    base: int
    pieces: tuple[Piece, ...]
    mask: Mask
    low: int
    high: int
    """First byte, and one past the last byte, that is touched."""
    place: Any = None
    """What two boxes must share to be compared by their coordinates."""
    box: tuple[tuple[int, int], ...] = ()
    """(first, past the last) coordinate in every dimension."""

    @property
    def extent(self) -> str:
        """The bytes of the buffer between its first and its last one, in words."""
        return span_text(self.low, self.high)

    def overlaps(self, other: Region) -> bool:
        """Whether some bit belongs to both."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        if low >= high:
            return False
        if self.place is not None and self.place == other.place:
            pairs = zip(self.box, other.box, strict=True)
            disjoint = any(a[1] <= b[0] or b[1] <= a[0] for a, b in pairs)
            if disjoint or (self.mask is None and other.mask is None):
                return not disjoint
        first = min(self.low, other.low) // 4 * 4
        size = max(self.high, other.high) - first + 4
        return bool((self._marks(first, size) & other._marks(first, size)).any())

    def _marks(self, first: int, size: int) -> NDArray[np.uint8]:
        marks = np.zeros(-(-size // 4) * 4, np.uint8)
        raw = raw_codec(self.bits)
        base = self.base - first * 8 // self.bits
        ones = (1 << self.bits) - 1
        for piece in self.pieces:
            where = None
            if self.mask is not None:
                part: Any = self.mask if piece.part is None else self.mask[piece.part]
                where = part.reshape(piece.shape)
            raw.encode(marks, base, piece, np.full(piece.shape, ones, raw.carrier), where)
        return marks


def span_text(low: int, high: int) -> str:
    """The bytes from `low` up to, not including, `high`."""
    return f"byte {low}" if high == low + 1 else f"bytes {low} to {high - 1}"


def box_region(
    ref: Ref,
    index: Sequence[int],
    shape: tuple[int, ...],
    strides: Sequence[int] | None,
    mask: Mask = None,
) -> Region:
    """What `ref.load(index, shape, strides)` touches."""
    starts = tuple(a + int(b) for a, b in zip(ref.starts, index, strict=True))
    steps = None if strides is None else tuple(strides)
    pieces = boxes.pieces(ref.digits, starts, shape, steps, ref.codec.packing)
    if pieces is None:
        offsets = boxes.gather(ref.digits, starts, shape, steps or ())
        pieces = tuple(Piece(None, (), int(o), (), -1) for o in offsets.reshape(-1))
        mask = None
    full = None if mask is None else np.broadcast_to(mask, shape)
    box = tuple(
        (start, start + (size - 1) * step + 1)
        for start, size, step in zip(starts, shape, steps or (1,) * len(shape), strict=True)
    )
    key = (ref.digits, ref.base, ref.codec.bits, starts, shape, steps)
    place = None
    if steps is None or set(steps) <= {1}:
        place = (ref.digits, ref.base, ref.codec.bits)
    return _region(key, ref, pieces, full, place, box)


def rows_region(ref: Ref, plan: Registers, mask: Mask = None) -> Region:
    """What a register access touches; `mask` is in the order of the plan."""
    return _region((ref.base, ref.codec.bits, plan.pieces), ref, plan.pieces, mask, None, ())


def _region(
    key: Any,
    ref: Ref,
    pieces: tuple[Piece, ...],
    mask: Mask,
    place: Any,
    box: tuple[tuple[int, int], ...],
) -> Region:
    bits = ref.codec.bits
    low, high = boxes.span(pieces)
    low_byte = (ref.base + low) * bits // 8
    high_byte = -(-(ref.base + high) * bits // 8)
    if mask is not None:
        # A masked access must not stand for another one of the same box.
        key = (key, mask.tobytes())
    return Region(key, bits, ref.base, pieces, mask, low_byte, high_byte, place, box)
