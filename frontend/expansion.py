"""How large an attribute becomes when everything that it shares is written out.

Files name an attribute once and use it any number of times, so that forty lines can stand for 2^40
attributes. They are cheap to hold, but whoever prints, hashes or compares them sees every one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Any

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
        sizes = self._sizes
        waiting = [attribute]
        while waiting:
            top = waiting[-1]
            if id(top) in sizes:
                waiting.pop()
                continue
            parts = _parts_of(type(top))(top)
            new = [part for part in parts if id(part) not in sizes]
            if new:
                waiting += new
                continue
            sizes[id(top)] = top, 1 + sum([sizes[id(part)][1] for part in parts])
            waiting.pop()
        return sizes[id(attribute)][1]


@cache
def _parts_of(kind: type[Attribute]) -> Callable[[Any], Collection[Attribute]]:
    """What gives the attributes that attributes of a class consist of."""
    if issubclass(kind, ArrayAttr):
        return lambda attribute: attribute.data
    if issubclass(kind, DictionaryAttr):
        return lambda attribute: attribute.data.values()
    if issubclass(kind, ParametrizedAttribute):
        return lambda attribute: attribute.parameters
    return lambda attribute: ()
