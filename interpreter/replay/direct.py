"""Avoids copies of values: loads become views of memory, results are computed where they are
stored.

A load makes a copy, since memory may change while its value is used. Where it does not, the value
is a view of memory instead, and so is what only views it otherwise: another shape, other axes, a
part. All these views are made at the beginning of a script. A result that is stored and not used
otherwise is computed directly into memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from math import prod
from operator import methodcaller
from typing import Any, NamedTuple

import numpy as np

from pallasite.interpreter.replay.forward import meet
from pallasite.interpreter.replay.lines import LOOK, STORE, Box, Line, View
from pallasite.interpreter.values import Array, quiet

_MOST_WRITES = 64
"""Writes that a load is compared with."""
_NOTHING = Line("pass")
LEAST_ROW = 64
"""Bytes that follow each other, at least, in what is worth being read again and again where it
lies."""


class Kind(NamedTuple):
    """Shape and type of the array that a value is."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def direct(
    lines: Sequence[Line], kinds: Sequence[Kind], bind: Callable[[str, Any], str]
) -> tuple[list[Line], dict[int, Box]]:
    """Returns (`lines` without copies that are not necessary, the values that are views of memory).

    `kinds` are those of values, by number; `bind` names a constant of the script.
    """
    left, views = _Looks(lines, bind).found()
    return _Stores(left, kinds, bind).found(), views


