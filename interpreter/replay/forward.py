"""Removes transfers from a script: elements are read, or written, at the other end of the copy.

A block is fetched into VMEM, loaded there, and not used again: the load may read the array in HBM
instead. A result is stored in VMEM and written back: it may be stored in HBM instead. The copy is
removed if every access to its end in VMEM can be expressed as an access to the other end.
"""

from __future__ import annotations

from bisect import bisect, bisect_left, insort
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from pallasite.interpreter.replay.lines import COPY, Box, Line, View
from pallasite.interpreter.values import Array

_MOST_WORK = 1 << 12
"""Places that NumPy tries to find a byte that two boxes share; then they may share one."""
_MOST_MAKERS = 1 << 8
"""Lines that write parts of what is written back at once."""


def forwarded(lines: Sequence[Line]) -> list[Line]:
    """`lines` without copies that only move elements to where they are read or from where they are
    written."""
    moved = _Lines(lines)
    for number, line in enumerate(lines):
        if line.text == COPY:
            moved.fetch(number)
    for number, line in enumerate(lines):
        if line.text == COPY:
            moved.write_back(number)
    return [line for line in moved.lines if line is not None]


class _Lines:
    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines: list[Line | None] = list(lines)
        self._places: dict[str, list[int]] = {}
        """Of the lines that touch each memory, in order."""
        for number, line in enumerate(lines):
            for memory in dict.fromkeys(view.memory for view in line.views):
                self._places.setdefault(memory, []).append(number)
        self._writers: dict[str, list[int]] = {}
        """Of the lines that write each memory, in order, until `write_back` moves some."""
        for number, line in enumerate(lines):
            if line.write is not None:
                self._writers.setdefault(line.write.memory, []).append(number)

    def fetch(self, number: int) -> None:
        """Removes copy `number` if all later reads of its target can read its source instead."""
        line = self.lines[number]
        if line is None or not isinstance(line.read, Box) or not isinstance(line.write, Box):
            return
        source, target = line.read, line.write
        if not target.is_dense or source.memory == target.memory or target.memory[0] == "o":
            return
        writers = self._writers.get(source.memory)
        if writers and writers[-1] > number:
            return
        moved: dict[int, Line] = {}
        for place in self._after(number, target):
            later = self.lines[place]
            if later is None:
                continue
            read, write = later.read, later.write
            if read is not None and meet(read, target):
                found = _reading(later, target, source)
                if found is None:
                    return
                moved[place] = found
            if write is not None and meet(write, target):
                if not _covers(later, target):
                    return
                break
        self.lines[number] = None
        self._writers[target.memory].remove(number)
        for place, later in moved.items():
            self.lines[place] = later
            insort(self._places[source.memory], place)

    def write_back(self, number: int) -> None:
        """Removes copy `number` if all that writes its source can write its target instead."""
        line = self.lines[number]
        if line is None or not isinstance(line.read, Box) or not isinstance(line.write, Box):
            return
        source, target = line.read, line.write
        if target.memory[0] != "o" or not source.is_dense or source.memory[0] != "m":
            return
        for place in self._after(number, source):
            other = self._meeting(place, source)
            if other is None:
                continue
            if other.read is not None and meet(other.read, source):
                return
            if not _covers(other, source):
                return
            break
        makers = self._makers(number, source)
        moved: dict[int, Line] = {}
        for place, maker in makers.items():
            found = _writing(maker, source, target)
            if found is None or self._touched(place, number, target):
                return
            moved[place] = found
        if not makers:
            return
        self.lines[number] = None
        for place, line in moved.items():
            self.lines[place] = line
            insort(self._places[target.memory], place)
        for place, line in moved.items():
            if line.text == COPY:  # As from VMEM to HBM, where the array has another layout.
                self.write_back(place)

    def _after(self, number: int, box: Box) -> list[int]:
        places = self._places[box.memory]
        return places[bisect(places, number) :]

    def _makers(self, number: int, box: Box) -> dict[int, Line]:
        """The lines before `number` that together write all of `box`, by their numbers.

        Empty if another line touches its bytes in between, or if they do not write all of it.
        """
        found: dict[int, Line] = {}
        places = self._places[box.memory]
        left = _Bytes(box)
        for n in range(bisect_left(places, number) - 1, -1, -1):
            maker = self._meeting(places[n], box)
            if maker is None:
                continue
            if maker.read is not None and meet(maker.read, box):
                break
            if len(found) == _MOST_MAKERS or not left.take(maker):
                break
            found[places[n]] = maker
            if left.count == 0:
                return found
        return {}

    def _meeting(self, number: int, box: Box) -> Line | None:
        """Line `number`, if it has not been removed and may touch bytes of `box`; else None."""
        line = self.lines[number]
        if line is None or not any([meet(view, box) for view in line.views]):
            return None
        return line

    def _touched(self, first: int, last: int, box: Box) -> bool:
        """Whether a line between `first` and `last` accesses bytes of `box`."""
        places = self._places[box.memory]
        between = [self.lines[n] for n in places[bisect(places, first) : bisect_left(places, last)]]
        return any(line and any(share(view, box) for view in line.views) for line in between)


