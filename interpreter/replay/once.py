"""Values that a script makes once, though the kernel makes them again and again.

The blocks of a grid meet each other in turn: each is loaded, and prepared for a product, as often
as it meets another one. Where the same function is called with the same values, or the same view
is read of memory that holds the same, the value is the one that was made before. What is then not
read any more need not be copied.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

from pallasite.interpreter.replay.lines import Box, Line, View

MOST_HELD = 1 << 24
"""Bytes of values that wait for being wanted again."""
_MOST_WRITES = 64
"""Writes of one memory that are told apart."""


def once(lines: Sequence[Line]) -> list[Line]:
    """`lines` without those that make what an earlier one has made, or what nobody reads."""
    return _wanted(_made_once(lines))


def _made_once(lines: Sequence[Line]) -> list[Line]:
    changing = _changing(lines)
    equal: dict[int, int] = {}
    """The first value that each one is equal to, when it is made."""
    same: dict[int, int] = {}
    """The numbers of values that are not made any more, and of those that they are."""
    looks: set[int] = set()
    """The values that are views of memory, whose contents may be others later."""
    made, contents = _Made(), _Contents()
    kept: list[Line] = []
    for line in lines:
        fixed = changing.isdisjoint((*line.makes, *line.takes))
        version = None if line.read is None else contents.version(line.read)
        what = line.text, tuple(equal.get(v, v) for v in line.takes), line.read, version
        if line.write is not None:
            contents.write(line, (*what, line.write) if fixed else object())
        elif line.makes and fixed:
            earlier = made.find(what, line)
            is_look = line.read is not None and not line.made_bytes
            if is_look or not looks.isdisjoint(line.seen_through):
                looks.update(line.makes)
            elif earlier is not None:
                same.update(zip(line.makes, earlier, strict=True))
            equal.update(zip(line.makes, earlier or line.makes, strict=True))
        if not line.makes or line.makes[0] not in same:
            takes, through = (
                tuple(same.get(v, v) for v in values) for values in (line.takes, line.seen_through)
            )
            kept.append(line._replace(takes=takes, seen_through=through))
    return kept


def _changing(lines: Sequence[Line]) -> set[int]:
    """The values that a line writes over, and what shares memory with them."""
    shared: dict[int, set[int]] = {}
    for line in lines:
        together = set(line.makes).union(*(shared.get(v, {v}) for v in line.seen_through))
        shared.update((value, together) for value in together)
    over = [line.overwritten for line in lines if line.overwritten is not None]
    return set().union(*(shared.get(value, {value}) for value in over))


class _Made:
    """The values that were made and may be wanted again, by what they are made of."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, tuple[Sequence[int], int]] = OrderedDict()
        self._bytes = 0

    def find(self, what: Hashable, line: Line) -> Sequence[int] | None:
        """What an earlier line has made of the same; else `line` is the one, from now on."""
        known = self._known.pop(what, None)
        self._known[what] = (line.makes, line.made_bytes) if known is None else known
        if known is not None:
            return known[0]
        self._bytes += line.made_bytes
        while self._bytes > MOST_HELD:
            _, (_, size) = self._known.popitem(last=False)
            self._bytes -= size
        return None


class _Contents:
    """What memories hold: parts of which two versions are equal hold the same."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._writes: dict[str, list[tuple[int, float, int]]] = {}
        """Of each memory the spans that were written, in order, and what with."""

    def version(self, view: View) -> tuple[int, ...]:
        """What `view` shows now."""
        low, high = _span(view)
        written = self._writes.get(view.memory, ())
        return tuple(number for a, b, number in written if a < high and low < b)

    def write(self, line: Line, what: Hashable) -> None:
        """`line` has written `what`."""
        assert line.write is not None
        memory, (low, high) = line.write.memory, _span(line.write)
        number = self._numbers.setdefault(what, len(self._numbers))
        written = self._writes.get(memory, [])
        if _fills(line):
            written = [(a, b, n) for a, b, n in written if a < low or high < b]
        if len(written) >= _MOST_WRITES:
            number = self._numbers.setdefault((*written, number), len(self._numbers))
            written, low, high = [], 0, float("inf")
        self._writes[memory] = [*written, (low, high, number)]


def _wanted(lines: Sequence[Line]) -> list[Line]:
    """`lines` without values that nobody takes, and without writes of memory of the script's own
    that nobody reads afterwards."""
    taken: set[int] = set()
    read: dict[str, list[tuple[int, float]]] = {}
    """Of each memory the spans that are read later, and not written before that."""
    kept: list[Line] = []
    for line in reversed(lines):
        if line.write is not None:
            memory, (low, high) = line.write.memory, _span(line.write)
            later = read.get(memory, [])
            if memory[0] == "m" and not any(a < high and low < b for a, b in later):
                continue
            if _fills(line):
                read[memory] = [(a, b) for a, b in later if a < low or high < b]
        elif line.makes and taken.isdisjoint(line.makes):
            continue
        if line.read is not None:
            spans = read.setdefault(line.read.memory, [])
            if _span(line.read) not in spans:
                spans.append(_span(line.read))
        taken.update(line.takes)
        kept.append(line)
    return kept[::-1]


def _span(view: View) -> tuple[int, Any]:
    return view.span if isinstance(view, Box) else (0, float("inf"))


def _fills(line: Line) -> bool:
    """Whether `line` writes all bytes of the span that it writes."""
    return line.whole and isinstance(line.write, Box) and line.write.is_dense
