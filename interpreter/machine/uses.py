"""The history that the race detector keeps of a buffer: accesses that may still race."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pallasite.diagnostics import SourceLocation
from pallasite.interpreter.machine.dma import Transfer
from pallasite.interpreter.machine.region_index import RegionIndex
from pallasite.interpreter.machine.regions import Region

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core

_FEW = 4
"""Transfers in flight up to which all are compared, without an index."""


@dataclass(eq=False, slots=True)
class Use:
    """One access of a core, or one half of a transfer."""

    region: Region
    write: bool
    core: Core
    location: SourceLocation | None
    number: int = -1
    """The core that has the access in its past, from `time` of its clock on; -1 while it is in
    flight."""
    time: int = 0
    transfer: Transfer | None = None
    also: tuple[int, ...] = ()
    """Further such cores, each followed by its time, flat for the garbage collector's sake."""
    atomic: bool = False
    """Whether it is an atomic read and addition."""
    block: bool = False
    """Whether a block of a grid or a pipeline is fetched, or written back."""
    partly: bool = False
    """Whether a wait has taken only a part of what the transfer and others counted."""

    @property
    def adds(self) -> bool:
        """Whether it adds to memory, in any order with others that do."""
        return self.atomic or (self.transfer is not None and self.write and self.transfer.add)

    @property
    def actor(self) -> str:
        """Which core or transfer does it, for messages."""
        if self.transfer is not None:
            return self.transfer.describe()
        if self.atomic:
            return f"an atomic addition by {self.core}"
        if self.block:
            return f"the copy of a block by {self.core}"
        return f"a {'store' if self.write else 'load'} by {self.core}"

    @property
    def verb(self) -> str:
        """What it does, for messages."""
        return "adds to" if self.atomic else "writes" if self.write else "reads"

    def before(self, clock: NDArray[np.int64]) -> bool:
        """Whether the access is in the past of a core whose clock is `clock`."""
        if self.number < 0:
            return False
        if clock[self.number] >= self.time:
            return True
        also = self.also
        return any(clock[also[n]] >= also[n + 1] for n in range(0, len(also), 2))

    def repeats(self, other: Use) -> bool:
        """Whether both are the same access, by line and region, made by two cores of a device of
        which only one should make it."""
        if self.location is None or self.location != other.location or self.core is other.core:
            return False
        one, two = self.region, other.region
        return self.core.device is other.core.device and (one.low, one.high) == (two.low, two.high)


class Settled:
    """The latest read, or write, of each region by one core."""

    def __init__(self) -> None:
        self.newest = 0
        """The time of the core from which on all of them are in its past."""
        self._latest: dict[Any, Use] = {}
        self._index: RegionIndex[Any] = RegionIndex()
        """An index of the keys of regions."""
        self._new: list[Any] = []
        """Keys that are not in the index yet: many buffers are never searched."""

    def add(self, use: Use) -> bool:
        """Adds `use`, and drops an older one of the same region; False if there is one of the same
        time."""
        key = (use.region.key, use.adds)
        older = self._latest.get(key)
        if older is None:
            self._new.append(key)
        else:
            use.region = older.region
        self._latest[key] = use
        # The clock of a core does not go back.
        self.newest = use.time
        return older is None or older.time != use.time

    def near(self, region: Region) -> list[Use]:
        """The uses whose regions may overlap another one, some of them twice."""
        latest = self._latest
        while self._new:
            key = self._new.pop()
            self._index.add(key, latest[key].region)
        return [latest[key] for key in self._index.near(region)]


class Flying:
    """The halves of transfers that nobody has waited for."""

    def __init__(self) -> None:
        self._uses: dict[Use, None] = {}
        self._index: RegionIndex[Use] | None = None
        """An index of all uses, once there are too many to compare each."""

    def __bool__(self) -> bool:
        return bool(self._uses)

    def add(self, use: Use) -> None:
        """Adds `use`."""
        self._uses[use] = None
        if self._index is not None:
            self._index.add(use, use.region)
        elif len(self._uses) > _FEW:
            self._index = RegionIndex()
            for earlier in self._uses:
                self._index.add(earlier, earlier.region)

    def remove(self, use: Use) -> None:
        """Removes `use`, which has been waited for."""
        del self._uses[use]
        if self._index is not None:
            if len(self._uses) < _FEW // 2:
                self._index = None
            else:
                self._index.remove(use, use.region)

    def near(self, region: Region) -> Iterable[Use]:
        """The uses whose regions may overlap another one, some of them twice."""
        return self._uses if self._index is None else self._index.near(region)


@dataclass(eq=False)
class History:
    """The uses of one buffer that may still race."""

    flying: Flying = field(default_factory=Flying)
    settled: dict[int, Settled] = field(default_factory=dict[int, Settled])
    """By core number n: what it read; by ~n: what it wrote."""

    def settle(self, use: Use) -> bool:
        """Counts `use` as an access of the core in whose past it is; False if that adds nothing."""
        core = ~use.number if use.write else use.number
        settled = self.settled.get(core)
        if settled is None:
            settled = self.settled[core] = Settled()
        return settled.add(use)