class _Looks:
    """Finds values that can be views of memory, because the memory stays the same while they are
    used."""

    def __init__(self, lines: Sequence[Line], bind: Callable[[str, Any], str]) -> None:
        self._lines = lines
        self._bind = bind
        self._shares: dict[int, int] = {}
        """The first value that each value shares memory with."""
        self._last: dict[int, int] = {}
        """The last line that uses what shares memory with each first value."""
        self._uses: dict[int, int] = {}
        """How many lines use that, but to make views."""
        self._fixed: set[int] = set()
        """First values that are written over, or may share memory with several."""
        self._writes: dict[str, list[tuple[int, View]]] = {}
        self._loads: dict[int, int] = {}
        """The lines that load values, by value."""
        self._looked: dict[Hashable, bool] = {}
        """Whether what a function gives of an array that lies so is a view of it."""
        for number, line in enumerate(lines):
            self._note(number, line)

    def _note(self, number: int, line: Line) -> None:
        shares = self._shares
        for value in line.takes:
            self._last[shares[value]] = number
        through = {shares[value] for value in line.seen_through}
        if len(through) > 1 or line.overwritten is not None:
            self._fixed.update(through)
        if line.overwritten is not None:
            self._fixed.add(shares[line.overwritten])
        for value in {shares[value] for value in line.takes} - through:
            self._uses[value] = self._uses.get(value, 0) + 1
        first = min(through, default=None)
        for value in line.makes:
            shares[value] = value if first is None else first
        if line.write is not None:
            self._writes.setdefault(line.write.memory, []).append((number, line.write))
        if line.is_load:
            self._loads[line.makes[0]] = number

    def found(self) -> tuple[list[Line], dict[int, Box]]:
        """The lines that remain, and the values that are views."""
        lines = self._narrow()
        while True:
            views: dict[int, Box] = {}
            left: list[Line] = []
            for number, line in enumerate(lines):
                view = self._view(number, line, views)
                if line is _NOTHING:
                    continue
                if view is None:
                    left.append(line)
                else:
                    views[line.makes[0]] = view
            seen = {value for line in left for value in self._seen_only_now(line, views)}
            if not seen:
                return left, views
            self._fixed |= seen

    def _seen_only_now(self, line: Line, views: Mapping[int, Box]) -> Iterator[int]:
        """A loaded value that must stay a copy although its memory is steady, if there is one.

        The line makes a view of it here, but made an array of its own in the recorded run: the view
        would see what is written to the memory later, or be written over there.
        """
        if line.look is None or line.takes == line.seen_through or line.ufunc is not None:
            return
        for value in line.takes:
            first = self._shares[value]
            if value not in views or first not in self._loads:
                continue
            if self._is_written(first) or not self._fixed.isdisjoint(line.makes):
                if self._looks(line.look, views[value]):
                    yield first

    def _is_written(self, value: int) -> bool:
        """Whether the memory from which a value was loaded is written later."""
        number = self._loads[value]
        box = self._lines[number].read
        if not isinstance(box, Box):
            return True
        writes = self._writes.get(box.memory, [])
        later = writes[bisect_right(writes, number, key=lambda write: write[0]) :]
        return len(later) > _MOST_WRITES or any(meet(view, box) for _, view in later)

    def _looks(self, look: Callable[..., Array], box: Box) -> bool:
        key = id(look), box.shape, box.dtype, box.strides
        if key not in self._looked:
            with quiet():
                self._looked[key] = _seen(look, box) is not None
        return self._looked[key]

    def _view(self, number: int, line: Line, views: Mapping[int, Box]) -> Box | None:
        """Where the value that the line makes lies in memory, if it can be a view of it."""
        if line.write is not None or len(line.makes) != 1:
            return None
        (value,) = line.makes
        if isinstance(line.read, Box):
            is_look = line.text == LOOK or (line.is_load and self._is_brief(number, value, line))
            return line.read if is_look else None
        look = _look(line)
        if look is None or len(line.takes) != 1:
            return None
        seen = views.get(line.takes[0])
        return None if seen is None else _seen(look, seen)

    def _narrow(self) -> list[Line]:
        """The lines, with loads of narrower elements that load directly what later views show of
        them."""
        loads: dict[int, Line] = {}
        """What loads each value, if it might be one that is loaded otherwise."""
        used: set[int] = set()
        for number, line in enumerate(self._lines):
            found = self._elements(number, line, loads)
            if found is None:
                used.update(line.takes)
            else:
                loads[line.makes[0]] = found
        found = [loads.get(line.makes[0], line) if line.makes else line for line in self._lines]
        # Numbers of lines stay what they are.
        return [
            _NOTHING if line.narrow is not None and line.makes and line.makes[0] in unused else line
            for unused in [loads.keys() - used]
            for line in found
        ]

    def _elements(self, number: int, line: Line, loads: Mapping[int, Line]) -> Line | None:
        """A line that loads the value directly, if it is a view of loaded narrower elements; else
        None."""
        if line.read is not None:
            is_load = line.narrow is not None and len(line.makes) == 1
            return line if is_load and self._is_steady(number, line.makes[0], line) else None
        look = _look(line)
        if look is None or len(line.makes) != 1:
            return None
        seen = [loads[value] for value in line.takes if value in loads]
        if len(seen) != len(line.takes):
            return None
        boxes = [load.read for load in seen if isinstance(load.read, Box)]
        narrow = seen[0].narrow
        if (
            narrow is None
            or len(boxes) != len(seen)
            or any(x.narrow is None or x.narrow.codec is not narrow.codec for x in seen)
        ):
            return None
        box = narrow.seen(look, boxes)
        if box is None:
            return None
        narrow = narrow.along(box)
        size = prod(box.shape) * narrow.codec.carrier.itemsize
        text = f"{{}} = {self._bind('f', narrow.load)}({{r}})"
        return Line(text, (), line.makes, read=box, made_bytes=size, narrow=narrow)

    def _is_brief(self, number: int, value: int, line: Line) -> bool:
        """Whether a view may replace the load: the memory is steady, and using it is not slower."""
        if not isinstance(line.read, Box) or not self._is_steady(number, value, line):
            return False
        return self._uses.get(value, 0) < 2 or _has_rows(line.read)

    def _is_steady(self, number: int, value: int, line: Line) -> bool:
        """Whether the memory that a line loads stays as it is until the last use of the value."""
        if value in self._fixed or not isinstance(line.read, Box):
            return False
        box = line.read
        writes = self._writes.get(box.memory, [])
        first = bisect_right(writes, number, key=lambda write: write[0])
        last = bisect_right(writes, self._last.get(value, number), key=lambda write: write[0])
        if last - first > _MOST_WRITES:
            return False
        return not any(meet(view, box) for _, view in writes[first:last])


def _look(line: Line) -> Callable[..., Array] | None:
    """The function that the line calls on all that it takes, if it may only view that; else
    None."""
    return line.look if line.takes == line.seen_through else None


def _has_rows(box: Box) -> bool:
    """Whether enough elements of `box` are contiguous along its last axis."""
    size = box.dtype.itemsize
    return box.strides[-1:] == (size,) and box.shape[-1] * size >= LEAST_ROW


