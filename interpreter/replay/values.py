"""The values of a script that is being written."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from pallasite.interpreter.replay.direct import Kind
from pallasite.interpreter.replay.lines import Box


@dataclass(frozen=True)
class Values:
    """What is known of values, which are numbers."""

    kinds: list[Kind]
    """By number."""
    seen: dict[int, Box]
    """Those that are views of memory."""

    def new(self, kind: Kind | Box) -> int:
        """The number of a new value, which is a view of memory if that is given."""
        number = len(self.kinds)
        self.kinds.append(Kind(kind.shape, kind.dtype))
        if isinstance(kind, Box):
            self.seen[number] = kind
        return number


def size_of(kind: Kind | Box) -> int:
    """The bytes of all elements."""
    return prod(kind.shape) * kind.dtype.itemsize
