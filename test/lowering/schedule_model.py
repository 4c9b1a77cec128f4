"""The schedule of windows as spec/pallas_semantics.md section 2.3 words it, with its counters."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar


@dataclass(frozen=True)
class Operand:
    """A window of 8x128 blocks; `rows` and `columns` name its index map's results."""

    output: bool
    rows: str
    columns: str = "0"
    buffers: int = 2

    @property
    def fetched(self) -> bool:
        return not self.output

    def index(self, point: Sequence[int]) -> tuple[int, int]:
        return term(self.rows, point), term(self.columns, point)


class Scheduled(Protocol):
    """What the schedule needs to know of an operand."""

    @property
    def output(self) -> bool: ...
    @property
    def fetched(self) -> bool:
        """Whether blocks are copied in: inputs, and outputs that may be visited again."""
        ...

    @property
    def buffers(self) -> int: ...
    def index(self, point: Sequence[int], /) -> tuple[int, ...]: ...


SomeOperand = TypeVar("SomeOperand", bound=Scheduled)


TERMS = ("0", "1", "d0", "d1", "d0/2", "d1/2", "d0+d1")
"""Of index maps of two axes."""


def term(text: str, point: Sequence[int]) -> int:
    """The value at a grid point of `0`, `d1`, `d0/2` (halved), `d0+d1`, or sums of these."""
    if "+" in text:
        return sum(term(part, point) for part in text.split("+"))
    if "/" in text:
        return term(text.split("/")[0], point) // int(text.split("/")[1])
    return point[int(text[1:])] if text.startswith("d") else int(text)


def stays(terms: Sequence[str], grid: Sequence[int], dynamic: Sequence[int]) -> bool:
    """Whether a block is the same in all steps, because its index map reads no axis of several.

    `t` is a table at the first axis.
    """
    varying = [f"d{n}" for n, size in enumerate(grid) if size != 1 or n in dynamic]
    if "d0" in varying:
        varying.append("t")
    return not any(axis in text for text in terms for axis in varying)


# The specification's schedule.


def model(
    grid: Sequence[int | range],
    operands: Sequence[SomeOperand],
    trivial: Callable[[SomeOperand], bool],
):
    """The events of a grid, or of the part of it that a core has (axes given as ranges)."""
    axes = [axis if isinstance(axis, range) else range(axis) for axis in grid]
    points = list(itertools.product(*axes))
    steps = len(points)
    events: list[tuple[Any, ...]] = []
    if not steps:
        return events
    ci, wi, co, wo = (Counter[int]() for _ in range(4))
    numbered = list(enumerate(operands))
    inputs = [(b, o) for b, o in numbered if o.fetched and not trivial(o)]
    outputs = [(b, o) for b, o in numbered if o.output and not trivial(o)]

    def index(o: Scheduled, s: int):
        return o.index(points[s])

    def changes(o: Scheduled, s: int, t: int):
        return index(o, s) != index(o, t)

    def fetch(b: int, o: Scheduled, t: int):
        events.append(("fetch", b, index(o, t), ci[b] % o.buffers))
        ci[b] += 1

    for b, o in numbered:
        if not o.output and trivial(o):
            events.append(("copy-in", b))
    for k in range(max([2, *(o.buffers for o in operands)]) - 1):
        for b, o in inputs:
            if k + 1 < o.buffers and (k == 0 or (k < steps and changes(o, k - 1, k))):
                fetch(b, o, k)
    for s in range(steps):
        for b, o in inputs:
            ahead = s + o.buffers - 1
            if o.buffers == 1:
                if s == 0 or changes(o, s - 1, s):
                    fetch(b, o, s)
            elif ahead < steps and changes(o, ahead - 1, ahead):
                fetch(b, o, ahead)
        for b, o in inputs:
            if s == 0 or changes(o, s - 1, s):
                events.append(("await-fetch", b, index(o, s), wi[b] % o.buffers))
        events.append(("body", points[s]))
        for b, o in numbered:
            slot = (co if o.output else wi)[b] % o.buffers
            events.append(("see", b, 0 if trivial(o) else slot))
        for b, o in outputs:
            if s == steps - 1 or changes(o, s, s + 1):
                events.append(("store", b, index(o, s), co[b] % o.buffers))
                if o.buffers == 1:
                    events.append(("await-store", b, index(o, s), 0))
                co[b] += 1
        for b, o in outputs:
            if s > 0 and changes(o, s - 1, s):
                if o.buffers == 2:
                    events.append(("await-store", b, index(o, s - 1), wo[b] % 2))
                wo[b] += 1
        for b, o in inputs:
            if s == steps - 1 or changes(o, s, s + 1):
                wi[b] += 1
    for b, o in outputs:
        if o.buffers == 2:
            events.append(("await-store", b, index(o, steps - 1), wo[b] % 2))
    for b, o in numbered:
        if o.output and trivial(o):
            events.append(("copy-out", b))
    return events
