"""What scripts consist of: lines, and the views of memory that these read and write."""

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
    """All of a memory, by its name in the script."""

    memory: str

    def text(self, bind: Callable[[str, Any], str]) -> str:
        """How it is made, as an expression; `bind` names a constant."""
        return self.memory


class _Box(NamedTuple):
    memory: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    first: int
    """Byte."""
    strides: tuple[int, ...]
    """In bytes."""


class Box(_Box):
    """Elements of a memory, as an array."""

    @staticmethod
    def of(view: Array, contents: Array, memory: str) -> Box:
        """`view` of the `contents` of a memory."""
        first, begin = (a.__array_interface__["data"][0] for a in (view, contents))
        return Box(memory, view.shape, view.dtype, first - begin, view.strides)

    @staticmethod
    def at(end: End, memory: str) -> Box:
        """One end of a copy."""
        return Box(memory, end.shape, np.dtype(end.unit), end.first, end.strides)

    def text(self, bind: Callable[[str, Any], str]) -> str:
        """How it is made, as an expression; `bind` names a constant."""
        shape, dtype, first, strides = (bind("c", x) for x in self[1:])
        return f"{bind('f', np.ndarray)}({shape}, {dtype}, {self.memory}, {first}, {strides})"

    @cached_property
    def span(self) -> tuple[int, int]:
        """The first byte, and the one behind the last."""
        steps = [(n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)]
        if 0 in self.shape:
            return self.first, self.first
        low = self.first + sum(step for step in steps if step < 0)
        return low, self.first + sum(step for step in steps if step > 0) + self.dtype.itemsize

    @property
    def is_dense(self) -> bool:
        """Whether it has every byte of its span, if it has no byte twice."""
        low, high = self.span
        steps = [step for n, step in zip(self.shape, self.strides, strict=True) if n > 1]
        return 0 not in steps and prod(self.shape) * self.dtype.itemsize == high - low


View = Whole | Box
_LEAST_ALIKE = 3
"""Views that are made at once, at least."""


def groups(views: Iterable[View]) -> Iterator[list[View]]:
    """`views`, those together that differ in where they begin only, and begin at equal distances:
    NumPy gives parts of an array in a fraction of the time that it makes an array in."""
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
    """How one of `groups` is made, as an expression."""
    first, *rest = group
    if not rest or not isinstance(first, Box) or not isinstance(rest[0], Box):
        return first.text(bind)
    shape, strides = (len(group), *first.shape), (rest[0].first - first.first, *first.strides)
    return Box(first.memory, shape, first.dtype, first.first, strides).text(bind)


class Line(NamedTuple):
    """One statement. Values are called by their place in `takes`, then in `makes`, what it reads of
    a memory `r`, and what it writes `w`."""

    text: str
    takes: tuple[int, ...] = ()
    makes: tuple[int, ...] = ()
    read: View | None = None
    write: View | None = None
    whole: bool = True
    """Whether all of what it writes is written by it alone."""
    seen_through: tuple[int, ...] = ()
    """Those of what it takes that share memory with what it makes."""
    overwritten: int | None = None
    """The value that it writes over."""
    made_bytes: int = 0
    """Bytes of new arrays."""
    is_load: bool = False
    """Whether it copies what it reads, and nothing else."""
    look: Callable[..., Array] | None = None
    """What it calls of all that it takes, if that may only look at it: at all, if it was
    `seen_through` that, else at the one value that it takes where that lies otherwise."""
    ufunc: np.ufunc | None = None
    """What it computes its result with, element by element."""
    into: Callable[..., Any] | None = None
    """What writes its result to memory of narrower elements."""
    narrow: Narrow | None = None
    """How elements of what it reads, or writes, and nothing else, become values."""

    @property
    def views(self) -> list[View]:
        """Of memory, in the order in which they are used."""
        return [view for view in (self.read, self.write) if view is not None]


def of_one_kind(target: Array, value: Array, mask: Array) -> bool:
    """Whether NumPy copies `value` to `target` where `mask` says, element by element."""
    return value.shape == mask.shape == target.shape and value.dtype == target.dtype
