"""How large an attribute becomes when everything that it shares is written out.

Files name an attribute once and use it any number of times, so that forty lines can stand for 2^40
attributes. They are cheap to hold, but whoever prints, hashes or compares them sees every one.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.ir import Attribute, ParametrizedAttribute

MOST_PARTS = 1 << 20
"""Attributes that one may consist of."""
TOO_MANY = f"the attribute is more than {MOST_PARTS} others when it is written out"


class Expansion:
    """The sizes of the attributes of one file; each is looked at once."""

    def __init__(self) -> None:
        self._sizes: dict[int, tuple[Attribute, int]] = {}
        """By identity, with the attribute so that the identity stays its own."""

    def fits(self, attribute: Attribute) -> bool:
        """Whether `attribute` consists of at most `MOST_PARTS` attributes."""
        return self._size(attribute) <= MOST_PARTS

    def _size(self, attribute: Attribute) -> int:
        waiting = [attribute]
        while waiting:
            top = waiting[-1]
            if id(top) in self._sizes:
                waiting.pop()
                continue
            parts = [part for part in _parts(top) if id(part) not in self._sizes]
            if parts:
                waiting += parts
                continue
            size = 1 + sum(self._sizes[id(part)][1] for part in _parts(top))
            self._sizes[id(top)] = top, size
            waiting.pop()
        return self._sizes[id(attribute)][1]


def _parts(attribute: Attribute) -> Iterable[Attribute]:
    if isinstance(attribute, ArrayAttr):
        return attribute.data
    if isinstance(attribute, DictionaryAttr):
        return attribute.data.values()
    return attribute.parameters if isinstance(attribute, ParametrizedAttribute) else ()
