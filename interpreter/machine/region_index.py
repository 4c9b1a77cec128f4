"""Finds the regions of a buffer that may overlap another one, without a look at each.

Most regions are dense boxes of one array: these are found by their coordinates, as blocks of
columns lie among each other in memory. Those of another view of the memory are found by its bytes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic

from pallasite.interpreter.machine.regions import Region
from pallasite.interpreter.machine.spans import Key, Spans


@dataclass(eq=False)
class _Group(Generic[Key]):
    """The regions of one array, or those that are no boxes."""

    regions: dict[Key, Region] = field(default_factory=dict[Key, Region])
    dimensions: dict[int, Spans[Key]] = field(default_factory=dict[int, Spans[Key]])
    """Each box by its coordinates in the dimension that tells most about it."""
    by_bytes: Spans[Key] | None = None
    """All of them, once regions of another view of the memory are searched for."""

    def bytes(self) -> Spans[Key]:
        if self.by_bytes is None:
            self.by_bytes = Spans()
            for key, region in self.regions.items():
                self.by_bytes.add(key, region.span)
        return self.by_bytes


class RegionIndex(Generic[Key]):
    """A set of keys, each with the region of one buffer that it stands for."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, _Group[Key]] = {}

    def add(self, key: Key, region: Region) -> None:
        """Puts `key` in."""
        group = self._groups.get(region.array)
        if group is None:
            group = self._groups[region.array] = _Group()
        group.regions[key] = region
        if region.array is not None:
            dimension = region.telling
            if dimension not in group.dimensions:
                group.dimensions[dimension] = Spans()
            group.dimensions[dimension].add(key, region.along(dimension))
        if group.by_bytes is not None:
            group.by_bytes.add(key, region.span)

    def remove(self, key: Key, region: Region) -> None:
        """Takes out `key`, which was put in with that region."""
        group = self._groups[region.array]
        del group.regions[key]
        if region.array is not None:
            dimension = region.telling
            group.dimensions[dimension].remove(key, region.along(dimension))
        if group.by_bytes is not None:
            group.by_bytes.remove(key, region.span)

    def near(self, region: Region) -> list[Key]:
        """The keys whose regions may overlap another one, some of them twice."""
        found: list[Key] = []
        for array, group in self._groups.items():
            if array is None or array != region.array:
                found += group.bytes().near(region.span)
                continue
            for dimension, spans in group.dimensions.items():
                found += spans.near(region.along(dimension))
        return found
