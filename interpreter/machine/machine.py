"""The machine: devices with HBM and cores, the transfers between them, and what checks find.

All state of a run belongs to a `Machine`; two machines share nothing. A machine outlives its
programs: run as many as you like, memory and semaphores keep their contents in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pallasite.diagnostics import Diagnostic, SourceLocation
from pallasite.interpreter.machine import scheduler
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.dma import Engine
from pallasite.interpreter.machine.faults import no_such_device
from pallasite.interpreter.machine.memory import HostMemory, Memory
from pallasite.interpreter.machine.observers import Observer, Observers
from pallasite.interpreter.machine.order import IN_ORDER, Order
from pallasite.interpreter.machine.renewal import Allocations
from pallasite.interpreter.machine.routes import Routes
from pallasite.targets import Target

if TYPE_CHECKING:
    from pallasite.interpreter.machine.grid_walk import GridWalk
    from pallasite.interpreter.machine.sparse import SubcoreMesh


class Device:
    """One chip (or half of one): HBM shared by its cores."""

    def __init__(
        self, machine: Machine, index: int, cores: int, mesh: SubcoreMesh | None = None
    ) -> None:
        self.index = index
        self.hbm = machine.new_memory("hbm", machine.sizes["hbm"], f"device {index}")
        own = [Core(machine, self, c) for c in range(cores)]
        self.cores: list[Core] = own if mesh is None else mesh.cores_of(machine, self)


class Machine:
    """A number of equal devices, the transfers between them, and what the checks have found."""

    def __init__(
        self,
        target: Target,
        devices: int = 1,
        cores: int = 1,
        *,
        mesh: SubcoreMesh | None = None,
        order: Order = IN_ORDER,
        checks: Iterable[str] = (),
        poison: int = 0,
        host: HostMemory | None = None,
        earlier: Iterable[Allocations] = (),
    ) -> None:
        """`cores` is how many TensorCores a device has; `mesh` puts subcores of SparseCores in
        their place. `host` is memory of this computer for it to use, and gets it back by `close`;
        `earlier` is what the cores of a machine allocated that ran the same programs, and is no
        more.
        """
        self.earlier = iter(earlier)
        self.host = HostMemory() if host is None else host
        self.grid_walk: GridWalk | None = None
        """Set by who runs a kernel: how the points of its grid are taken."""
        self.reads_outside = False
        """Set by who runs a kernel: whether its loads of vectors may reach out of their buffers."""
        self.overruns = False
        """Whether it made blocks that overrun their array: what lies there is no finding."""
        self.target = target
        self.order = order
        self.poison = poison
        self.checks = frozenset(checks)
        self.findings: list[Diagnostic] = []
        self.logged = 0
        """Characters that its cores have logged."""
        self.sizes = {
            "vmem": target.vmem_bytes,
            "smem": target.smem_bytes,
            "hbm": target.hbm_bytes,
            "semaphore_mem": target.semaphores * 4,
        }
        count = devices * (cores if mesh is None else mesh.size)
        self.engine = Engine(order, count)
        self.device_count = devices
        self.routes = Routes(target, devices)
        self.devices: list[Device] = []
        for index in range(devices):
            self.devices.append(Device(self, index, cores, mesh))
        self.cores = [core for device in self.devices for core in device.cores]
        self.observe(*self._sanitizers())

    def _sanitizers(self) -> list[Observer]:
        if not self.checks:
            return []
        # Imported when asked for: what finds races is large.
        from pallasite.interpreter.machine.checks import CHECKS

        return [CHECKS[name](self) for name in sorted(self.checks) if name in CHECKS]

    def observe(self, *observers: Observer) -> None:
        """Has `observers`, and nobody else, told of what happens from now on."""
        self.observers = observers
        several = Observers(self, observers) if len(observers) > 1 else None
        for core in self.cores:
            core.observer = several or (observers[0] if observers else None)

    def new_memory(self, kind: str, capacity: int, owner: str) -> Memory:
        """A memory with this machine's poison and tracking."""
        return Memory(kind, capacity, owner, self.poison, "init" in self.checks, host=self.host)

    def peak_bytes(self, kind: str) -> int:
        """The most that any core held at once of its memory `kind`."""
        return max(getattr(core, kind).peak_bytes for core in self.cores)

    def device(self, index: int, at: SourceLocation | None = None) -> Device:
        """The device with logical id `index`."""
        if not 0 <= index < len(self.devices):
            raise no_such_device(index, len(self.devices), at)
        return self.devices[index]

    def run(self, programs: Sequence[tuple[Core, scheduler.Program]]) -> list[Any]:
        """Runs the programs of several cores to their ends; returns what they returned."""
        results = scheduler.run(programs, self.engine.land_one, self.engine.random)
        for observer in self.observers:
            observer.finish()
        while self.engine.flying:
            # The hardware does not take back what it has started.
            transfer = next(iter(self.engine.flying))
            if transfer.source.buffer.freed or transfer.target.buffer.freed:
                self.engine.drop(transfer)
            else:
                self.engine.finish(transfer)
        return results

    def close(self) -> None:
        """Ends the machine's life: what it holds of this computer's memory may be used again."""
        for memory in [d.hbm for d in self.devices] + [c.vmem for c in self.cores]:
            for buffer in memory.live():
                buffer.forget()
        self.host.close()

    def drop(self) -> None:
        """Lets go of all memory at once: a machine and its cores know each other, so Python finds
        out much later that nobody knows them any more."""
        self.observe()
        for device in self.devices:
            device.hbm.drop()
        for core in self.cores:
            core.drop()
