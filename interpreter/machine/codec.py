"""Between bytes in memory and carriers: one `Codec` per element type.

Memory is little endian and packed: elements narrower than 32 bits that share a word follow each
other from the low bits up (spec/vreg_lowering.md 1.1). Types narrower than a byte are reached
through whole words where a box covers them, else byte by byte. Masks (i1) take one byte each;
arrays of booleans are i32 memrefs (spec/pallas_semantics.md 1.5).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import BFloat16Type, Float16Type, IndexType, IntegerType
from xdsl.ir import Attribute

from pallasite.diagnostics import Unsupported
from pallasite.interpreter import values
from pallasite.interpreter.machine.boxes import Piece, offsets
from pallasite.interpreter.values import Array
from pallasite.layouts.registers import packing

if TYPE_CHECKING:
    from pallasite.interpreter.machine.memory import Buffer

Bytes = NDArray[np.uint8]

if sys.byteorder != "little":
    raise ImportError("pallasite models little-endian memory and needs a little-endian host")

_UNSIGNED: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32}
_HIGH = np.uint32(0xFFFF0000)


def view(memory: Bytes, dtype: Any, base: int, piece: Piece, bits: int) -> Array:
    """The elements of `piece` as an array over `memory`; `base` is added to its own offset, in
    elements."""
    size = bits >> 3
    return np.ndarray(
        piece.shape, dtype, memory, (base + piece.base) * size, _scaled(piece.strides, size)
    )


@lru_cache(maxsize=1 << 12)
def _scaled(strides: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Strides of elements of `size` bytes in bytes."""
    return tuple([stride * size for stride in strides])


