"""Refs: the run-time values of memref type.

A `Ref` is a buffer seen through an element type and, per visible dimension, an extent, a first
coordinate and the digits of its address (`boxes`). Squeezed dimensions have gone into the base
offset. A ref is immutable; slicing, squeezing, reshaping and bitcasting make new ones without
touching memory. Logical accesses must stay within the ref's shape; register accesses are in `rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute

from pallasite.diagnostics import ExecutionError, Note, SourceLocation
from pallasite.interpreter import values
from pallasite.interpreter.machine import boxes
from pallasite.interpreter.machine.boxes import Digits, blocks_of, cut, digits_of
from pallasite.interpreter.machine.codec import Codec, codec, raw_codec, view
from pallasite.interpreter.machine.faults import outside
from pallasite.interpreter.machine.memory import Buffer, Memory
from pallasite.layouts.tiling import Tiling

Array = NDArray[Any]
MOST_VIEWS = 32
"""Views that a ref remembers."""


class Ref:
    """A view of a buffer; reads and writes carriers (`interpreter.values`)."""

    __slots__ = (
        "_address", "base", "blocks", "buffer", "codec", "digits", "element", "ends", "region",
        "registers", "shape", "starts", "views",
    )  # fmt: skip

    def __init__(
        self,
        buffer: Buffer,
        element: Attribute,
        shape: tuple[int, ...],
        digits: tuple[Digits, ...],
        starts: tuple[int, ...] | None = None,
        base: int = 0,
        blocks: tuple[int, ...] | None = None,
    ) -> None:
        """`blocks` are the sizes of whole tiles, by default what the digits tell."""
        self.buffer = buffer
        self.element = element
        self.codec: Codec = codec(element)
        self.shape = shape
        self.digits = digits
        self.starts = (0,) * len(shape) if starts is None else starts
        self.base = base
        self.blocks = tuple(map(boxes.block_of, digits)) if blocks is None else blocks
        self.ends: tuple[int, ...] = tuple(map(add, self.starts, shape))
        """Where the array ends that this is a part of, in the coordinates of `starts`."""
        self.region: Any = None
        """What checks remember about the elements of the whole ref."""
        self.registers: dict[Any, Any] | None = None
        """The register accesses that were made of it (`register_access`)."""
        self._address: int | None = None
        self.views: dict[Any, Ref] = {}
        """Remembered ones: boxes by their starts and sizes, others by their dimensions."""

    def _view(
        self,
        shape: tuple[int, ...],
        digits: tuple[Digits, ...],
        starts: tuple[int, ...],
        base: int,
        blocks: tuple[int, ...],
        ends: tuple[int, ...],
        buffer: Buffer | None = None,
    ) -> Ref:
        """Another view of the same element type, which costs less than to begin anew."""
        other = Ref.__new__(Ref)
        other.buffer = self.buffer if buffer is None else buffer
        other.element = self.element
        other.codec = self.codec
        other.shape = shape
        other.digits = digits
        other.starts = starts
        other.base = base
        other.blocks = blocks
        other.ends = ends
        other.region = None
        other.registers = None
        other._address = None
        other.views = {}
        return other

    def _kept(self, key: Any, other: Ref) -> Ref:
        """Remembers a view for the next time: kernels take the same few slots again and again."""
        if len(self.views) >= MOST_VIEWS:
            del self.views[next(iter(self.views))]
        self.views[key] = other
        return other

    @staticmethod
    def of(buffer: Buffer, element: Attribute, shape: Sequence[int], tiling: Tiling) -> Ref:
        """The array that a buffer holds from its first byte on."""
        return Ref(buffer, element, tuple(shape), digits_of(tiling), blocks=blocks_of(tiling))

    def __repr__(self) -> str:
        return f"<ref {list(self.shape)} of {self.element} in {self.buffer}>"

    # --- where ------------------------------------------------------------------------------

    def offset(self, index: Sequence[int]) -> int:
        """The element offset of `index` from the start of the buffer."""
        places = zip(self.digits, self.starts, index, strict=True)
        return self.base + sum(boxes.offset_of(digits, start + i) for digits, start, i in places)

    @property
    def address(self) -> int:
        """The byte address of the first element in its memory."""
        if self._address is None:
            origin = self.offset((0,) * len(self.shape))
            self._address = self.buffer.address + origin * self.codec.bits // 8
        return self._address

    @property
    def byte_count(self) -> int:
        """Bytes of the logical elements, which is what a DMA of this ref counts."""
        return -(-prod(self.shape) * self.codec.bits // 8)

    def on(self, memory: Memory, at: SourceLocation | None = None) -> Ref:
        """The same ref in another core's memory: the allocation at the same address there."""
        twin = memory.at(self.buffer.address)
        if twin is None or twin.size != self.buffer.size:
            raise ExecutionError(
                "remote-not-allocated",
                f"{memory.owner} has no buffer like {self.buffer.name or 'this one'} at address "
                f"{self.buffer.address} of its {memory.kind}",
                at,
                [Note("both sides must allocate the same refs in the same order, and "
                      "synchronise before the first access", self.buffer.location)],
            )  # fmt: skip
        return self._view(
            self.shape, self.digits, self.starts, self.base, self.blocks, self.ends, twin
        )

    # --- views ------------------------------------------------------------------------------

    def slice(
        self,
        starts: Sequence[int],
        sizes: Sequence[int],
        at: SourceLocation | None = None,
        counted: bool = False,
    ) -> Ref:
        """The box of `sizes` at `starts`. It may end in the padding of the last tile; one without
        elements may be anywhere, as kernels compute where nothing is copied, and one that is only
        `counted`, not accessed, may end anywhere."""
        key = tuple(starts), tuple(sizes)
        known = self.views.get(key)
        if known is not None:
            return known
        if 0 in sizes:
            starts = (0,) * len(sizes)
        beyond = False
        for d, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            if 0 <= start and size >= 0 and start + size <= self.shape[d]:
                continue
            block = self.blocks[d]
            first = self.starts[d] + start
            padded = -(-(self.starts[d] + self.shape[d]) // block) * block
            if start < 0 or size < 0 or first % block or first + size > padded:
                if not counted or size < 0:
                    raise outside(self, "slice", starts, sizes, None, at)
                beyond = True
        moved = tuple(map(add, self.starts, starts))
        box = self._view(key[1], self.digits, moved, self.base, self.blocks, self.ends)
        return box if beyond else self._kept(key, box)

    def keep(self, dims: Sequence[int]) -> Ref:
        """Only the dimensions `dims`; the others are left at their first coordinate."""
        if (known := self.views.get(key := tuple(dims))) is not None:
            return known
        base = self.base
        for d, digits in enumerate(self.digits):
            if d not in dims:
                base += boxes.offset_of(digits, self.starts[d])
        kept = self._view(
            tuple([self.shape[d] for d in dims]),
            tuple([self.digits[d] for d in dims]),
            tuple([self.starts[d] for d in dims]),
            base,
            tuple([self.blocks[d] for d in dims]),
            tuple([self.ends[d] for d in dims]),
        )
        return self._kept(key, kept)

    # --- access -----------------------------------------------------------------------------

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
        """Which elements of a box were ever written; None if all were, or nobody tracks it."""
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
        add: bool = False,
        at: SourceLocation | None = None,
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

    def mark_whole(self) -> None:
        """Remembers that all elements were written."""
        shadow = self.buffer.shadow
        if shadow is not None:
            self._mark_box(shadow, self.starts, self.shape, None, None)

    def _mark_box(
        self,
        shadow: NDArray[np.uint8],
        starts: tuple[int, ...],
        shape: tuple[int, ...],
        mask: Array | None,
        strides: Sequence[int] | None,
    ) -> None:
        """Remembers that the elements of a box were written."""
        raw = raw_codec(self.codec.bits)
        ones = (1 << raw.bits) - 1
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
        item = self.codec.item(self.buffer, self._place("load", index, at))
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
        """Remembers that the elements at some offsets were written."""
        shadow = self.buffer.shadow
        if shadow is not None:
            raw = raw_codec(self.codec.bits)
            raw.put(shadow, offsets, np.full(offsets.shape, (1 << raw.bits) - 1, raw.carrier))

    # --- errors -----------------------------------------------------------------------------

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
        """Where an access begins; raises if it leaves the ref."""
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
