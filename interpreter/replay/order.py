"""Which lines of a script must stay behind which others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pallasite.interpreter.replay.forward import share
from pallasite.interpreter.replay.lines import Box, Line, View, Whole

_MOST_PAIRS = 1 << 21
"""The most pairs of views of one memory that are compared."""
_MOST_EXACT = 1 << 12
"""Pairs of different layouts or distances that are compared exactly; more may share bytes."""
_MOST_NEEDS = 1 << 5
"""Lines, on average, that a line comes after because of memory."""


def needs(lines: Sequence[Line], seen: Mapping[int, Box]) -> list[set[int]] | None:
    """For each of `lines` the numbers of earlier ones that must stay in front of it.

    Those that make what it takes, that write what it reads or writes, and that read what it writes.
    Values in `seen` are views of memory, which whoever takes them reads. None if there are too
    many views and accesses to find out.
    """
    touches = _touches(lines, seen)
    memories: dict[str, dict[View, None]] = {}
    written: dict[str, dict[View, None]] = {}
    for reads, writes in touches:
        for view in (*reads, *writes):
            memories.setdefault(view.memory, {})[view] = None
        for view in writes:
            written.setdefault(view.memory, {})[view] = None
    found: dict[str, _Memory] = {}
    for name, writes in written.items():
        views = list(memories[name])
        if len(views) * len(writes) > _MOST_PAIRS:
            return None
        found[name] = _Memory(views, list(writes))
    return _in_front(lines, touches, found)


def _in_front(
    lines: Sequence[Line],
    touches: Sequence[tuple[Sequence[View], Sequence[View]]],
    memories: Mapping[str, _Memory],
) -> list[set[int]] | None:
    made: dict[int, int] = {}
    result: list[set[int]] = []
    left = _MOST_NEEDS * len(lines)
    for number, (line, (reads, writes)) in enumerate(zip(lines, touches, strict=True)):
        after = {made[value] for value in line.takes if value in made}
        for view in reads:
            if view.memory in memories:
                memories[view.memory].read(view, number, after)
        for view in writes:
            memories[view.memory].write(view, number, after, line.whole)
        after.discard(number)
        result.append(after)
        made.update(dict.fromkeys(line.makes, number))
        left -= len(after)
        if left < 0:
            return None
    return result


def _touches(
    lines: Sequence[Line], seen: Mapping[int, Box]
) -> list[tuple[Sequence[View], Sequence[View]]]:
    """(views that it reads, views that it writes) of each line.

    Values that share memory with one that a line writes over count as a memory of their own.
    """
    owner: dict[int, int] = {}
    shows: dict[int, frozenset[View]] = {value: frozenset([box]) for value, box in seen.items()}
    for line in lines:
        through = [owner.get(value, value) for value in line.seen_through]
        behind = frozenset[View]().union(*(shows.get(value, ()) for value in line.seen_through))
        if line.read is not None and line.makes and not line.is_load and not line.made_bytes:
            behind |= {line.read}
        for value in line.makes:
            owner[value] = min(through, default=value)
            shows[value] = behind
        for value in through:  # They may all be parts of the result.
            _rename(owner, value, min(through))
    over = {owner.get(v, v) for line in lines for v in [line.overwritten] if v is not None}
    found: list[tuple[Sequence[View], Sequence[View]]] = []
    for line in lines:
        reads = [] if line.read is None else [line.read]
        writes = [] if line.write is None else [line.write]
        for value in line.takes:
            reads += shows.get(value, ())
        values = {owner.get(value, value) for value in (*line.takes, *line.makes)}
        reads += [Whole(f"x{value}") for value in values & over]
        if line.overwritten is not None:
            value = line.overwritten
            writes += [Whole(f"x{owner.get(value, value)}"), *shows.get(value, ())]
        found.append((reads, writes))
    return found


def _rename(owner: dict[int, int], old: int, new: int) -> None:
    if old != new:
        owner.update({value: new for value, known in owner.items() if known == old})
        owner[old] = new


class _Memory:
    """What has been read and written of one memory so far."""

    def __init__(self, views: Sequence[View], written: Sequence[View]) -> None:
        self._meeting: dict[View, list[View]] = {view: [] for view in views}
        """Per view those that may have bytes in common with it, if one of the two is written."""
        self._readers: dict[View, list[int]] = {view: [] for view in views}
        self._writers: dict[View, list[int]] = {view: [] for view in views}
        known: dict[object, bool] = {}
        low, high = np.array([_span(view) for view in views]).T
        writes = dict.fromkeys(written)
        for view in written:
            first, end = _span(view)
            for place in np.flatnonzero((low < end) & (first < high)).tolist():
                other = views[place]
                if _meets(view, other, known):
                    self._meeting[view].append(other)
                    if other not in writes:
                        self._meeting[other].append(view)

    def read(self, view: View, number: int, after: set[int]) -> None:
        """Notes that line `number` reads `view`, and in `after` what it must come after."""
        for other in self._meeting[view]:
            after.update(self._writers[other])
        self._readers[view].append(number)

    def write(self, view: View, number: int, after: set[int], whole: bool) -> None:
        """The same for a line that writes `view`, all of it if `whole`."""
        for other in self._meeting[view]:
            after.update(self._writers[other], self._readers[other])
        if whole:
            # Whoever comes after this line comes after those, too.
            self._writers[view], self._readers[view] = [], []
        self._writers[view].append(number)


def _span(view: View) -> tuple[int, int]:
    return view.span if isinstance(view, Box) else (-1, 1 << 62)


def _meets(one: View, other: View, known: dict[object, bool]) -> bool:
    """Whether two views whose spans overlap share a byte, as far as that is found out."""
    if one == other or not isinstance(one, Box) or not isinstance(other, Box):
        return True
    if 0 in one.shape or 0 in other.shape:
        return False
    if one.is_dense and other.is_dense:
        return True
    key = (one[1:3], one.strides, other[1:3], other.strides, one.first - other.first)
    found = known.get(key)
    if found is None:
        found = len(known) >= _MOST_EXACT or share(one, other)
        known[key] = found
    return found
