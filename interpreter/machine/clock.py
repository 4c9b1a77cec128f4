"""The clock of a machine: when things would happen, and what each unit did meanwhile.

Time never changes results. Every core has a time of its own, which its operations move on; a
transfer is ready when its engine and the memory have moved its bytes; a semaphore knows when it was
credited last, and who waits for it goes on no earlier. The order in which the machine really runs
its cores and lands its transfers does not matter for that.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Self

from pallasite.diagnostics import SourceLocation
from pallasite.interpreter.cycles import FREE, UNITS, Cost
from pallasite.interpreter.machine.dma import Transfer
from pallasite.interpreter.machine.observers import Observer
from pallasite.interpreter.machine.semaphores import Semaphore

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core
    from pallasite.interpreter.machine.machine import Device, Machine


class Profile(Observer):
    """What a run is measured by: told of work, transfers and semaphores."""

    @classmethod
    def start(cls, machine: Machine) -> Self:
        """A profile that is told of all that happens in `machine` from now on."""
        profile = cls(machine)
        machine.observe(*machine.observers, profile)
        for core in machine.cores:
            core.clock = profile
        return profile

    def spend(self, core: Core, work: Cost) -> None:
        """`core` executes operations that take `work` together."""
        raise NotImplementedError

    def summary(self) -> dict[str, Any]:
        """What was measured, by name."""
        raise NotImplementedError


class Clock(Profile):
    """Times in seconds since the kernel began."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.target = machine.target
        self.now: dict[Core, float] = dict.fromkeys(machine.cores, 0.0)
        self.stalled: dict[Core, float] = dict.fromkeys(machine.cores, 0.0)
        self.work: dict[Core, Cost] = dict.fromkeys(machine.cores, FREE)
        self.hbm_bytes = 0
        self.sent: dict[Device, float] = dict.fromkeys(machine.devices, 0.0)
        """Bytes that left a device."""
        self._free: dict[Core, float] = dict.fromkeys(machine.cores, 0.0)
        """When the DMA engine of a core has moved what was enqueued so far."""
        self._ready: dict[Transfer, float] = {}
        self._credited: dict[Semaphore, float] = {}

    def spend(self, core: Core, work: Cost) -> None:
        """`core` executes operations that take `work` together."""
        self.now[core] += work.duration / self.target.clock_hz
        self.work[core] += work

    def dma_start(self, transfer: Transfer) -> None:
        """The engine moves one transfer of a core after the other; each waits out the latency."""
        core = transfer.sender
        begin = max(self.now[core], self._free[core])
        self._free[core] = begin + self._moving(transfer)
        self._ready[transfer] = self._free[core] + self.target.dma_latency_seconds

    def _moving(self, transfer: Transfer) -> float:
        size = prod(transfer.source.shape) * transfer.source.codec.bits / 8
        ends = [ref.buffer.memory.kind for ref in (transfer.source, transfer.target)]
        slowest = self.target.vmem_bytes_per_second
        if "hbm" in ends:
            self.hbm_bytes += int(size) * ends.count("hbm")
            slowest = self.target.hbm_bytes_per_second / ends.count("hbm")
        if transfer.remote:
            if transfer.sender.device is not transfer.receiver.device:
                self.sent[transfer.sender.device] += size
            slowest = min(slowest, self.target.ici_bytes_per_second)
        return size / slowest

    def dma_read(self, transfer: Transfer) -> None:
        if transfer.source_semaphore is not None:
            self._credit(transfer.source_semaphore, self._ready[transfer])

    def dma_done(self, transfer: Transfer) -> None:
        self._credit(transfer.target_semaphore, self._ready.pop(transfer))

    def signal(
        self, core: Core, semaphore: Semaphore, amount: int, at: SourceLocation | None
    ) -> None:
        self._credit(semaphore, self.now[core])

    def wait(
        self, core: Core, semaphore: Semaphore, amount: int, at: SourceLocation | None
    ) -> None:
        late = self._credited.get(semaphore, 0.0) - self.now[core]
        if late > 0:
            self.now[core] += late
            self.stalled[core] += late

    def _credit(self, semaphore: Semaphore, when: float) -> None:
        self._credited[semaphore] = max(self._credited.get(semaphore, 0.0), when)

    def summary(self) -> dict[str, Any]:
        """Seconds and cycles in all and per core, what was busy, and which roof bounds the kernel.

        `intensity` is in operations per byte of HBM; `bound` compares it with the target's ratio,
        and both with `ici_seconds`, in which the device that sends most could have sent its bytes
        over one link.
        """
        target, cores = self.target, self.machine.cores
        last = max(self.now[core] for core in cores)
        flops = sum(self.work[core].flops for core in cores)
        intensity = flops / self.hbm_bytes if self.hbm_bytes else float("inf")
        balance = target.bf16_ops_per_second / target.hbm_bytes_per_second
        capacity = last * target.clock_hz * len(cores)
        mxu = sum(self.work[core].cycles[UNITS.index("mxu")] for core in cores)
        ici = max(self.sent.values()) / target.ici_bytes_per_second
        roof = (
            max(flops / target.bf16_ops_per_second, self.hbm_bytes / target.hbm_bytes_per_second)
            / self.machine.device_count
        )
        bound = "compute" if intensity > balance else "memory"
        reach = last * target.hbm_bytes_per_second * self.machine.device_count
        return {
            "seconds": last,
            "cycles": round(last * target.clock_hz),
            "flops": flops,
            "hbm_bytes": self.hbm_bytes,
            "intensity": intensity if self.hbm_bytes else None,
            "balance": balance,
            "ici_bytes": round(sum(self.sent.values())),
            "ici_seconds": ici,
            "bound": "interconnect" if ici > roof else bound,
            "mxu_utilisation": mxu / capacity if last else 0.0,
            "hbm_utilisation": self.hbm_bytes / reach if last else 0.0,
            "cores": [self._core(core) for core in cores],
        }

    def _core(self, core: Core) -> dict[str, Any]:
        return {
            "core": str(core),
            "seconds": self.now[core],
            "stalled_seconds": self.stalled[core],
            "busy_cycles": dict(zip(UNITS, self.work[core].cycles, strict=True)),
        }
