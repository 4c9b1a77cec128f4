"""What a kernel of SparseCores does, counted: instructions, transfers, waits, bytes of HBM.

Of subcores neither a clock nor what an instruction takes is published, so the only time told is the
one that HBM takes at least for its bytes. A transfer moves whole granules, an indirect one for
each of its rows (JAX 0.10.2, `tpu_info`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pallasite.diagnostics import SourceLocation
from pallasite.interpreter.cycles import FREE, UNITS, Cost
from pallasite.interpreter.machine.clock import Profile
from pallasite.interpreter.machine.dma import Transfer
from pallasite.interpreter.machine.semaphores import Semaphore

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core
    from pallasite.interpreter.machine.machine import Machine


@dataclass
class _Counts:
    """What one subcore has done."""

    work: Cost = FREE
    transfers: int = 0
    rows: int = 0
    """Of indirect transfers."""
    bytes: int = 0
    hbm_bytes: int = 0
    """In whole granules."""
    waits: int = 0

    def told(self, core: Core) -> dict[str, Any]:
        """The counts by name."""
        return {
            "core": str(core),
            "instructions": {
                unit: round(count) for unit, count in zip(UNITS, self.work.cycles, strict=True)
            },
            "transfers": self.transfers,
            "rows": self.rows,
            "bytes": self.bytes,
            "hbm_bytes": self.hbm_bytes,
            "waits": self.waits,
        }


class SubcoreTally(Profile):
    """Counts per subcore."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        assert machine.target.sparse is not None
        self._granule = machine.target.sparse.dma_granule_bytes
        self._counts = {core: _Counts() for core in machine.cores}

    def spend(self, core: Core, work: Cost) -> None:
        self._counts[core].work += work

    def dma_start(self, transfer: Transfer) -> None:
        whole = next(reversed(self.machine.engine.flying))
        counts = self._counts[transfer.sender]
        counts.transfers += transfer is whole.parts[0]
        counts.rows += transfer is not whole
        size = (transfer.bits + 7) // 8
        ends = [ref.buffer.memory.kind for ref in (transfer.source, transfer.target)]
        counts.bytes += size
        counts.hbm_bytes += ends.count("hbm") * -(-size // self._granule) * self._granule

    def wait(
        self, core: Core, semaphore: Semaphore, amount: int, at: SourceLocation | None
    ) -> None:
        self._counts[core].waits += 1

    def summary(self) -> dict[str, Any]:
        """Counts per subcore; `hbm_seconds` is the least time in which the HBM of a device moves
        `hbm_bytes`, evenly over the devices."""
        target, devices = self.machine.target, self.machine.device_count
        total = sum(counts.hbm_bytes for counts in self._counts.values())
        return {
            "granule_bytes": self._granule,
            "hbm_bytes": total,
            "hbm_seconds": total / devices / target.hbm_bytes_per_second,
            "subcores": [counts.told(core) for core, counts in self._counts.items()],
        }
