"""Removes repeated work from a script: values that an earlier line has made, and unread writes.

The blocks of a grid meet each other in turn: each is loaded, and prepared for a product, as often
as it meets another one. If the same function is called with the same values, or the same view of
unchanged memory is read, the earlier value is used. Copies that are then not read any more go, too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

from pallasite.interpreter.replay.lines import Box, Line, View

MOST_HELD = 1 << 24
"""The most bytes of values that are kept to be used again."""
_MOST_WRITES = 64
"""The most writes to one memory that are distinguished; more are treated as one."""


def once(lines: Sequence[Line]) -> list[Line]:
    """`lines` without those that repeat what an earlier one has made, or whose result nobody
    reads."""
    return _wanted(_made_once(lines))


def _made_once(lines: Sequence[Line]) -> list[Line]:
    fickle = changing(lines)
    equal: dict[int, int] = {}
    """Per value, the first value that it is equal to when it is made."""
    same: dict[int, int] = {}
    """Per value that is not made any more, the earlier value that replaces it."""
    looks: set[int] = set()
    """The values that are views of memory, whose contents may change later."""
    made, contents = _Made(), _Contents()
    kept: list[Line] = []
    for line in lines:
        fixed = fickle.isdisjoint((*line.makes, *line.takes))
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


def changing(lines: Sequence[Line]) -> set[int]:
    """The values that some line writes over, and all that share memory with these."""
    over = [line.overwritten for line in lines if line.overwritten is not None]
    shared: dict[int, set[int]] = {}
    for line in lines if over else ():
        together = set(line.makes).union(*(shared.get(v, {v}) for v in line.seen_through))
        shared.update((value, together) for value in together)
    return set().union(*(shared.get(value, {value}) for value in over))


class _Made:
    """The values made so far that may be needed again, by the text and operands that made them."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, tuple[Sequence[int], int]] = OrderedDict()
        self._bytes = 0

    def find(self, what: Hashable, line: Line) -> Sequence[int] | None:
        """The values that an earlier equal line has made; None if there is none, then `line` is
        remembered."""
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
    """Versions of the contents of memories: two views with equal versions show the same."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._writes: dict[str, list[tuple[int, float, int]]] = {}
        """Per memory, the written spans in order: (first byte, end, number of the contents)."""

    def version(self, view: View) -> tuple[int, ...]:
        """The version of what `view` shows now."""
        low, high = _span(view)
        written = self._writes.get(view.memory, ())
        return tuple(number for a, b, number in written if a < high and low < b)

    def write(self, line: Line, what: Hashable) -> None:
        """Records that `line` writes; equal `what` stands for equal contents."""
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
    """`lines` without values that nobody takes, and without writes to the script's own memory that
    nobody reads afterwards."""
    taken: set[int] = set()
    read: dict[str, list[tuple[int, float]]] = {}
    """Per memory, the spans that are read later and not written before that."""
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
    """Whether `line` writes every byte of the span of its view."""
    return line.whole and isinstance(line.write, Box) and line.write.is_dense
