"""Loads and stores of memory whose elements are narrower than values, such as bf16.

A kernel sees these in VMEM, where the elements of two rows share a word. A script treats them as
elements of their own type, so that they can be read from, and written to, arrays in HBM directly.
Those that remain in words in the end are unpacked and packed word by word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from pallasite.interpreter.machine.codec import BFloat16Codec, Codec, halves, joined
from pallasite.interpreter.machine.register_access import Access
from pallasite.interpreter.machine.rows import inverse
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.replay.lines import Box, Line
from pallasite.interpreter.values import Array

Order = tuple[int, ...]


class Narrow(NamedTuple):
    """How narrow elements become values: their codec, and the order of their axes in memory."""

    codec: Codec
    order: Order

    @property
    def load(self) -> Callable[[Array], Array]:
        """A function that makes an array of values from a view of elements."""
        return _loading(*self)

    @property
    def store(self) -> Callable[[Array, Array], None]:
        """A function that writes an array of values to a view of elements."""
        return _storing(self.codec)

    @property
    def behind(self) -> Narrow:
        """The same of elements whose axes come behind another one."""
        return self._replace(order=(0, *(axis + 1 for axis in self.order)))

    def along(self, box: Box) -> Narrow:
        """The same with the order in which the axes of `box` lie in memory."""
        axes = sorted(range(len(box.shape)), key=lambda axis: -abs(box.strides[axis]))
        return self._replace(order=tuple(axes))

    def seen(self, look: Callable[..., Array], boxes: Sequence[Box]) -> Box | None:
        """The elements whose values `look` gives from those of `boxes`; None if it does more than
        view."""
        memory, dtype, carrier = boxes[0].memory, boxes[0].dtype, self.codec.carrier
        times = carrier.itemsize // dtype.itemsize
        if any(box.memory != memory for box in boxes):
            return None
        low = min(box.span[0] for box in boxes)
        room = np.empty((max(box.span[1] for box in boxes) - low) * times, np.uint8)
        views = [
            np.ndarray(
                box.shape,
                carrier,
                room,
                (box.first - low) * times,
                [s * times for s in box.strides],
            )
            for box in boxes
        ]
        found = look(*views)
        if found.dtype != carrier or not np.may_share_memory(found, room):
            return None
        seen = Box.of(found, room, memory)
        strides = tuple([step // times for step in seen.strides])
        return seen._replace(dtype=dtype, first=seen.first // times + low, strides=strides)


def elements_of(access: Access, ref: Ref, memory: str) -> tuple[Box, Narrow] | None:
    """What `access` touches, as elements of `memory`, the contents of the ref; None if they are no
    box."""
    contents = ref.buffer.bytes
    stored = access.stored(ref.codec, ref.base, contents)
    if stored is None:
        return None
    narrow = Narrow(ref.codec, access.plan.order)
    return Box.of(stored.transpose(inverse(narrow.order)), contents, memory), narrow


def settled(line: Line, bind: Callable[[str, Any], str]) -> Line:
    """The final form of `line`: elements that still are in words are split or joined word by
    word."""
    if line.narrow is None:
        return line
    codec, order = line.narrow
    box = line.write if line.read is None else line.read
    pair = _pair(box) if isinstance(codec, BFloat16Codec) and isinstance(box, Box) else None
    if pair is None or not isinstance(box, Box):
        return line
    inner = [axis for axis in order if axis != pair]
    shape, strides = ([sizes[axis] for axis in inner] for sizes in (box.shape, box.strides))
    words = Box(box.memory, tuple(shape), np.dtype(np.uint32), box.first, tuple(strides))
    if line.read is None:
        join = bind("f", _joining(order, order.index(pair)))
        return line._replace(text=f"{join}({line.text.partition('(')[2]}", write=words)
    held = tuple(box.shape[axis] for axis in order)
    text = f"{{}} = {bind('f', _splitting(held, order, order.index(pair)))}({{r}})"
    return line._replace(text=text, read=words)


def _pair(box: Box) -> int | None:
    """The axis along which two elements share a word; None if `box` is not made of whole words."""
    sizes = list(zip(box.shape, box.strides, strict=True))
    pairs = [axis for axis, size in enumerate(sizes) if size == (2, 2)]
    others = [step for n, step in sizes if n > 1 and (n, step) != (2, 2)]
    if box.first % 4 or len(pairs) != 1 or any(step % 4 for step in others):
        return None
    return pairs[0]


@lru_cache(maxsize=1 << 8)
def _loading(codec: Codec, order: Order) -> Callable[[Array], Array]:
    back = inverse(order)
    return lambda elements: codec.widened(elements.transpose(order)).transpose(back)


@lru_cache(maxsize=1 << 4)
def _storing(codec: Codec) -> Callable[[Array, Array], None]:
    def store(array: Array, elements: Array) -> None:
        elements[...] = codec.narrowed(array)

    return store


@lru_cache(maxsize=1 << 8)
def _splitting(shape: tuple[int, ...], order: Order, pair: int) -> Callable[[Array], Array]:
    split, back = halves(shape, pair), inverse(order)
    return lambda words: split(words).transpose(back)


@lru_cache(maxsize=1 << 8)
def _joining(order: Order, pair: int) -> Callable[[Array, Array], None]:
    join = joined(pair)
    return lambda array, words: join(array.transpose(order), words)
