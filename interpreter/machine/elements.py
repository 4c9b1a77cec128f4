"""The elements of a ref: where they lie in its buffer, and how they are read and written.

An access is of one element, or of a box of elements with or without strides. Boxes become strided
views of the buffer's bytes (`boxes.pieces`); if no view fits, elements are gathered by their
offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute

from pallasite.diagnostics import ExecutionError, Note, SourceLocation
from pallasite.interpreter import values
from pallasite.interpreter.machine import boxes
from pallasite.interpreter.machine.boxes import Digits, cut
from pallasite.interpreter.machine.codec import Codec, raw_codec, view
from pallasite.interpreter.machine.faults import outside
from pallasite.interpreter.machine.memory import Buffer
from pallasite.interpreter.values import Array
from pallasite.layouts.tiling import offset_of


class Elements:
    """A rectangle of elements of one type in a buffer; accesses take and give carriers.

    Logical accesses must stay within `shape`, else they raise an `ExecutionError`: `out-of-bounds`,
    or `use-after-free` once the buffer's scope has ended.
    """

    __slots__ = (
        "_address", "_bits", "base", "buffer", "codec", "digits", "element", "shape", "starts",
    )  # fmt: skip

    buffer: Buffer
    element: Attribute
    codec: Codec
    shape: tuple[int, ...]
    digits: tuple[Digits, ...]
    starts: tuple[int, ...]
    """The coordinates of the first element."""
    base: int
    """The element offset of squeezed dimensions."""
    _address: int | None
    _bits: int | None

    def __repr__(self) -> str:
        return f"<ref {list(self.shape)} of {self.element} in {self.buffer}>"

    # Where.

    def offset(self, index: Sequence[int]) -> int:
        """The element offset of `index` from the start of the buffer."""
        places = zip(self.digits, self.starts, index, strict=True)
        return self.base + sum(offset_of(digits, start + i) for digits, start, i in places)

    @property
    def address(self) -> int:
        """The byte address of the first element in its memory."""
        if self._address is None:
            origin = self.offset((0,) * len(self.shape))
            self._address = self.buffer.address + origin * self.codec.bits // 8
        return self._address

    @property
    def bit_count(self) -> int:
        """Bits of the logical elements."""
        if self._bits is None:
            self._bits = prod(self.shape) * self.codec.bits
        return self._bits

    @property
    def byte_count(self) -> int:
        """Bytes of the logical elements, which is what a DMA of this ref counts."""
        bits = self._bits
        return ((self.bit_count if bits is None else bits) + 7) >> 3

    # Access.

    def read(self, at: SourceLocation | None = None) -> Array:
        """All elements."""
        return self.load((0,) * len(self.shape), self.shape, None, at)

    def write(self, array: Array, at: SourceLocation | None = None) -> None:
        """Sets all elements."""
        self.store((0,) * len(self.shape), array, at=at)

    def load(
        self,
        index: Sequence[int],
        shape: tuple[int, ...],
        strides: Sequence[int] | None = None,
        at: SourceLocation | None = None,
    ) -> Array:
        """A row-major array of `shape` whose element k is at `index + k * strides`."""
        starts = self.check("load", index, shape, strides, at)
        return self._read(self.codec, self.buffer.bytes, starts, shape, strides)

    def initialised(
        self, index: Sequence[int], shape: tuple[int, ...], strides: Sequence[int] | None = None
    ) -> NDArray[np.bool_] | None:
        """Which elements of a box were ever written; None if all were, or if that is not
        tracked."""
        shadow = self.buffer.shadow
        if shadow is None:
            return None
        starts = tuple(a + int(b) for a, b in zip(self.starts, index, strict=True))
        raw = raw_codec(self.codec.bits)
        ones = (1 << raw.bits) - 1
        if strides is None and raw.bits >= 8:
            pieces = boxes.pieces(self.digits, starts, shape, None, raw.packing) or ()
            marks = (view(shadow, raw.storage, self.base, p, raw.bits) for p in pieces)
            if all(part.min(initial=ones) == ones for part in marks):
                return None
        return self._read(raw, shadow, starts, shape, strides) == ones

    def _read(
        self,
        codec: Codec,
        memory: NDArray[np.uint8],
        starts: tuple[int, ...],
        shape: tuple[int, ...],
        strides: Sequence[int] | None,
    ) -> Array:
        steps = None if strides is None else tuple(strides)
        found = boxes.pieces(self.digits, starts, shape, steps, codec.packing)
        if found is None:
            offsets = boxes.gather(self.digits, starts, shape, steps or ()) + self.base
            return codec.take(memory, offsets)
        out = np.empty(shape, codec.carrier)
        for piece in found:
            part = out if piece.part is None else out[piece.part]
            codec.decode(memory, self.base, piece, part.reshape(piece.shape))
        return out

    def store(
        self,
        index: Sequence[int],
        array: Array,
        mask: Array | None = None,
        strides: Sequence[int] | None = None,
        at: SourceLocation | None = None,
        *,
        add: bool = False,
    ) -> None:
        """Writes `array` where `mask` is true; with `add`, adds to what is there (and rounds)."""
        shape = array.shape
        starts = self.check("store", index, shape, strides, at)
        if add:
            old = self._read(self.codec, self.buffer.bytes, starts, shape, strides)
            array = values.accumulate(self.element, old, array)
        if mask is not None:
            mask = np.broadcast_to(mask, shape)
        self._write(self.codec, self.buffer.bytes, starts, array, mask, strides)
        shadow = self.buffer.shadow
        if shadow is not None:
            self._mark_box(shadow, starts, shape, mask, strides)

    @property
    def is_tracked(self) -> bool:
        """Whether writes of elements are tracked."""
        return self.buffer.shadow is not None or self.buffer.complete

    def mark_whole(self, *, written: bool = True) -> None:
        """Notes that all elements were written, or that none counts as written."""
        shadow = self.buffer.shadow if written else self.buffer.reopened()
        if shadow is not None:
            self._mark_box(shadow, self.starts, self.shape, None, None, written)

    def _mark_box(
        self,
        shadow: NDArray[np.uint8],
        starts: tuple[int, ...],
        shape: tuple[int, ...],
        mask: Array | None,
        strides: Sequence[int] | None,
        written: bool = True,
    ) -> None:
        """Notes whether the elements of a box were written."""
        raw = raw_codec(self.codec.bits)
        ones = (1 << raw.bits) - 1 if written else 0
        if mask is None and strides is None and raw.bits >= 8:
            for piece in boxes.pieces(self.digits, starts, shape, None, raw.packing) or ():
                view(shadow, raw.storage, self.base, piece, raw.bits)[...] = ones
            return
        self._write(raw, shadow, starts, np.full(shape, ones, raw.carrier), mask, strides)

    def _write(
        self,
        codec: Codec,
        memory: NDArray[np.uint8],
        starts: tuple[int, ...],
        array: Array,
        mask: Array | None,
        strides: Sequence[int] | None,
    ) -> None:
        steps = None if strides is None else tuple(strides)
        found = boxes.pieces(self.digits, starts, array.shape, steps, codec.packing)
        if found is None:
            offsets = boxes.gather(self.digits, starts, array.shape, steps or ()) + self.base
            keep: Any = ... if mask is None else mask
            codec.put(memory, offsets[keep], array[keep])
            return
        for piece in found:
            where = None if mask is None else cut(mask, piece)
            codec.encode(memory, self.base, piece, cut(array, piece), where)

    def load_scalar(self, index: Sequence[int], at: SourceLocation | None = None) -> Any:
        """One element as a scalar carrier."""
        place = self._place("load", index, at)
        if values.is_float(self.element):
            # As it is: a number of Python's would not keep the bits of every NaN.
            return self.codec.take(self.buffer.bytes, np.array([place]))[0]
        item = self.codec.item(self.buffer, place)
        return item if self.codec.integral else values.scalar(self.element, item)

    def store_scalar(
        self, index: Sequence[int], value: Any, at: SourceLocation | None = None
    ) -> None:
        """Writes one element."""
        if type(value) is int and self.codec.integral and self.buffer.shadow is None:
            offset = self._place("store", index, at)
            self.buffer.bytes.view(self.codec.storage)[offset] = value
            return
        self.store(index, np.full((1,) * len(self.shape), value, self.codec.carrier), at=at)

    def _place(self, what: str, index: Sequence[int], at: SourceLocation | None) -> int:
        if self.buffer.freed:
            self.alive(at)
        place = boxes.place(self.digits, self.starts, self.shape, index)
        if place is None:
            raise outside(self, what, index, (1,) * len(self.shape), None, at)
        return self.base + place

    def element_offsets(
        self, coordinates: Sequence[NDArray[np.int64]], at: SourceLocation | None = None
    ) -> NDArray[np.int64]:
        """Element offsets of scattered positions, one coordinate array per dimension."""
        self.alive(at)
        total = np.asarray(self.base, np.int64)
        for d, where in enumerate(coordinates):
            if where.size and (where.min() < 0 or where.max() >= self.shape[d]):
                bad = int(where[(where < 0) | (where >= self.shape[d])][0])
                raise ExecutionError(
                    "out-of-bounds",
                    f"index {bad} of dimension {d} is outside memref of shape {list(self.shape)}",
                    at,
                )
            total = total + boxes.offsets_of(self.digits[d], where + self.starts[d])
        return total

    def mark(self, offsets: NDArray[np.int64]) -> None:
        """Notes that the elements at some offsets were written."""
        shadow = self.buffer.shadow
        if shadow is not None:
            raw = raw_codec(self.codec.bits)
            raw.put(shadow, offsets, np.full(offsets.shape, (1 << raw.bits) - 1, raw.carrier))

    # Errors.

    def alive(self, at: SourceLocation | None) -> None:
        """Raises if the buffer's scope has ended."""
        if self.buffer.freed:
            raise ExecutionError(
                "use-after-free",
                f"access to {self.buffer.name or 'a buffer'} after the end of its scope",
                at,
                [Note("allocated here", self.buffer.location)],
            )

    def check(
        self,
        what: str,
        index: Sequence[int],
        shape: Sequence[int],
        strides: Sequence[int] | None,
        at: SourceLocation | None,
    ) -> tuple[int, ...]:
        """Where in the buffer an access begins, per dimension; raises if it leaves the ref."""
        if self.buffer.freed:
            self.alive(at)
        starts: list[int] = []
        for d, (start, i, size, extent) in enumerate(
            zip(self.starts, index, shape, self.shape, strict=True)
        ):
            last = i + (size - 1) * (1 if strides is None else strides[d])
            if i < 0 or (size and last >= extent) or last < -1:
                raise outside(self, what, index, shape, strides, at)
            starts.append(start + int(i))
        return tuple(starts)
