"""Attributes as numbers, which are compared at once: xDSL compares and hashes attributes by value.

Of few attributes there are many uses. Each object is hashed once, and told by its identity then.
"""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute


class Numbers:
    """Numbers of attributes, the same for equal ones."""

    def __init__(self) -> None:
        # By identity; the attribute is kept alive, so that no other one takes its place.
        self._seen: dict[int, tuple[Attribute, int]] = {}
        self._numbers: dict[Hashable, int] = {}

    def of(self, attribute: Attribute) -> int:
        """The number of `attribute`."""
        seen = self._seen.get(id(attribute))
        if seen is None:
            value: Hashable = attribute
            if type(attribute) is VectorType:
                # The parts that differ, at a fraction of the cost of hashing all.
                shape = tuple([extent.data for extent in attribute.shape.data])
                scalable = tuple([bool(s.value.data) for s in attribute.scalable_dims.data])
                value = (attribute.element_type, shape, scalable)
            number = self._numbers.setdefault(value, len(self._numbers))
            seen = self._seen[id(attribute)] = (attribute, number)
        return seen[1]
