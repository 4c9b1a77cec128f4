"""An index of spans of bytes: finds those that may overlap another one, at a cost that does not
grow with their number.

Spans of about the same length share a level, whose buckets have that width. A span lies in at most
two buckets, and a search looks at few.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Span = tuple[int, int]
"""The first byte, and one past the last."""
Key = TypeVar("Key", bound=Hashable)


class Spans(Generic[Key]):
    """A set of keys, each with its span of bytes."""

    def __init__(self) -> None:
        self._levels: dict[int, dict[int, dict[Key, None]]] = {}
        """Keys by level and bucket, oldest first."""

    def add(self, key: Key, span: Span) -> None:
        """Adds `key`."""
        level, numbers = _place(span)
        buckets = self._levels.setdefault(level, {})
        for number in numbers:
            buckets.setdefault(number, {})[key] = None

    def remove(self, key: Key, span: Span) -> None:
        """Removes `key`, which was added with that span."""
        level, numbers = _place(span)
        buckets = self._levels[level]
        for number in numbers:
            keys = buckets[number]
            del keys[key]
            if not keys:
                del buckets[number]

    def near(self, span: Span) -> list[Key]:
        """The keys whose spans may overlap another one, some of them twice."""
        low, high = span
        found: list[Key] = []
        for level, buckets in self._levels.items():
            first, last = low >> level, high - 1 >> level
            numbers: Iterable[int] = range(first, last + 1)
            if last - first >= len(buckets):
                numbers = [number for number in buckets if first <= number <= last]
            for number in numbers:
                keys = buckets.get(number)
                if keys is not None:
                    found += keys
        return found


def _place(span: Span) -> tuple[int, range]:
    """The level of a span and its buckets there; no buckets for an empty span."""
    low, high = span
    level = (high - low).bit_length()
    return level, range(low >> level, (high - 1 >> level) + 1) if high > low else range(0)
