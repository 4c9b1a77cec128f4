"""Which bits of a buffer an access touches, and whether two accesses touch the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pallasite.interpreter.machine import boxes
from pallasite.interpreter.machine.boxes import Piece
from pallasite.interpreter.machine.codec import raw_codec
from pallasite.interpreter.machine.rows import Registers
from pallasite.interpreter.machine.views import Ref

Mask = NDArray[np.bool_] | None


class Region:
    """The elements at `base` plus some pieces, those that `mask` selects.

    Pieces and extent are worked out when first asked for: most regions are told apart by the boxes
    that they are of one array.
    """

    def __init__(
        self,
        key: Any,
        ref: Ref,
        pieces: Callable[[], tuple[Piece, ...]],
        mask: Mask = None,
        place: Any = None,
        box: tuple[tuple[int, int], ...] = (),
        reach: tuple[int, int] | None = None,
    ) -> None:
        """`key` is equal for equal regions of one buffer; boxes of the same `place` are compared
        by their coordinates, (first, past the last) in every dimension. `reach` is the first
        element offset, and one past the last, if that is known."""
        # A masked access must not stand for another one of the same box.
        self.key = key if mask is None else (key, mask.tobytes())
        self.bits = ref.codec.bits
        self.base = ref.base
        self.mask = mask
        self.place = place
        self.box = box
        self._pieces = pieces
        self._reach = reach

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The strided views that make up the region."""
        return self._pieces()

    @cached_property
    def span(self) -> tuple[int, int]:
        """The first byte that is touched, and one past the last."""
        low, high = self._reach or boxes.span(self.pieces)
        bits = self.bits
        return (self.base + low) * bits // 8, -(-(self.base + high) * bits // 8)

    @property
    def low(self) -> int:
        """The first byte that is touched."""
        return self.span[0]

    @property
    def high(self) -> int:
        """One past the last byte that is touched."""
        return self.span[1]

    @property
    def extent(self) -> str:
        """The bytes of the buffer between its first and its last one, in words."""
        return span_text(self.low, self.high)

    def overlaps(self, other: Region) -> bool:
        """Whether some bit belongs to both."""
        if self.place is not None and self.place == other.place:
            for a, b in zip(self.box, other.box, strict=True):
                if a[1] <= b[0] or b[1] <= a[0]:
                    return False
            if self.mask is None and other.mask is None:
                return True
        mine, others = self.span, other.span
        if mine[0] >= others[1] or others[0] >= mine[1]:
            return False
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
    steps = None if strides is None or set(strides) <= {1} else tuple(strides)
    codec, base = ref.codec, ref.base
    place = (ref.digits, base, codec.bits)
    if steps is None:
        box = tuple([(start, start + size) for start, size in zip(starts, shape, strict=True)])
    else:
        box = ()
    scattered = (
        steps is not None and boxes.pieces(ref.digits, starts, shape, steps, codec.packing) is None
    )

    def pieces() -> tuple[Piece, ...]:
        found = boxes.pieces(ref.digits, starts, shape, steps, codec.packing)
        if found is not None:
            return found
        offsets = boxes.gather(ref.digits, starts, shape, steps or ())
        return tuple(Piece(None, (), int(o), (), -1) for o in offsets.reshape(-1))

    full = None if mask is None or scattered else np.broadcast_to(mask, shape)
    key = (*place, starts, shape, steps)
    return Region(key, ref, pieces, full, None if steps else place, box)


def whole_region(ref: Ref) -> Region:
    """All elements of `ref`, which remembers the answer."""
    if ref.region is None:
        ref.region = box_region(ref, (0,) * len(ref.shape), ref.shape, None)
    return ref.region


def rows_region(ref: Ref, plan: Registers, mask: Mask = None) -> Region:
    """What a register access touches; `mask` is in the order of the plan."""
    key = (ref.base, ref.codec.bits, plan.pieces)
    reach = plan.lowest, plan.highest
    return Region(key, ref, lambda: plan.pieces, mask, reach=reach)
