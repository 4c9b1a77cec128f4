"""Regions: which bits of a buffer an access touches, and whether two accesses touch the same ones.

The race detector and other checks compare accesses by their regions.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pallasite.interpreter.machine import boxes
from pallasite.interpreter.machine.boxes import Digits, Piece
from pallasite.interpreter.machine.codec import raw_codec
from pallasite.interpreter.machine.rows import Registers
from pallasite.interpreter.machine.views import Ref

Mask = NDArray[np.bool_] | None
Box = tuple[tuple[Digits, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]
"""Digits of the array, starts, shape, steps (None: dense): the arguments of `boxes.pieces`."""


class Region:
    """The elements of a buffer that an access touches: those of a box or of strided views, where
    `mask` is true.

    Strided views and byte extents are computed when first asked for: most regions of one array are
    told apart by the coordinates of their boxes. Runs with checks keep one region for each box that
    is touched, so a region is made of few objects, for the garbage collector's sake.
    """

    __slots__ = (
        "_block", "_box", "_pieces", "_span", "_telling", "array", "base", "bits", "key", "mask",
    )  # fmt: skip

    def __init__(
        self,
        key: Any,
        ref: Ref,
        mask: Mask = None,
        *,
        box: Box | None = None,
        pieces: tuple[Piece, ...] | None = None,
        reach: tuple[int, int] | None = None,
    ) -> None:
        """`key` is equal for equal regions of one buffer. Either `box` or `pieces` is given;
        `reach` is the first element offset, and one past the last, if they are known."""
        # A masked access must not stand for another one of the same box.
        self.key = key if mask is None else (key, mask.tobytes())
        self.bits = ref.codec.bits
        self.base = ref.base
        self.mask = mask
        self._box = box
        self.array: Hashable = None
        """Identifies the array of a dense box, so that coordinates can be compared; else None."""
        if box is not None and box[3] is None and box[1]:
            self.array = box[0], ref.base, self.bits
        self._pieces = pieces
        self._block: tuple[int, ...] | None = None
        self._telling: int | None = None
        self._span = None if reach is None else self._bytes(reach)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The strided views that make up the region."""
        if self._pieces is not None:
            return self._pieces
        assert self._box is not None
        digits, starts, shape, steps = self._box
        found = boxes.pieces(digits, starts, shape, steps, 32 // self.bits)
        if found is None:
            offsets = boxes.gather(digits, starts, shape, steps or ())
            found = tuple(Piece(None, (), int(o), (), -1) for o in offsets.reshape(-1))
        self._pieces = found
        return found

    def _bytes(self, reach: tuple[int, int]) -> tuple[int, int]:
        """A range of element offsets from the base as a range of bytes of the buffer, rounded
        outwards."""
        first, last = self.base + reach[0], self.base + reach[1]
        return first * self.bits // 8, -(-last * self.bits // 8)

    @property
    def starts(self) -> tuple[int, ...]:
        """The first coordinates of a box."""
        assert self._box is not None
        return self._box[1]

    @property
    def block(self) -> tuple[int, ...]:
        """The shape of a box if its starts are multiples of it, else ().

        Two boxes with the same such shape are equal or disjoint.
        """
        if self._block is None:
            assert self._box is not None
            _, starts, shape, _ = self._box
            even = all(
                size > 0 and start % size == 0 for start, size in zip(starts, shape, strict=True)
            )
            self._block = shape if even else ()
        return self._block

    def along(self, dimension: int) -> tuple[int, int]:
        """The first coordinate of a box in `dimension`, and one past the last."""
        assert self._box is not None
        start = self._box[1][dimension]
        return start, start + self._box[2][dimension]

    @property
    def telling(self) -> int:
        """The dimension in which a box starts at the largest multiple of its own size.

        Boxes of one array are likely to be disjoint there; `region_index` sorts by it.
        """
        if self._telling is None:
            assert self._box is not None
            parts = [start / max(size, 1) for start, size in zip(*self._box[1:3], strict=True)]
            self._telling = parts.index(max(parts))
        return self._telling

    @property
    def span(self) -> tuple[int, int]:
        """The first byte that is touched, and one past the last."""
        if self._span is None:
            self._span = self._bytes(boxes.span(self.pieces))
        return self._span

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
        """The span as text, for messages."""
        return span_text(self.low, self.high)

    def overlaps(self, other: Region) -> bool:
        """Whether some bit belongs to both regions.

        Dense boxes of one array are compared by coordinates; otherwise, if the spans meet, bit by
        bit.
        """
        array = self.array
        if array is not None and array == other.array:
            assert self._box is not None and other._box is not None
            _, starts, shape, _ = self._box
            _, begins, counts, _ = other._box
            for d, start in enumerate(starts):
                begin = begins[d]
                if start + shape[d] <= begin or begin + counts[d] <= start:
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
        """`size` bytes of the buffer from byte `first` on, in which the bits of the region are
        set."""
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
    """The bytes from `low` up to, but not including, `high`, in words."""
    return f"byte {low}" if high == low + 1 else f"bytes {low} to {high - 1}"


def box_region(
    ref: Ref,
    index: Sequence[int],
    shape: tuple[int, ...],
    strides: Sequence[int] | None,
    mask: Mask = None,
) -> Region:
    """The region of `ref.load(index, shape, strides)`; `strides` count elements, None means
    dense."""
    starts = tuple(a + int(b) for a, b in zip(ref.starts, index, strict=True))
    steps = None if strides is None or set(strides) <= {1} else tuple(strides)
    box = ref.digits, starts, shape, steps
    full = mask
    if mask is not None and (steps is None or boxes.pieces(*box, ref.codec.packing) is not None):
        full = np.broadcast_to(mask, shape)
    elif mask is not None:
        full = None  # Scattered elements: all of them, to be on the safe side.
    return Region((ref.base, ref.codec.bits, *box), ref, full, box=box)


def whole_region(ref: Ref) -> Region:
    """The region of all elements of `ref`, which caches it."""
    if ref.region is None:
        box = ref.digits, ref.starts, ref.shape, None
        ref.region = Region((ref.base, ref.codec.bits, *box), ref, box=box)
    return ref.region


def _hashable(piece: Piece) -> Hashable:
    """A key for `piece`; slices cannot be hashed before Python 3.12."""
    part = piece.part and tuple((s.start, s.stop) for s in piece.part)
    return part, piece.shape, piece.base, piece.strides


def rows_region(ref: Ref, plan: Registers, mask: Mask = None) -> Region:
    """The region of a register access; `mask` has the axes in the order of the plan."""
    key = (ref.base, ref.codec.bits, tuple(map(_hashable, plan.pieces)))
    reach = plan.lowest, plan.highest
    return Region(key, ref, mask, pieces=plan.pieces, reach=reach)
