"""Refs: the run-time values of memref type.

A `Ref` is a buffer seen through an element type and, per visible dimension, an extent, a first
coordinate and the digits of its address (`boxes`). Squeezed dimensions have gone into the base
offset. A ref is immutable; slicing, squeezing, reshaping and bitcasting make new ones without
touching memory. Accesses of its elements are in `elements`, those of registers in `rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import Any

from xdsl.ir import Attribute

from pallasite.diagnostics import SourceLocation
from pallasite.interpreter.machine import boxes
from pallasite.interpreter.machine.boxes import Digits, blocks_of, digits_of
from pallasite.interpreter.machine.codec import codec
from pallasite.interpreter.machine.elements import Elements
from pallasite.interpreter.machine.faults import not_allocated, outside
from pallasite.interpreter.machine.memory import Buffer, Memory
from pallasite.interpreter.values import Array
from pallasite.layouts.tiling import Tiling, offset_of

MOST_VIEWS = 32
"""Views that a ref remembers."""


class Ref(Elements):
    """A view of a buffer; reads and writes carriers (`interpreter.values`)."""

    __slots__ = ("blocks", "ends", "moved", "region", "registers", "views")

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
        self.codec = codec(element)
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
        self.moved: tuple[Array, Array, Any] | None = None
        """The contents of its buffer, and the view of them that a transfer copied last
        (`transfer`)."""
        self._address = self._bits = None
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
        other.region = other.registers = other.moved = other._address = other._bits = None
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

    def on(self, memory: Memory, at: SourceLocation | None = None) -> Ref:
        """The same ref in another core's memory: the allocation at the same address there."""
        twin = memory.at(self.buffer.address)
        if twin is None or twin.size != self.buffer.size:
            raise not_allocated(self, memory, at)
        return self.over(twin)

    def over(self, buffer: Buffer) -> Ref:
        """The same ref to another buffer of the same size."""
        return self._view(
            self.shape, self.digits, self.starts, self.base, self.blocks, self.ends, buffer
        )

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
                base += offset_of(digits, self.starts[d])
        kept = self._view(
            tuple([self.shape[d] for d in dims]),
            tuple([self.digits[d] for d in dims]),
            tuple([self.starts[d] for d in dims]),
            base,
            tuple([self.blocks[d] for d in dims]),
            tuple([self.ends[d] for d in dims]),
        )
        return self._kept(key, kept)