def words(memory: Bytes, base: int, piece: Piece, packing: int) -> NDArray[np.uint32]:
    """The 32-bit words of `piece`, whose `pair` axis has been dropped."""
    keep = [axis for axis in range(len(piece.shape)) if axis != piece.pair]
    return np.ndarray(
        [piece.shape[axis] for axis in keep],
        np.uint32,
        memory,
        (base + piece.base) // packing * 4,
        [piece.strides[axis] // packing * 4 for axis in keep],
    )


class Codec:
    """Elements whose bytes are a NumPy type: f32, i32, i16, i8 and, through a cast, the others."""

    def __init__(self, bits: int, carrier: Any, storage: Any) -> None:
        self.bits = bits
        self.packing = packing(bits)
        self.carrier = np.dtype(carrier)
        self.storage = np.dtype(storage)
        self.mark = np.dtype(_UNSIGNED.get(bits, np.uint8))
        """How the shadow of an element is read: none of its bits is set before it is written."""
        self.integral = self.storage.kind == "i" and self.storage == self.carrier
        """Whether what memory holds is the carrier, and its item the scalar carrier."""

    def decode(self, memory: Bytes, base: int, piece: Piece, out: Array) -> None:
        """Fills `out` (of the piece's shape) with what memory holds."""
        out[...] = view(memory, self.storage, base, piece, self.bits)

    def encode(
        self, memory: Bytes, base: int, piece: Piece, array: Array, mask: Array | None
    ) -> None:
        """Writes `array` (of the piece's shape) where `mask` is true, everywhere without one."""
        target = view(memory, self.storage, base, piece, self.bits)
        if mask is None:
            target[...] = array
        else:
            np.copyto(target, array, where=mask, casting="unsafe")

    def reader(self, memory: Bytes, base: int, piece: Piece) -> Callable[[], Array] | None:
        """`decode` of one piece as a function that makes a new array each time; None if that is not
        faster."""
        source = view(memory, self.storage, base, piece, self.bits)
        if self.storage == self.carrier:
            return source.copy
        carrier = self.carrier
        return lambda: source.astype(carrier, order="C")

    def viewer(self, memory: Bytes, base: int, piece: Piece) -> Array | None:
        """One piece as a view of memory that nobody may write to; None if its elements are not held
        as their carriers."""
        if self.storage != self.carrier:
            return None
        found = view(memory, self.storage, base, piece, self.bits)
        found.flags.writeable = False
        return found

    def target(self, memory: Bytes, base: int, piece: Piece) -> Array | None:
        """One piece as a view of memory to which carriers are assigned; None if they are encoded
        otherwise."""
        return view(memory, self.storage, base, piece, self.bits)

    def writer(self, memory: Bytes, base: int, piece: Piece) -> Callable[[Array], None] | None:
        """`encode` without a mask of one piece that has no `target`; None if that is not faster."""
        return None

    def stored(self, memory: Bytes, base: int, piece: Piece) -> Array | None:
        """One piece as a view of what memory holds; None if elements are narrower than a byte."""
        return view(memory, self.storage, base, piece, self.bits)

    def widened(self, stored: Array) -> Array:
        """The carriers of `stored` elements, in memory in the order of its axes."""
        return stored.astype(self.carrier, order="C")

    def narrowed(self, array: Array) -> Array:
        """What memory holds of carriers."""
        return array.astype(self.storage)

    def item(self, buffer: Buffer, offset: int) -> Any:
        """The element at an element offset as a Python number."""
        if self.integral:
            return buffer.integers(self.storage)[offset]
        return self.take(buffer.bytes, np.array([offset])).item()

    def take(self, memory: Bytes, offsets: NDArray[np.int64]) -> Array:
        """The elements at arbitrary element offsets."""
        return memory.view(self.storage)[offsets].astype(self.carrier)

    def put(self, memory: Bytes, offsets: NDArray[np.int64], array: Array) -> None:
        """Writes elements at arbitrary element offsets; of equal offsets the last one wins."""
        memory.view(self.storage)[offsets] = array


class BFloat16Codec(Codec):
    """bf16 is carried as float32 with a zero low half: a pair is a shift and a mask of its word."""

    def __init__(self) -> None:
        super().__init__(16, np.float32, np.uint16)

    def decode(self, memory: Bytes, base: int, piece: Piece, out: Array) -> None:
        wide = out.view(np.uint32)
        if piece.pair < 0 or base & 1:
            np.left_shift(view(memory, np.uint16, base, piece, 16), 16, out=wide, dtype=np.uint32)
            return
        source = words(memory, base, piece, 2)
        before = (slice(None),) * piece.pair
        # The ellipsis keeps a single pair an array.
        np.left_shift(source, 16, out=wide[(*before, 0, ...)])
        np.bitwise_and(source, _HIGH, out=wide[(*before, 1, ...)])

    def encode(
        self, memory: Bytes, base: int, piece: Piece, array: Array, mask: Array | None
    ) -> None:
        wide = array.view(np.uint32)
        if mask is not None or piece.pair < 0 or base & 1:
            halves = (wide >> 16).astype(np.uint16)
            super().encode(memory, base, piece, halves, mask)
            return
        target = words(memory, base, piece, 2)
        before = (slice(None),) * piece.pair
        np.bitwise_or(wide[(*before, 0)] >> 16, wide[(*before, 1)] & _HIGH, out=target)

    def reader(self, memory: Bytes, base: int, piece: Piece) -> Callable[[], Array] | None:
        if piece.pair < 0 or base & 1:
            return None
        return partial(halves(piece.shape, piece.pair), words(memory, base, piece, 2))

    def target(self, memory: Bytes, base: int, piece: Piece) -> Array | None:
        return None

    def writer(self, memory: Bytes, base: int, piece: Piece) -> Callable[[Array], None] | None:
        if piece.pair < 0 or base & 1:
            return None
        target, join = words(memory, base, piece, 2), joined(piece.pair)
        return lambda array: join(array, target)

    def widened(self, stored: Array) -> Array:
        wide = stored.astype(np.uint32, order="C")
        wide <<= 16
        return wide.view(np.float32)

    def narrowed(self, array: Array) -> Array:
        return (array.view(np.uint32) >> 16).astype(np.uint16)

    def take(self, memory: Bytes, offsets: NDArray[np.int64]) -> Array:
        halves = memory.view(np.uint16)[offsets]
        return (halves.astype(np.uint32) << 16).view(np.float32)

    def put(self, memory: Bytes, offsets: NDArray[np.int64], array: Array) -> None:
        memory.view(np.uint16)[offsets] = (array.view(np.uint32) >> 16).astype(np.uint16)


class ByteCodec(Codec):
    """Types of one byte that NumPy does not know (f8, i1): decoded by a table of all 256 bytes."""

    def __init__(self, element: Attribute) -> None:
        super().__init__(8, values.carrier(element), np.uint8)
        self._bits_of = values.bits_of(element)
        self._table = values.values_of(element)(np.arange(256, dtype=np.uint8))

    def decode(self, memory: Bytes, base: int, piece: Piece, out: Array) -> None:
        out[...] = self._table[view(memory, np.uint8, base, piece, 8)]

    def encode(
        self, memory: Bytes, base: int, piece: Piece, array: Array, mask: Array | None
    ) -> None:
        super().encode(memory, base, piece, self._bits_of(array), mask)

    def reader(self, memory: Bytes, base: int, piece: Piece) -> Callable[[], Array] | None:
        return None

    def target(self, memory: Bytes, base: int, piece: Piece) -> Array | None:
        return None

    def widened(self, stored: Array) -> Array:
        return self._table[np.ascontiguousarray(stored)]

    def narrowed(self, array: Array) -> Array:
        return self._bits_of(array)

    def take(self, memory: Bytes, offsets: NDArray[np.int64]) -> Array:
        return self._table[memory[offsets]]

    def put(self, memory: Bytes, offsets: NDArray[np.int64], array: Array) -> None:
        memory[offsets] = self._bits_of(array)


class PackedCodec(Codec):
    """Elements of 4 or 2 bits, several to a byte. `element` None: carried as their own bits."""

    def __init__(self, element: Attribute | None, bits: int) -> None:
        super().__init__(bits, np.uint8 if element is None else values.carrier(element), np.uint8)
        self._bits_of = None if element is None else values.bits_of(element)
        self._values_of = None if element is None else values.values_of(element)
        self._mask = np.uint8((1 << bits) - 1)

    def decode(self, memory: Bytes, base: int, piece: Piece, out: Array) -> None:
        if piece.pair < 0 or base % self.packing:
            out[...] = self.take(memory, offsets(piece.shape, piece.strides, base + piece.base))
            return
        source = words(memory, base, piece, self.packing)
        before = (slice(None),) * piece.pair
        for position in range(self.packing):
            field = (source >> (position * self.bits)).astype(np.uint8) & self._mask
            out[(*before, position)] = self._values_of(field) if self._values_of else field

    def encode(
        self, memory: Bytes, base: int, piece: Piece, array: Array, mask: Array | None
    ) -> None:
        places = offsets(piece.shape, piece.strides, base + piece.base)
        if mask is not None:
            where = np.broadcast_to(mask, piece.shape)
            self.put(memory, places[where], np.broadcast_to(array, piece.shape)[where])
            return
        if piece.pair < 0 or base % self.packing:
            self.put(memory, places, array)
            return
        fields = self._bits_of(array) if self._bits_of else array
        target = words(memory, base, piece, self.packing)
        before = (slice(None),) * piece.pair
        packed = np.zeros(target.shape, np.uint32)
        for position in range(self.packing):
            packed |= fields[(*before, position)].astype(np.uint32) << (position * self.bits)
        target[...] = packed

    def reader(self, memory: Bytes, base: int, piece: Piece) -> Callable[[], Array] | None:
        return None

    def viewer(self, memory: Bytes, base: int, piece: Piece) -> Array | None:
        return None

    def target(self, memory: Bytes, base: int, piece: Piece) -> Array | None:
        return None

    def stored(self, memory: Bytes, base: int, piece: Piece) -> Array | None:
        return None

    def take(self, memory: Bytes, offsets: NDArray[np.int64]) -> Array:
        per_byte = 8 // self.bits
        shift = (offsets % per_byte * self.bits).astype(np.uint8)
        field = memory[offsets // per_byte] >> shift & self._mask
        return self._values_of(field) if self._values_of else field

    def put(self, memory: Bytes, offsets: NDArray[np.int64], array: Array) -> None:
        per_byte = 8 // self.bits
        fields = self._bits_of(array) if self._bits_of else array
        for position in range(per_byte):
            here = offsets % per_byte == position
            at = offsets[here] // per_byte
            kept = memory[at] & ~np.uint8(int(self._mask) << (position * self.bits))
            memory[at] = kept | fields[here] << np.uint8(position * self.bits)


def halves(shape: tuple[int, ...], pair: int) -> Callable[[Array], Array]:
    """The function that makes bf16 carriers of `shape`, whose axis `pair` is that of a word, from
    words."""
    held, order = _halves_apart(shape, pair)
    low, high = (((slice(None),) * pair + (half, ...)) for half in (0, 1))

    def split(source: Array) -> Array:
        out = np.empty(held, np.float32).transpose(order)
        wide = out.view(np.uint32)
        np.left_shift(source, 16, out=wide[low])
        np.bitwise_and(source, _HIGH, out=wide[high])
        return out

    return split


def joined(pair: int) -> Callable[[Array, Array], None]:
    """The function that makes words from such carriers."""
    low, high = (((slice(None),) * pair + (half, ...)) for half in (0, 1))

    def join(array: Array, target: Array) -> None:
        wide = array.view(np.uint32)
        np.bitwise_or(wide[low] >> 16, wide[high] & _HIGH, out=target)

    return join


def _halves_apart(shape: tuple[int, ...], pair: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How an array of `shape` lies in memory of this computer, and the order in which its axes are
    there: with lanes next to each other rather than the elements of a word, which NumPy fills, and
    takes apart into rows, many times faster."""
    last = len(shape) - 1
    if not 0 < pair == last:
        return shape, tuple(range(len(shape)))
    return (*shape[: last - 1], shape[last], shape[last - 1]), (*range(last - 1), last, last - 1)


def is_semaphore(element: Attribute) -> bool:
    """Whether `element` is one of the two semaphore types, which count words but hold no values."""
    return element.name in ("tpu.semaphore", "tpu.dma_semaphore")


def memory_bits(element: Attribute) -> int:
    """Bits of one element in memory: its width, but 8 for i1, and 32 for index and semaphores."""
    if is_semaphore(element) or isinstance(element, IndexType):
        return 32
    return 8 if element == IntegerType(1) else values.width(element)


@cache
def codec(element: Attribute) -> Codec:
    """How elements of type `element` lie in memory."""
    bits = memory_bits(element)
    if bits not in (2, 4, 8, 16, 32):
        raise Unsupported(
            "element-width",
            f"memory holds elements of 2, 4, 8, 16 or 32 bits, got {element} ({bits} bits)",
        )
    if bits < 8:
        return PackedCodec(element, bits)
    if isinstance(element, BFloat16Type):
        return BFloat16Codec()
    if isinstance(element, IndexType):
        return Codec(32, np.int64, np.int32)
    if is_semaphore(element):
        return Codec(32, np.int32, np.int32)
    if isinstance(element, Float16Type):
        return Codec(16, np.float32, np.float16)
    if element == IntegerType(1) or values.storage_float(element) is not None:
        return ByteCodec(element)
    return Codec(bits, values.carrier(element), values.carrier(element))


@cache
def raw_codec(bits: int) -> Codec:
    """The codec that carries elements of `bits` bits as unsigned integers, unchanged."""
    return PackedCodec(None, bits) if bits < 8 else Codec(bits, _UNSIGNED[bits], _UNSIGNED[bits])
