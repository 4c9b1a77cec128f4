"""Joins lines of a script that do the same to different values into one line.

The steps of a grid do the same to one block after the other, and so do the iterations of many
loops. Where blocks are small, most of the time of a line is what a call of NumPy costs. Lines that
call one function and do not depend on each other become one line, which works on a *stack*: an
array with one more dimension in front. Their results are a stack again, which the lines behind take
as it is, if they are joined in the same way:

    x0 = f1(v0)
    x1 = f1(v1)                             x2 = f1(v6)
    v4[...] = f2(x0, c0)                    v7[...] = f2(x2, c0)
    v5[...] = f2(x1, c0)

A function computes the same bits of a stack (`meanings.Many`). Views of memory at equal distances
are one view of a stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pallasite.interpreter.meanings import Many, many_of
from pallasite.interpreter.replay.in_place import MOST_BYTES, out_of_place
from pallasite.interpreter.replay.lines import COPY, LOOK, Box, Line, View
from pallasite.interpreter.replay.once import changing
from pallasite.interpreter.replay.order import needs
from pallasite.interpreter.replay.stack_lines import (
    FUNCTION,
    OUT,
    Joined,
    Place,
    Rows,
    StackWriter,
    Step,
)
from pallasite.interpreter.replay.values import Values, size_of

LEAST = 2
"""Lines that are worth joining."""
MOST_STACKED = 1 << 18
"""Bytes of the largest stack, which should stay in the cache."""
_PLAIN = re.compile(r"\{w\}\[\.\.\.\] = (\d+|c\d+|\{r\}|\{0\})|" + re.escape(LOOK))
"""Lines that call no function."""
_CONSTANT = re.compile(r"\bc\d+\b")


def stacked(
    lines: Sequence[Line],
    values: Values,
    bound: Mapping[str, Any],
    bind: Callable[[str, Any], str],
) -> list[Line]:
    """`lines` with those joined that can be.

    `values` are those of the lines, to which stacks are added, and `bound` the globals of the
    script, to which `bind` adds.
    """
    apart = out_of_place(lines, values)
    joiner = _Joiner(apart, values, bound)
    signs = [joiner.sign(line) for line in apart]
    if len({sign for sign in signs if sign is not None}) > len(apart) - LEAST:
        return list(lines)
    after = needs(apart, values.seen)
    joined = [] if after is None else list(joiner.joined(signs, after))
    if after is None or not joined:
        return list(lines)
    return StackWriter(apart, values, joined, bind).written(after)


class _Joiner:
    """Finds lines that become one."""

    def __init__(self, lines: Sequence[Line], values: Values, bound: Mapping[str, Any]) -> None:
        self._lines = lines
        self._kinds = values.kinds
        self._seen = values.seen
        self._bound = bound
        self._fickle = changing(lines)
        self._places: dict[int, Place] = {}
        """Where in stacks values lie."""

    def sign(self, line: Line) -> Hashable:
        """What lines that are joined have in common; None for a line that stays alone."""
        if line.overwritten is not None:
            return None
        names = FUNCTION.findall(line.text)
        if len(names) > 1 or not (names or _PLAIN.fullmatch(line.text)):
            return None
        if names and line.narrow is None and many_of(self._bound[names[0]]) is None:
            return None
        kinds = tuple([self._kinds[value] for value in line.takes])
        made = tuple([self._kinds[value] for value in line.makes])
        if not self._fickle.isdisjoint((*line.takes, *line.makes)):
            return None
        views: list[Hashable] = []
        for view in line.views:
            if not isinstance(view, Box) or 0 in view.shape:
                return None
            views.append(view._replace(first=0))
        sizes = [size_of(kind) for kind in (*kinds, *made)]
        sizes += [size_of(view) for view in line.views if isinstance(view, Box)]
        if not sizes or max(sizes) > MOST_BYTES:
            return None
        return line.text, line.narrow, kinds, made, *views, line.read is None, line.whole

    def joined(self, signs: Sequence[Hashable], after: Sequence[set[int]]) -> Iterator[Joined]:
        """Lines that are joined, in an order in which all that they take is known.

        Lines of one level do not depend on each other. Those whose results are taken on one level,
        as in the same place of several steps, are joined first, and then what is left.
        """
        levels = _levels(after)
        taken: dict[int, int] = {}
        """The first level on which each value is taken."""
        for line, level in zip(self._lines, levels, strict=True):
            for value in line.takes:
                taken[value] = min(level, taken.get(value, level))
        groups: dict[tuple[int, Hashable], dict[Hashable, list[int]]] = {}
        for number, (line, sign) in enumerate(zip(self._lines, signs, strict=True)):
            if sign is not None:
                group = groups.setdefault((levels[number], sign), {})
                group.setdefault(tuple([taken.get(v) for v in line.makes]), []).append(number)
        for _, group in sorted(groups.items(), key=lambda found: found[0][0]):
            if sum(map(len, group.values())) < LEAST:
                continue
            first = next(iter(group.values()))[0]
            many = self._many(self._lines[first])
            if many is not None:
                left = yield from self._runs(group.values(), many)
                yield from self._runs([sorted(left)], many)

    def _runs(
        self, groups: Iterable[Sequence[int]], many: Many
    ) -> Generator[Joined, None, list[int]]:
        """Joins lines of each group that do the same; returns those that stay alone."""
        left: list[int] = []
        for members in groups:
            for alike in self._by_stacks(members):
                for joined in self._pieces(alike, many):
                    if len(joined.members) < LEAST:
                        left += joined.members
                    else:
                        self._place(joined)
                        yield joined
        return left

    def _by_stacks(self, members: Sequence[int]) -> list[list[int]]:
        """Groups `members` by the stacks of which they take values, in the order of these."""
        found: dict[Hashable, list[tuple[list[int], int]]] = {}
        for number in members:
            places = [self._places.get(value) for value in self._lines[number].takes]
            stacks = tuple([place and place.stack for place in places])
            at = [place.at for place in places if place is not None]
            found.setdefault(stacks, []).append((at, number))
        return [[number for _, number in sorted(group)] for group in found.values()]

    def _many(self, line: Line) -> Many | None:
        """How the function that the line calls, if it calls one, computes several at once."""
        names = FUNCTION.findall(line.text)
        if not names:
            return Many(_no_function)
        many = many_of(self._bound[names[0]]) if line.narrow is None else Many(_no_function)
        assert many is not None
        shapes = [self._kinds[value].shape for value in line.takes]
        shapes += [view.shape for view in line.views if isinstance(view, Box)]
        constants = [self._bound[name] for name in _CONSTANT.findall(line.text)]
        if many.spreads:
            # NumPy aligns shapes at their ends.
            rank = max(map(len, shapes), default=0)
            thin = all(np.ndim(x) <= rank for x in constants)
            return many if thin and all(len(shape) == rank for shape in shapes) else None
        return many if all(isinstance(x, int | float) for x in constants) else None

    def _pieces(self, members: Sequence[int], many: Many) -> Iterator[Joined]:
        """Cuts lines that do the same into runs whose operands are stacks."""
        first = self._lines[members[0]]
        sizes = [size_of(self._kinds[value]) for value in (*first.takes, *first.makes)]
        sizes += [size_of(view) for view in first.views if isinstance(view, Box)]
        most = max(1, MOST_STACKED // max(1, *sizes))
        rows = self._rows(members, many) if len(members) <= most else None
        if rows is not None:
            yield rows
            return
        piece = Joined([members[0]], many, [], [])
        for number in members[1:]:
            if len(piece.members) < most and self._extends(piece, number):
                piece.members.append(number)
                continue
            yield piece
            piece = Joined([number], many, [], [])
        yield piece

    def _rows(self, members: Sequence[int], many: Many) -> Joined | None:
        """`members` as one, if the blocks that they take or read or write lie in rows, as the steps
        of a grid of two dimensions take them; else None."""
        lines = [self._lines[number] for number in members]
        first = lines[0]
        if first.narrow is not None or len(members) < 2 * LEAST:
            return None
        if first.text.endswith("{w})") and not first.text.endswith(OUT):
            return None
        steps = [
            self._values_apart([line.takes[n] for line in lines]) for n in range(len(first.takes))
        ]
        views = [_apart([line.views[n] for line in lines]) for n in range(len(first.views))]
        rows = {step.width for step in (*steps, *views) if isinstance(step, Rows)}
        same = None in steps and not many.spreads
        if len(rows) != 1 or 0 in (*steps, *views) or same:
            return None
        if first.text == COPY and not all(isinstance(step, Rows) for step in views):
            return None
        written = first.write is not None and views[-1] is None
        return None if written else Joined(list(members), many, steps, views)

    def _values_apart(self, values: Sequence[int]) -> Step:
        """How far apart `values` are in one stack or memory; 0 if they are not in order there."""
        if all(value in self._seen for value in values):
            return _apart([self._seen[value] for value in values])
        steps = {self._step(*pair) for pair in pairwise(values)}
        step = steps.pop()
        equal = step is not None or len(set(values)) == 1
        return step if equal and not steps else 0

    def _extends(self, piece: Joined, number: int) -> bool:
        """Whether line `number` goes on where the piece ends; its second one sets the steps."""
        last, line = self._lines[piece.members[-1]], self._lines[number]
        steps: list[int | None] = []
        for before, value in zip(last.takes, line.takes, strict=True):
            step = self._step(before, value)
            if step == 0:
                return False
            if step is None and (before != value or not piece.many.spreads):
                return False
            steps.append(step)
        views = [_step(*pair) for pair in zip(last.views, line.views, strict=True)]
        if line.write is not None and not views[-1]:
            return False
        if all(step is None for step in (*steps, *views)):
            return False  # All of it is the same: that is for `once`.
        if len(piece.members) > 1:
            return steps == piece.steps and views == piece.views
        piece.steps, piece.views = steps, views
        return True

    def _step(self, before: int, value: int) -> int | None:
        """How far apart two values are in one stack or memory; None if they are equal, or not in
        one."""
        if before == value:
            return None
        if before in self._seen and value in self._seen:
            return _step(self._seen[before], self._seen[value])
        one, other = self._places.get(before), self._places.get(value)
        if one is None or other is None or one.stack != other.stack:
            return 0
        return other.at - one.at if other.at > one.at else 0

    def _place(self, joined: Joined) -> None:
        """Notes where the results of joined lines lie."""
        for at, number in enumerate(joined.members):
            for n, value in enumerate(self._lines[number].makes):
                self._places[value] = Place((joined.members[0], n), at)


def _levels(after: Sequence[set[int]]) -> list[int]:
    """For each line one more than the highest level of those that it comes after."""
    levels: list[int] = []
    for numbers in after:
        levels.append(1 + max([levels[n] for n in numbers], default=0))
    return levels


def _no_function() -> None:
    """That of lines that call none, or one that `Narrow` has."""


def _apart(views: Sequence[View]) -> Step:
    """How far apart `views` are, which may lie in rows; 0 if neither."""
    steps = [_step(*pair) for pair in pairwise(views)]
    first = steps[0]
    count = next((n for n, step in enumerate(steps, 1) if step != first), len(views))
    if count == len(views):
        return first
    if not first or count < 2 or len(views) % count:
        return 0
    between = _step(views[0], views[count])
    heads = [_step(views[0], view) for view in views[::count]]
    if not between or heads[1:] != [between * n for n in range(1, len(heads))]:
        return 0
    inner = all(step == first for n, step in enumerate(steps, 1) if n % count)
    return Rows(count, first, between) if inner else 0


def _step(before: View, view: View) -> int | None:
    """How many bytes the second of two boxes of one kind begins behind the first; None if they are
    equal, 0 if they are not alike."""
    if before == view:
        return None
    if not isinstance(before, Box) or not isinstance(view, Box):
        return 0
    if view._replace(first=0) != before._replace(first=0):
        return 0
    return view.first - before.first
