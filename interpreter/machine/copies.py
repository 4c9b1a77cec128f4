"""Copies of elements between refs, and between arrays and refs, whatever the tilings of the two.

Both sides are cut into strided views (`boxes`). Where their axes have a common refinement the copy
is one NumPy assignment between two views; else the elements pass through a row-major array.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pallasite.interpreter.machine import boxes
from pallasite.interpreter.machine.boxes import Digits, Piece
from pallasite.interpreter.machine.codec import raw_codec
from pallasite.interpreter.machine.memory import Buffer
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.values import Array
from pallasite.layouts.tiling import Tiling, contiguous_strides

if TYPE_CHECKING:
    from pallasite.interpreter.replay.recorder import Recorder

Bytes = NDArray[np.uint8]


def copy_elements(source: Ref, target: Ref) -> None:
    """Copies all elements; shapes and element widths are equal. Initialised marks travel along."""
    memory, shadow = source.buffer.bytes, source.buffer.shadow
    route = route_between(source, target)
    buffer = target.buffer
    if not buffer.touched and target.byte_count == buffer.size:
        buffer.unfilled()
    other = buffer.bytes
    if route is None:
        _move(memory, source, other, target, None)
    else:
        begin, end, parts = route
        read, written = _end(source, memory, begin), _end(target, other, end)
        # Within one buffer, what is written may be what is read.
        if not parts or other is memory:
            written[...] = read
        else:
            for part in parts:
                written[part] = read[part]
    if shadow is None:
        if target.buffer.shadow is not None:
            target.mark_whole()
        return
    marks = target.buffer.reopened()
    if marks is not None:
        _move(shadow, source, marks, target, route)


def route_between(source: Ref, target: Ref) -> Route | None:
    """How all elements of `source` are copied to `target` at once, if that is possible."""
    return route_of(
        source.digits, source.starts, source.base, target.digits, target.starts, target.base,
        source.shape, source.codec.bits,
    )  # fmt: skip


def snapshot(ref: Ref) -> Ref:
    """A copy of all elements in a buffer of its own, which no memory accounts for."""
    held = row_major(ref)
    if ref.buffer.shadow is not None:
        held.buffer.track()
    held.buffer.unfilled()
    copy_elements(ref, held)
    return held


def spoil(ref: Ref, recorder: Recorder | None = None) -> None:
    """Makes all elements what memory holds that nobody has written, and tells `recorder`."""
    held = row_major(ref)
    held.buffer.track()
    copy_elements(held, ref)
    held.buffer.forget()
    if recorder is not None:
        recorder.spoiled(held, ref)


def same_bits(dtype: np.dtype[Any], ref: Ref) -> bool:
    """Whether elements of `dtype`, of the same type as those of `ref`, lie in memory as they do in
    arrays: booleans do not, and types narrower than a byte have one to themselves in arrays."""
    return dtype.itemsize * 8 == ref.codec.bits and dtype.kind != "b"


def write_array(array: Array, ref: Ref) -> None:
    """Copies an array that has the `same_bits` to memory."""
    copy_elements(_over(np.ascontiguousarray(array), ref), ref)


def read_array(ref: Ref, out: Array) -> None:
    """Copies memory to a contiguous array that has the `same_bits`."""
    copy_elements(ref, _over(out, ref))


def _over(array: Array, ref: Ref) -> Ref:
    """The bytes of a contiguous array as a ref with the shape and the element type of `ref`."""
    held = row_major(ref)
    held.buffer.bytes = array.reshape(-1).view(np.uint8)
    return held


def row_major(ref: Ref) -> Ref:
    """A ref like `ref` to a buffer of its own, in which its elements follow each other."""
    tiling = Tiling((), contiguous_strides(ref.shape, ()))
    size = tiling.elements(ref.shape) * ref.codec.bits // 8 + 4
    buffer = Buffer(ref.buffer.memory, 0, size, ref.buffer.name, ref.buffer.location)
    return Ref.of(buffer, ref.element, ref.shape, tiling)


def _pieces(ref: Ref) -> tuple[Piece, ...]:
    found = boxes.pieces(ref.digits, ref.starts, ref.shape, None, ref.codec.packing)
    # Without steps every box is made of strided views.
    return found or ()


def _end(ref: Ref, memory: Bytes, end: End) -> Array:
    """One end of a route as a view of `memory`, the contents of `ref`. A ref of a core's own memory
    remembers the last one: kernels copy from and to the same few slots again and again."""
    kept = ref.moved
    if kept is not None and kept[0] is memory and kept[2] is end:
        return kept[1]
    view = end.view(memory)
    if ref.buffer.memory.kind != "hbm":
        ref.moved = memory, view, end
    return view


def move_between(source: Ref, target: Ref, memory: Bytes, other: Bytes) -> None:
    """Copies what `memory` holds of `source` to where `other` holds `target`, if there is no
    route."""
    _move(memory, source, other, target, None)


def _move(memory: Bytes, source: Ref, other: Bytes, target: Ref, route: Route | None) -> None:
    """Copies the elements of `source` in its `memory` to where `target` has them in the `other`."""
    if route is not None:
        route.write.view(other)[...] = route.read.view(memory)
        return
    raw = raw_codec(source.codec.bits)
    whole = np.empty(source.shape, raw.carrier)
    for piece in _pieces(source):
        part: Any = whole if piece.part is None else whole[piece.part]
        raw.decode(memory, source.base, piece, part.reshape(piece.shape))
    for piece in _pieces(target):
        part = whole if piece.part is None else whole[piece.part]
        raw.encode(other, target.base, piece, part.reshape(piece.shape), None)


class End(NamedTuple):
    """A view of memory from byte `first` on; told apart by identity, which is quick."""

    shape: tuple[int, ...]
    unit: Any
    first: int
    strides: tuple[int, ...]
    """In bytes."""

    def view(self, memory: Bytes) -> Array:
        """The elements, of this unit, in `memory`."""
        shape, unit, first, strides = self
        return np.ndarray(shape, unit, memory, first, strides)


@lru_cache(maxsize=1 << 14)
def _end_of(shape: tuple[int, ...], unit: Any, first: int, strides: tuple[int, ...]) -> End:
    """The end of these fields, of which equal ones are one object."""
    return End(shape, unit, first, strides)


class Route(NamedTuple):
    """A copy of one view to another, which have the same shape and unit."""

    read: End
    write: End
    parts: tuple[Any, ...]
    """What is copied by itself, as indices of both views; none if that is all at once."""


MOST_PARTS = 4
LEAST_SPLIT = 1024
"""Elements of the smallest copy that is worth several."""


def parts_of(
    shape: tuple[int, ...], read: tuple[int, ...], write: tuple[int, ...]
) -> tuple[Any, ...]:
    """The parts in which a view of `shape` is copied, strides being those of both sides.

    NumPy's inner loop runs along the axis that is the densest where it writes. Where these are the
    2 or 4 elements of a word, which lie apart on the other side, it is many times faster to copy
    first elements, then second ones.
    """
    axes = [axis for axis, extent in enumerate(shape) if extent > 1]
    inner = min(axes, key=lambda axis: write[axis], default=0)
    if len(axes) < 2 or shape[inner] > MOST_PARTS or prod(shape) < LEAST_SPLIT:
        return ()
    count = shape[inner]
    if any(
        read[axis] == count * read[inner] and write[axis] == count * write[inner] for axis in axes
    ):
        # Both go on along another axis, and so does NumPy's loop.
        return ()
    return tuple((slice(None),) * inner + (place,) for place in range(count))


@lru_cache(maxsize=1 << 14)
def route_of(
    digits: tuple[Digits, ...],
    starts: tuple[int, ...],
    base: int,
    other: tuple[Digits, ...],
    places: tuple[int, ...],
    place: int,
    shape: tuple[int, ...],
    bits: int,
) -> Route | None:
    """How the box of `shape` at `starts` and `base` is copied to the one at `places` and `place`.

    None if the axes of both cannot be split alike.
    """
    packing = raw_codec(bits).packing
    read = boxes.pieces(digits, starts, shape, None, packing) or ()
    write = boxes.pieces(other, places, shape, None, packing) or ()
    if len(read) != 1 or len(write) != 1:
        return None
    first, second = base + read[0].base, place + write[0].base
    aligned = first % packing == 0 and second % packing == 0
    plan = _plan(
        read[0].shape, read[0].strides, read[0].pair if aligned else -1,
        write[0].shape, write[0].strides, write[0].pair if aligned else -1, bits,
    )  # fmt: skip
    if plan is None:
        return None
    return Route(
        _end_of(plan.shape, plan.unit, first * bits // 8, plan.read),
        _end_of(plan.shape, plan.unit, second * bits // 8, plan.write),
        plan.parts,
    )


class _Plan(NamedTuple):
    unit: Any
    """What is copied at once: an element, or a word if both sides pack alike."""
    shape: tuple[int, ...]
    read: tuple[int, ...]
    write: tuple[int, ...]
    """Strides in bytes."""
    parts: tuple[Any, ...]


@lru_cache(maxsize=1 << 12)
def _plan(
    first: tuple[int, ...],
    a: tuple[int, ...],
    pair: int,
    second: tuple[int, ...],
    b: tuple[int, ...],
    other: int,
    bits: int,
) -> _Plan | None:
    unit = raw_codec(max(bits, 8)).storage
    if pair >= 0 and other >= 0 and prod(first[pair:]) == prod(second[other:]):
        # Words are whole on both sides, and in the same place: leave their axis out.
        unit = np.dtype(np.uint32)
        first, a = (t[:pair] + t[pair + 1 :] for t in (first, a))
        second, b = (t[:other] + t[other + 1 :] for t in (second, b))
    elif bits < 8:
        return None
    axes = _refine(first, a, second, b)
    if axes is None:
        return None
    shape, read, write = axes
    first, second = (tuple([stride * bits // 8 for stride in side]) for side in (read, write))
    return _Plan(unit, tuple(shape), first, second, parts_of(tuple(shape), first, second))


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