def _reading(line: Line, over: Box, under: Box) -> Line | None:
    """`line` reading the memory of `under` in place of that of `over`; None if it cannot."""
    read, write = line.read, line.write
    found = None if read is None else composed(read, over, under)
    if found is not None:
        return line._replace(read=found)
    if line.text != COPY or not isinstance(read, Box) or not isinstance(write, Box):
        return None
    # Elements of a word may lie apart.
    found = composed(_split(read, over.dtype), over, under)
    return None if found is None else line._replace(read=found, write=_split(write, over.dtype))


def _writing(line: Line, over: Box, under: Box) -> Line | None:
    """`line` writing the memory of `under` in place of that of `over`; None if it cannot."""
    read, write = line.read, line.write
    found = None if write is None else composed(write, over, under)
    if found is not None:
        return line._replace(write=found)
    if line.text != COPY or not isinstance(read, Box) or not isinstance(write, Box):
        return None
    found = composed(_split(write, over.dtype), over, under)
    return None if found is None else line._replace(read=_split(read, over.dtype), write=found)


def _split(box: Box, unit: np.dtype[Any]) -> Box:
    """`box` as elements of the smaller type `unit`; unchanged if its elements are no multiple of
    that."""
    count, rest = divmod(box.dtype.itemsize, unit.itemsize)
    if rest or count < 2:
        return box
    shape, strides = (*box.shape, count), (*box.strides, unit.itemsize)
    return Box(box.memory, shape, unit, box.first, strides)


def meet(view: View, box: Box) -> bool:
    """Whether `view` and `box` may have bytes in common, judged by their first and last bytes."""
    if view.memory != box.memory:
        return False
    if not isinstance(view, Box):
        return True
    (a, b), (c, d) = view.span, box.span
    return a < d and c < b


def share(view: View, box: Box) -> bool:
    """Like `meet`, but exact for boxes that interleave in memory."""
    if not isinstance(view, Box) or not meet(view, box):
        return meet(view, box)
    room = np.empty(max(view.span[1], box.span[1]), np.uint8)  # Nobody touches it.
    one, other = (np.ndarray(b.shape, b.dtype, room, b.first, b.strides) for b in (view, box))
    # NumPy's types know of two constants only.
    return np.may_share_memory(one, other, max_work=cast(Any, _MOST_WORK))


class _Bytes:
    """The bytes of a dense box for which no writing line has been found yet."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._low, high = box.span
        self.count = high - self._low
        self._left: Array | None = None
        """Which they are, once some are not."""

    def take(self, line: Line) -> bool:
        """Removes the bytes that `line` writes; False if these are not known, or not all in the
        box."""
        if _covers(line, self._box):
            self.count = 0
            return True
        view = line.write
        if not isinstance(view, Box) or not line.whole:
            return False
        if view.span[0] < self._low or view.span[1] > self._box.span[1]:
            return False
        if self._left is None:
            self._left = np.ones(self.count, np.uint8)
        shape, strides = (*view.shape, view.dtype.itemsize), (*view.strides, 1)
        part = np.ndarray(shape, np.uint8, self._left, view.first - self._low, strides)
        part[...] = 0
        self.count = np.count_nonzero(self._left)
        return True


def _covers(line: Line, box: Box) -> bool:
    """Whether `line` writes all bytes of `box`."""
    view = line.write
    if not isinstance(view, Box) or view.memory != box.memory:
        return False
    if not line.whole or not view.is_dense:
        return False
    (a, b), (c, d) = view.span, box.span
    return a <= c and d <= b


def composed(view: View, over: Box, under: Box) -> Box | None:
    """`view`, of the memory of `over`, as a view of the memory of `under`; None if there is none.

    `under` has the same elements as `over`, in the same order.
    """
    if not isinstance(view, Box):
        return None
    size, unit = view.dtype.itemsize, over.dtype.itemsize
    axes = [
        (step, count, other)
        for step, count, other in zip(over.strides, over.shape, under.strides, strict=True)
        if count > 1
    ]
    if size > unit:
        return None
    if size < unit:
        axes.append((size, unit // size, size))
    axes.sort(key=lambda axis: -axis[0])
    reach = size
    for step, count, _ in reversed(axes):
        # Else a byte might be in several places.
        if step < reach:
            return None
        reach = step * count
    axes = _merged(axes)
    rest, first = view.first - over.first, under.first
    last: list[int] = []
    for step, count, other in axes:
        place = rest // step
        if not 0 <= place < count:
            return None
        rest -= place * step
        first += place * other
        last.append(place)
    if rest:
        return None
    strides: list[int] = []
    for count, step in zip(view.shape, view.strides, strict=True):
        stride = 0 if count == 1 or not step else _stride(count, step, axes, last)
        if stride is None:
            return None
        strides.append(stride)
    return Box(under.memory, view.shape, view.dtype, first, tuple(strides))


def _merged(axes: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """`axes`, with neighbours joined along which both sides are contiguous."""
    found: list[tuple[int, int, int]] = []
    for own, count, other in axes:
        if found and found[-1][0] == own * count and found[-1][2] == other * count:
            count *= found.pop()[1]
        found.append((own, count, other))
    return found


def _stride(
    count: int, step: int, axes: Sequence[tuple[int, int, int]], last: list[int]
) -> int | None:
    """How far apart `count` elements are below that are `step` apart above; `last` is the largest
    position along each axis, and moves on."""
    for n, (own, size, other) in enumerate(axes):
        if step < own or step % own:
            continue
        times = step // own
        if last[n] + times * (count - 1) < size:
            last[n] += times * (count - 1)
            return times * other
        return None
    return None