def _seen(look: Callable[..., Array], box: Box) -> Box | None:
    """Where the result of `look` on the elements of `box` lies in memory; None if it is no view."""
    low, high = box.span
    room = np.zeros(high - low, np.uint8)
    view = np.ndarray(box.shape, box.dtype, room, box.first - low, box.strides)
    found = look(view)
    if not np.may_share_memory(found, room):
        return None
    seen = Box.of(found, room, box.memory)
    return seen._replace(first=seen.first + low)


class _Stores:
    """Joins stores with the preceding line that computes the stored value, if nothing else uses
    it."""

    def __init__(
        self, lines: Sequence[Line], kinds: Sequence[Kind], bind: Callable[[str, Any], str]
    ) -> None:
        self._lines = lines
        self._kinds = kinds
        self._bind = bind
        self._last = {value: number for number, line in enumerate(lines) for value in line.takes}
        """The last line that takes each value."""

    def found(self) -> list[Line]:
        """The lines, with stores joined where possible."""
        left: list[Line] = []
        for number, line in enumerate(self._lines):
            left.append(line)
            if line.text == STORE or (line.narrow is not None and not line.makes and line.takes):
                self._join(left, number)
        return left

    def _join(self, lines: list[Line], number: int) -> None:
        """Joins the last of `lines`, a store with the number `number`, with the one that computes
        the value, also if views are made of the value in between."""
        *before, store = lines
        target, (value,) = store.write, store.takes
        while before and isinstance(target, Box) and self._last[value] <= number:
            maker = before[-1]
            look = _look(maker)
            if look is None or maker.makes != (value,) or len(maker.takes) != 1:
                if store.narrow is None:
                    joined = self._computed(maker, value, target)
                else:
                    joined = self._rounded(maker, value, target)
                if joined is not None:
                    lines[len(before) - 1 :] = [joined]
                    return
                break
            (under,) = maker.takes
            target = self._under(look, under, value, target)
            value = under
            before.pop()
        if value not in store.takes and isinstance(target, Box):
            # What is stored need not be seen otherwise first, with other axes perhaps.
            narrow = None if store.narrow is None else store.narrow.along(target)
            lines[len(before) :] = [store._replace(takes=(value,), write=target, narrow=narrow)]

    def _under(self, look: Callable[..., Array], value: int, seen: int, target: Box) -> Box | None:
        """Where `value` has to lie so that its view by `look`, the value `seen`, lies at `target`.

        None unless the view has the same elements in the same order.
        """
        shape, dtype = self._kinds[value]
        if target.shape != self._kinds[seen].shape or dtype != self._kinds[seen].dtype:
            return None
        room = np.empty(shape, dtype)  # Nobody touches it.
        found = look(room)
        if found.nbytes != room.nbytes or not found.flags.c_contiguous:
            return None
        if found.dtype != dtype or not np.may_share_memory(found, room):
            return None
        return _seen(methodcaller("reshape", shape), target)

    def _rounded(self, line: Line, value: int, target: Box) -> Line | None:
        """`line` with its result `value` written as narrower elements to `target`; None if it
        cannot.

        The elements of `target` must be contiguous along one of its last two axes.
        """
        if line.into is None or line.makes != (value,) or target.shape != self._kinds[value].shape:
            return None
        if target.memory[0] != "o":
            return None  # It writes part by part, and operands may be read where it writes.
        if target.dtype.itemsize not in target.strides[-2:-1]:
            return None
        _, _, arguments = line.text.partition("(")
        call = f"{self._bind('f', line.into)}({arguments.removesuffix(')')}, {{w}})"
        return Line(call, line.takes, write=target)

    def _computed(self, line: Line, value: int, target: Box) -> Line | None:
        """`line` with its result `value` computed into `target`; None if it cannot."""
        if line.ufunc is None or (target.shape, target.dtype) != self._kinds[value]:
            return None
        call, takes = line.text, line.takes
        if line.overwritten == value:
            call = call.removesuffix(f", out={{{len(takes) - 1}}})")
            takes = takes[:-1]
        elif line.makes == (value,) and line.read is None:
            call = call.removesuffix(")")
        if call == line.text:
            return None
        _, _, arguments = call.partition("(")
        text = f"{self._bind('f', line.ufunc)}({arguments}, out={{w}})"
        return Line(text, takes, write=target, ufunc=line.ufunc)
