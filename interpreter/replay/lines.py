"""The lines of scripts, and the views of memory that they read and write."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pallasite.interpreter.machine.copies import End
from pallasite.interpreter.values import Array

if TYPE_CHECKING:
    from pallasite.interpreter.replay.narrow import Narrow

COPY = "{w}[...] = {r}"
LOOK = "{} = {r}[...]"
"""Makes a view of what it reads."""
STORE = "{w}[...] = {0}"


class Whole(NamedTuple):
    """All of a memory; `memory` is its name in the script."""

    memory: str

    def text(self, bind: Callable[[str, Any], str]) -> str:
        """A Python expression that makes it; `bind` names a constant."""
        return self.memory


class _Box(NamedTuple):
    memory: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    first: int
    """Offset in bytes."""
    strides: tuple[int, ...]
    """In bytes."""


class Box(_Box):
    """Elements of a memory as an array with a shape and strides in bytes."""

    @staticmethod
    def of(view: Array, contents: Array, memory: str) -> Box:
        """The box of `view`, an array that is a view of `contents`, the bytes of a memory."""
        first, begin = (a.__array_interface__["data"][0] for a in (view, contents))
        return Box(memory, view.shape, view.dtype, first - begin, view.strides)

    @staticmethod
    def at(end: End, memory: str) -> Box:
        """The box of one end of a copy."""
        return Box(memory, end.shape, np.dtype(end.unit), end.first, end.strides)

    def text(self, bind: Callable[[str, Any], str]) -> str:
        """A Python expression that makes it; `bind` names a constant."""
        shape, dtype, first, strides = (bind("c", x) for x in self[1:])
        return f"{bind('f', np.ndarray)}({shape}, {dtype}, {self.memory}, {first}, {strides})"

    @cached_property
    def span(self) -> tuple[int, int]:
        """(offset of its first byte, offset after its last byte)."""
        steps = [(n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)]
        if 0 in self.shape:
            return self.first, self.first
        low = self.first + sum(step for step in steps if step < 0)
        return low, self.first + sum(step for step in steps if step > 0) + self.dtype.itemsize

    @property
    def is_dense(self) -> bool:
        """Whether it covers every byte of its span, provided that it has no byte twice."""
        low, high = self.span
        steps = [step for n, step in zip(self.shape, self.strides, strict=True) if n > 1]
        return 0 not in steps and prod(self.shape) * self.dtype.itemsize == high - low


View = Whole | Box
_LEAST_ALIKE = 3
"""The smallest number of views that are made together."""


def groups(views: Iterable[View]) -> Iterator[list[View]]:
    """Groups `views` that differ only in their first byte, by equal distances.

    NumPy makes views by indexing one array in a fraction of the time that it takes to make each.
    """
    alike: dict[Hashable, list[Box]] = {}
    for view in views:
        if isinstance(view, Box) and view.shape:
            alike.setdefault(view._replace(first=0), []).append(view)
        else:
            yield [view]
    for boxes in alike.values():
        boxes.sort(key=lambda box: box.first)
        begin = 0
        while begin < len(boxes):
            end = begin + 1
            while end < len(boxes) and _step(boxes, end) == _step(boxes, begin + 1):
                end += 1
            if end - begin < _LEAST_ALIKE:
                end = begin + 1
            yield list(boxes[begin:end])
            begin = end


def _step(boxes: Sequence[Box], number: int) -> int:
    return boxes[number].first - boxes[number - 1].first


def together(group: Sequence[View], bind: Callable[[str, Any], str]) -> str:
    """A Python expression for the views of one of the `groups`."""
    first, *rest = group
    if not rest or not isinstance(first, Box) or not isinstance(rest[0], Box):
        return first.text(bind)
    shape, strides = (len(group), *first.shape), (rest[0].first - first.first, *first.strides)
    return Box(first.memory, shape, first.dtype, first.first, strides).text(bind)


class Line(NamedTuple):
    """One Python statement of a script.

    `text` is a format string: `{0}`, `{1}` and so on are the values that it takes, followed by
    those that it makes; `{r}` is the memory that it reads and `{w}` the memory that it writes.
    """

    text: str
    takes: tuple[int, ...] = ()
    makes: tuple[int, ...] = ()
    read: View | None = None
    write: View | None = None
    whole: bool = True
    """Whether it writes all of `write`, not only where a mask is set."""
    seen_through: tuple[int, ...] = ()
    """The values it takes that share memory with those it makes."""
    overwritten: int | None = None
    """The value that it writes over."""
    made_bytes: int = 0
    """Bytes of the new arrays that it makes."""
    is_load: bool = False
    """Whether it only copies what it reads."""
    look: Callable[..., Array] | None = None
    """The function that it calls on all that it takes, if the result may be a view: it was one if
    `seen_through` says so; else it may be one of a single value that lies in memory differently."""
    ufunc: np.ufunc | None = None
    """The elementwise function that computes its result."""
    into: Callable[..., Any] | None = None
    """A function that writes its result as narrower elements to memory."""
    narrow: Narrow | None = None
    """How the elements become values, if it only loads or only stores narrow ones."""

    @property
    def views(self) -> list[View]:
        """The views that it reads and writes, in this order."""
        return [view for view in (self.read, self.write) if view is not None]


def of_one_kind(target: Array, value: Array, mask: Array) -> bool:
    """Whether `np.copyto(target, value, where=mask)` applies without broadcasting or conversion."""
    return value.shape == mask.shape == target.shape and value.dtype == target.dtype
