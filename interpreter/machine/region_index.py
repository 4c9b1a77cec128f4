"""An index of the regions of a buffer: finds those that may overlap another one without looking at
all.

Most regions are dense boxes of one array, and most of these are the blocks into which a grid cuts
it; they are found by their first coordinates. Other boxes are found by their coordinates as well,
since blocks of columns interleave in memory. Regions of another view of the memory are found by
their bytes. Rows that are taken by an index count as one array each; so once there are many arrays,
all regions have one more index by their bytes.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic

from pallasite.interpreter.machine.regions import Region
from pallasite.interpreter.machine.spans import Key, Spans

_FEW = 8
"""Arrays up to which each is searched on its own."""


class _Group(Generic[Key]):
    """The regions of one array, or those that are not boxes."""

    def __init__(self, first: Region) -> None:
        self.regions: dict[Key, Region] = {}
        self.block: tuple[int, ...] = () if first.array is None else first.block
        """The shape of the blocks that all of them are (`Region.block`), () if some are not."""
        self.places: dict[tuple[int, ...], dict[Key, None]] = {}
        """Keys by first coordinates, if all regions are blocks."""
        self.dimensions: dict[int, Spans[Key]] | None = None
        """Each box by its coordinates in the dimension that tells most about it, once another
        box than such a block is searched for."""
        self.by_bytes: Spans[Key] | None = None
        """All of them, once regions of another view of the memory are searched for."""

    def add(self, key: Key, region: Region) -> None:
        """Adds `key` to every index that exists."""
        self.regions[key] = region
        if self.block:
            if region.block == self.block:
                self.places.setdefault(region.starts, {})[key] = None
            else:
                self.block = ()
                self.places.clear()
        if self.dimensions is not None:
            _place(self.dimensions, key, region)
        if self.by_bytes is not None:
            self.by_bytes.add(key, region.span)

    def remove(self, key: Key, region: Region) -> None:
        """Removes `key`, which was added with that region."""
        del self.regions[key]
        if self.block:
            del self.places[region.starts][key]
        if self.dimensions is not None:
            dimension = region.telling
            self.dimensions[dimension].remove(key, region.along(dimension))
        if self.by_bytes is not None:
            self.by_bytes.remove(key, region.span)

    def boxes_near(self, region: Region) -> list[Key]:
        """The regions that may overlap a box of the same array."""
        if self.block and region.block == self.block:
            return list(self.places.get(region.starts, ()))
        if self.dimensions is None:
            self.dimensions = {}
            for key, known in self.regions.items():
                _place(self.dimensions, key, known)
        found: list[Key] = []
        for dimension, spans in self.dimensions.items():
            found += spans.near(region.along(dimension))
        return found

    def bytes_near(self, region: Region) -> list[Key]:
        """The regions that may overlap a region of another view."""
        if self.by_bytes is None:
            self.by_bytes = Spans()
            for key, known in self.regions.items():
                self.by_bytes.add(key, known.span)
        return self.by_bytes.near(region.span)


def _place(dimensions: dict[int, Spans[Key]], key: Key, region: Region) -> None:
    """Adds `key` to the spans of the dimension that tells most about its region
    (`Region.telling`)."""
    dimension = region.telling
    if dimension not in dimensions:
        dimensions[dimension] = Spans()
    dimensions[dimension].add(key, region.along(dimension))


class RegionIndex(Generic[Key]):
    """A set of keys, each with its region of one buffer."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, _Group[Key]] = {}
        self._by_bytes: Spans[Key] | None = None
        """All of them, once there are many arrays."""

    def add(self, key: Key, region: Region) -> None:
        """Adds `key`."""
        group = self._groups.get(region.array)
        if group is None:
            group = self._groups[region.array] = _Group(region)
        group.add(key, region)
        if self._by_bytes is not None:
            self._by_bytes.add(key, region.span)
        elif len(self._groups) > _FEW:
            self._by_bytes = Spans()
            for known in self._groups.values():
                for earlier, place in known.regions.items():
                    self._by_bytes.add(earlier, place.span)

    def remove(self, key: Key, region: Region) -> None:
        """Removes `key`, which was added with that region."""
        self._groups[region.array].remove(key, region)
        if self._by_bytes is not None:
            self._by_bytes.remove(key, region.span)

    def near(self, region: Region) -> list[Key]:
        """The keys whose regions may overlap another one, some of them twice."""
        own = None if region.array is None else self._groups.get(region.array)
        found = [] if own is None else own.boxes_near(region)
        if self._by_bytes is None:
            for group in self._groups.values():
                if group is not own:
                    found += group.bytes_near(region)
        else:
            mine = () if own is None else own.regions
            found += [key for key in self._by_bytes.near(region.span) if key not in mine]
        return found
