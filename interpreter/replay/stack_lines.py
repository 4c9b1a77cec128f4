"""Writes the lines that joined lines become, and takes parts of stacks where they are needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pallasite.interpreter.meanings import Many
from pallasite.interpreter.replay.direct import Kind
from pallasite.interpreter.replay.lines import COPY, Box, Line
from pallasite.interpreter.replay.values import Values

FUNCTION = re.compile(r"\bf\d+\b")
"""The name of a function in the text of a line."""
OUT = ", out={w})"
"""The end of the text of a line whose function writes its result to memory."""
_Stack = tuple[int, int]
"""The first of the joined lines that make a stack, and which of its results that is."""


class Place(NamedTuple):
    """Where a value lies in a stack."""

    stack: _Stack
    at: int


class Rows(NamedTuple):
    """How far apart in memory blocks are that lie in rows of `width`."""

    width: int
    step: int
    """Between neighbours in a row."""
    between: int
    """Between rows."""


Step = int | Rows | None
"""How far apart in a stack, or in memory, neighbours are; None if all are one."""


@dataclass
class Joined:
    """Lines that become one."""

    members: list[int]
    many: Many
    steps: Sequence[Step]
    """Per operand."""
    views: Sequence[Step]
    """Per view that the lines read and write."""


class StackWriter:
    """Writes `lines`, of which some are `joined`."""

    def __init__(
        self,
        lines: Sequence[Line],
        values: Values,
        joined: Sequence[Joined],
        bind: Callable[[str, Any], str],
    ) -> None:
        self._lines = lines
        self._values = values
        self._bind = bind
        self._joined = joined
        self._of = {number: piece for piece in joined for number in piece.members}
        self._places = {
            value: Place((piece.members[0], n), at)
            for piece in joined
            for at, number in enumerate(piece.members)
            for n, value in enumerate(lines[number].makes)
        }
        self._stacks: dict[_Stack, int] = {}
        """The value that each stack is."""
        self._parts: dict[Hashable, int] = {}
        """The values that are parts of stacks."""

    def written(self, after: Sequence[set[int]]) -> list[Line]:
        """The lines in order, each behind those that `after` has for it."""
        single = self._taken_singly()
        result: list[Line] = []
        for number in _in_order(after, self._of):
            piece = self._of.get(number)
            if piece is None:
                result.append(self._lines[number])
            else:
                result += self._one(piece, single)
        return result

    def _taken_singly(self) -> set[int]:
        """Values in stacks that some line takes by themselves."""
        single: set[int] = set()
        for number, line in enumerate(self._lines):
            if number not in self._of:
                single.update(line.takes)
        for piece in self._joined:
            takes = self._lines[piece.members[0]].takes
            single.update(v for v, step in zip(takes, piece.steps, strict=True) if step is None)
        return single & self._places.keys()

    def _one(self, piece: Joined, single: set[int]) -> Iterator[Line]:
        """The line that `piece` becomes, and those that take parts of stacks before and after
        it."""
        first, count = self._lines[piece.members[0]], len(piece.members)
        takes: list[int] = []
        for value, step in zip(first.takes, piece.steps, strict=True):
            if step is None:
                takes.append(value)
            elif value in self._values.seen:
                box = self._values.seen[value]
                takes.append(self._values.new(_stack_of(box, step, count)))
                if isinstance(step, Rows):
                    rows, kind = takes.pop(), _several(Kind(box.shape, box.dtype), count)
                    takes.append(self._values.new(kind))
                    shape = self._bind("c", kind.shape)
                    yield Line(f"{{1}} = {{0}}.reshape({shape})", (rows,), (takes[-1],))
            elif isinstance(step, int):
                stack, part = self._part(self._places[value], step, count)
                if part is not None:
                    yield part
                takes.append(stack)
        makes = [
            self._values.new(_several(self._values.kinds[value], count)) for value in first.makes
        ]
        views = [
            view and _stack_of(view, step, count)
            for view, step in zip(first.views, piece.views, strict=True)
            if isinstance(view, Box)
        ]
        read = views[0] if first.read is not None else None
        write = views[-1] if first.write is not None else None
        fn, narrow = piece.many.call, first.narrow
        if narrow is not None:
            narrow = narrow.behind
            fn = narrow.load if write is None else narrow.store
        text = FUNCTION.sub(lambda _: self._bind("f", fn), first.text)
        if first.text != COPY:
            text = self._with_rows(text, piece, (read, write))
        yield Line(
            text, tuple(takes), tuple(makes), read, write, whole=first.whole, narrow=narrow
        )  # fmt: skip
        for n, stack in enumerate(makes):
            self._stacks[piece.members[0], n] = stack
            for at, number in enumerate(piece.members):
                value = self._lines[number].makes[n]
                if value in single:
                    yield Line(f"{{1}} = {{0}}[{at}]", (stack,), (value,))

    def _with_rows(self, text: str, piece: Joined, views: Sequence[Box | None]) -> str:
        """The text of a line that takes views of blocks in rows as stacks, and makes such of
        stacks."""
        given = iter(piece.views)
        read, write = (view and (next(given), view) for view in views)
        if read and isinstance(read[0], Rows):
            shape = len(piece.members), *read[1].shape[2:]
            text = text.replace("{r}", f"{{r}}.reshape({self._bind('c', shape)})")
        stacked = read or any(step is not None for step in piece.steps)
        if write and isinstance(write[0], Rows) and stacked:
            if text.endswith(OUT):
                text = f"{{w}}[...] = {text.removesuffix(OUT)})"
            text += f".reshape({self._bind('c', write[1].shape)})"
        return text

    def _part(self, place: Place, step: int, count: int) -> tuple[int, Line | None]:
        """The value that is a part of a stack, and the line that makes it if there is none yet."""
        stack, first = self._stacks[place.stack], place.at
        end = first + (count - 1) * step + 1
        if step == 1 and count == len(self._of[place.stack[0]].members):
            return stack, None
        key = stack, first, end, step
        if key in self._parts:
            return self._parts[key], None
        kind = self._values.kinds[stack]
        part = self._parts[key] = self._values.new(Kind((count, *kind.shape[1:]), kind.dtype))
        return part, Line(f"{{1}} = {{0}}[{first}:{end}:{step}]", (stack,), (part,))


def _several(kind: Kind, count: int) -> Kind:
    return Kind((count, *kind.shape), kind.dtype)


def _stack_of(box: Box, step: Step, count: int) -> Box:
    """`count` boxes that are `step` apart; one that they all are if that is None."""
    if step is None:
        return box
    if isinstance(step, Rows):
        shape = count // step.width, step.width, *box.shape
        return box._replace(shape=shape, strides=(step.between, step.step, *box.strides))
    return box._replace(shape=(count, *box.shape), strides=(step, *box.strides))


def _in_order(after: Sequence[set[int]], of: Mapping[int, Joined]) -> Iterator[int]:
    """The numbers of lines, with the first number of joined ones for all of them, so that each
    comes behind what it needs, and otherwise in the order they had."""
    done: set[int] = set()
    for number in range(len(after)):
        waiting = [number]
        while waiting:
            this = waiting[-1]
            piece = of.get(this)
            members = [this] if piece is None else piece.members
            if members[0] in done:
                waiting.pop()
                continue
            first = [
                head
                for member in members
                for n in after[member]
                for head in [of[n].members[0] if n in of else n]
                if head not in done and head != members[0]
            ]
            if first:
                waiting += sorted(set(first), reverse=True)
                continue
            done.add(members[0])
            waiting.pop()
            yield members[0]
