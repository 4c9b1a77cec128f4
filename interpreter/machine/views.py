"""Refs: the run-time values of memref type.

A `Ref` is a buffer seen through an element type and, per visible dimension, an extent, a first
coordinate and the digits of its address (`boxes`). Squeezed dimensions have gone into the base
offset. A ref is immutable; slicing, squeezing, reshaping and bitcasting make new ones without
touching memory. Accesses of its elements are in `elements`, those of registers in `rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
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

MOST_VIEWS = 128
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

    def like(
        self,
        shape: tuple[int, ...],
        digits: tuple[Digits, ...],
        starts: tuple[int, ...],
        base: int,
        blocks: tuple[int, ...],
        ends: tuple[int, ...],
        buffer: Buffer | None = None,
        bits: int | None = None,
    ) -> Ref:
        """Another view with the same element type, made faster than a new ref; `bits` are its
        `bit_count` if that is known."""
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
        other.region = other.registers = other.moved = other._address = None
        other._bits = bits
        other.views = {}
        return other

    def remember(self, key: Any, other: Ref) -> Ref:
        """Keeps a view for the next time: kernels take the same few slots again and again."""
        if len(self.views) >= MOST_VIEWS:
            del self.views[next(iter(self.views))]
        self.views[key] = other
        return other

    @staticmethod
    def of(buffer: Buffer, element: Attribute, shape: Sequence[int], tiling: Tiling) -> Ref:
        """The array that begins with the first byte of a buffer."""
        return Ref(buffer, element, tuple(shape), digits_of(tiling), blocks=blocks_of(tiling))

    def on(self, memory: Memory, at: SourceLocation | None = None) -> Ref:
        """The same ref in another core's memory: the allocation at the same address there."""
        twin = memory.at(self.buffer.address)
        if twin is None or twin.size != self.buffer.size:
            raise not_allocated(self, memory, at)
        return self.over(twin)

    def over(self, buffer: Buffer) -> Ref:
        """The same ref to another buffer of the same size."""
        return self.like(
            self.shape, self.digits, self.starts, self.base, self.blocks, self.ends, buffer
        )

    def slice(
        self,
        starts: Sequence[int],
        sizes: Sequence[int],
        at: SourceLocation | None = None,
        counted: bool = False,
    ) -> Ref:
        """The box of `sizes` at `starts`.

        It may end in the padding of the last tile. A box without elements may be anywhere, as
        kernels compute its place even if nothing is copied; one that is only `counted`, not
        accessed, may end anywhere.
        """
        key = tuple(starts), tuple(sizes)
        known = self.views.get(key)
        if known is not None:
            return known
        if 0 in sizes:
            # What is there still tells of which block of a buffer it is the first, empty, part.
            ends = map(add, starts, sizes)
            within = zip(starts, ends, self.shape, strict=True)
            starts = tuple([s if 0 <= s < n >= end else 0 for s, end, n in within])
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
        box = self.like(key[1], self.digits, moved, self.base, self.blocks, self.ends)
        return box if beyond else self.remember(key, box)

    def keep(self, dims: Sequence[int]) -> Ref:
        """A view of only the dimensions `dims`; the others are fixed at their first coordinate."""
        if (known := self.views.get(key := tuple(dims))) is not None:
            return known
        base = self.base
        for d, digits in enumerate(self.digits):
            if d not in dims:
                base += offset_of(digits, self.starts[d])
        kept = self.like(
            tuple([self.shape[d] for d in dims]),
            tuple([self.digits[d] for d in dims]),
            tuple([self.starts[d] for d in dims]),
            base,
            tuple([self.blocks[d] for d in dims]),
            tuple([self.ends[d] for d in dims]),
        )
        return self.remember(key, kept)


class Part:
    """The box of `sizes` of refs, with only the dimensions `kept`; what refs that lie alike share
    is computed once."""

    def __init__(
        self, sizes: tuple[int, ...], kept: tuple[int, ...], at: SourceLocation | None = None
    ) -> None:
        self.sizes = sizes
        self.kept = kept
        self.at = at
        self.key = sizes if len(kept) == len(sizes) else (sizes, kept)
        """What refs remember the view by, beside the starts."""
        self._shape = tuple([sizes[d] for d in kept])
        self._count = prod(self._shape)
        self._of: Any = None
        """Of the last ref, what the following depends on."""
        self._steps: list[tuple[int, int]] = []
        """Of each dimension the last start, and how far apart elements are, if it is dropped."""
        self._first = 0
        self._starts: tuple[int, ...] | None = None
        """Those of the view, if they are the same wherever it begins."""
        self._digits: tuple[Digits, ...] = ()
        self._blocks: tuple[int, ...] = ()
        self._ends: tuple[int, ...] = ()

    def of(self, ref: Ref, *starts: int) -> Ref:
        """The part of `ref` at `starts`."""
        like = ref.shape, ref.starts, ref.digits, ref.blocks, ref.ends
        if like != self._of:
            self._prepare(ref)
            self._of = like
        base = ref.base + self._first
        for start, (last, step) in zip(starts, self._steps, strict=False):
            if not 0 <= start <= last:
                break
            if step:
                base += start * step
        else:
            if self._steps:
                firsts = self._starts
                if firsts is None:
                    firsts = tuple(map(add, ref.starts, starts))
                    if len(self.kept) != len(starts):
                        firsts = tuple([firsts[d] for d in self.kept])
                view = ref.like(
                    self._shape, self._digits, firsts, base, self._blocks, self._ends,
                    bits=self._count * ref.codec.bits,
                )  # fmt: skip
                return ref.remember((starts, self.key), view)
        box = ref.slice(starts, self.sizes, self.at)
        return box if len(self.kept) == len(self.sizes) else box.keep(self.kept)

    def _prepare(self, ref: Ref) -> None:
        """Computes what is the same wherever the part of `ref` begins."""
        dropped = set(range(len(self.sizes))).difference(self.kept)
        self._steps = []
        if 0 in self.sizes or any(len(ref.digits[d]) > 1 for d in dropped):
            return
        strides = [ref.digits[d][0][1] if d in dropped else 0 for d in range(len(self.sizes))]
        lasts = [extent - size for extent, size in zip(ref.shape, self.sizes, strict=True)]
        self._steps = list(zip(lasts, strides, strict=True))
        self._first = sum(ref.starts[d] * strides[d] for d in dropped)
        whole = all(lasts[d] == 0 for d in self.kept)
        self._starts = tuple([ref.starts[d] for d in self.kept]) if whole else None
        self._digits = tuple([ref.digits[d] for d in self.kept])
        self._blocks = tuple([ref.blocks[d] for d in self.kept])
        self._ends = tuple([ref.ends[d] for d in self.kept])
