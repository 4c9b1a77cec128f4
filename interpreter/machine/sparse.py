"""SparseCores: their subcores, the memory that these share, and their barriers.

A SparseCore has one scalar subcore and several vector subcores. To the scheduler, the DMA engines
and the checks each of them is a `Core` with memories and semaphores of its own. The shared memory
of a SparseCore (`vmem_shared`) is the part of a common pool that its vector subcores leave free.
`passes/check_kernel/subcore_memory.py` checks the same limits before a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.ir import Attribute

from pallasite.diagnostics import ExecutionError, KernelLine, Note, SourceLocation, Unsupported
from pallasite.dialects.tpu.cores import SCALAR_SUBCORE, VECTOR_SUBCORE
from pallasite.interpreter.machine.codec import is_semaphore, memory_bits
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.memory import ALIGNMENT, Buffer, Memory
from pallasite.interpreter.machine.semaphores import Count, Semaphore, Wait
from pallasite.interpreter.machine.views import Ref
from pallasite.layouts.registers import LANES
from pallasite.layouts.tiling import Tiling, contiguous_strides
from pallasite.targets import SparseCores

if TYPE_CHECKING:
    from pallasite.interpreter.machine.machine import Device, Machine


@dataclass(frozen=True)
class SubcoreMesh:
    """The subcores of each device that a kernel runs on: those of the first `cores` SparseCores."""

    parts: SparseCores
    cores: int
    subcores: int
    """Vector subcores of each SparseCore that run; 0 if the kernel has none."""
    scalar: bool
    """Whether the scalar subcores run too."""
    padded: bool = True
    """Whether arrays are tiled as on a TensorCore, so that rows are padded to whole tiles."""

    @property
    def size(self) -> int:
        """How many subcores of a device run."""
        return self.cores * (self.subcores + self.scalar)

    def cores_of(self, machine: Machine, device: Device) -> list[Core]:
        """Makes the subcores of one device, one SparseCore after the other, its scalar subcore
        first."""
        found: list[Core] = []
        for index in range(self.cores):
            core = SparseCore(machine, device, index, self)
            if self.scalar:
                core.scalar = Subcore(core, SCALAR_SUBCORE, 0)
                found.append(core.scalar)
            core.vector = [Subcore(core, VECTOR_SUBCORE, n) for n in range(self.subcores)]
            found += core.vector
        return found


class SparseCore:
    """What the subcores of one SparseCore have in common: shared memory and barriers."""

    def __init__(self, machine: Machine, device: Device, index: int, mesh: SubcoreMesh) -> None:
        self.machine = machine
        self.device = device
        self.index = index
        self.mesh = mesh
        self.scalar: Subcore | None = None
        self.vector: list[Subcore] = []
        self.shared = SharedMemory(
            "vmem_shared", mesh.parts.pool_bytes, f"SparseCore {index}", machine.poison,
            "init" in machine.checks, machine.host,
        )  # fmt: skip
        self.barriers: dict[int, Barrier] = {}


class Subcore(Core):
    """One subcore. Its `index` is that of its SparseCore; `number` counts subcores of a kind
    there."""

    def __init__(self, core: SparseCore, kind: str, number: int) -> None:
        self.core = core
        self.kind = kind
        self._name = f"subcore {number}" if kind == VECTOR_SUBCORE else "the scalar subcore"
        super().__init__(core.machine, core.device, core.index)
        self.number = number
        self._memories["vmem_shared"] = Share(core.shared, self)
        if kind == SCALAR_SUBCORE:
            del self._memories["vmem"]

    def _sizes(self) -> dict[str, int]:
        """Bytes of each memory of the subcore; a semaphore takes 4."""
        parts, scalar = self.core.mesh.parts, self.kind == SCALAR_SUBCORE
        return {
            "vmem": parts.vmem_bytes,
            "smem": parts.scalar_smem_bytes if scalar else parts.smem_bytes,
            "semaphore_mem": 4 * (parts.scalar_semaphores if scalar else parts.semaphores),
        }

    def __str__(self) -> str:
        return f"{self._name} of SparseCore {self.index}{self._place()}"

    # Memory.

    def memory(self, space: str | None) -> Memory:
        """The memory that memory space `space` means on this subcore.

        No space means VMEM, and `any` and `host` mean HBM. Raises `Unsupported` if the subcore has
        no such memory.
        """
        kind = {None: "vmem", "any": "hbm", "host": "hbm"}.get(space, space)
        found = self._memories.get(kind or "")
        if found is None:
            raise Unsupported(
                "memory-space",
                f"memory space {space} does not exist on {self} of {self.target.name}",
                notes=[Note("it has " + ", ".join(self._memories))],
            )
        return found

    def tiling(self, shape: Sequence[int], element: Attribute, *, argument: bool) -> Tiling:
        """The layout of an array: row by row, without tiles.

        With `use_tc_tiling_on_sc`, arrays of several dimensions follow a TensorCore's tiling as far
        as it shows: the rows of buffers are padded to 128 elements, and narrow elements of
        neighbouring rows share words. The rows of an operand (`argument`) are not padded.
        """
        if not self.core.mesh.padded or len(shape) < 2 or is_semaphore(element):
            return Tiling((), contiguous_strides(shape, ()))
        rows = max(1, 32 // memory_bits(element))
        words = ((rows, 1),) if rows > 1 else ()
        if argument:
            tiles = words
        else:
            tiles = ((rows, LANES), *words) if words else ((LANES,),)
        return Tiling(tiles, contiguous_strides(shape, tiles[0] if tiles else ()))

    def allocate(self, type: Attribute, *arguments: Any, **options: Any) -> Ref:
        """Allocates as on any core; shared memory comes from the SparseCore.

        Raises `ExecutionError` if the pool of VMEM and shared memory is exceeded.
        """
        ref = super().allocate(type, *arguments, **options)
        if ref.buffer.memory.kind in ("vmem", "vmem_shared"):
            self._check_pool(ref.buffer)
        return ref

    def _check_pool(self, buffer: Buffer) -> None:
        """Raises unless the VMEM of all subcores and the shared memory fit into their pool.

        Every subcore, also one that does not run, takes as much VMEM as the one that uses most.
        """
        core, parts = self.core, self.core.mesh.parts
        own = max((subcore.vmem.used_bytes for subcore in core.vector), default=0)
        if own * parts.subcores + core.shared.used_bytes > parts.pool_bytes:
            raise ExecutionError(
                f"{buffer.memory.kind.replace('_', '-')}-exhausted",
                f"the subcores of SparseCore {core.index} have {parts.pool_bytes} bytes, but take "
                f"{own} each as vmem and {core.shared.used_bytes} as vmem_shared, with "
                f"{buffer.title}",
                buffer.location,
                [Note(f"what {parts.subcores} subcores have for themselves they do not share")],
            )

    def _end(self, buffer: Buffer) -> None:
        """Ends a buffer; a shared one ends with the last subcore that has it."""
        if buffer.memory is not self.core.shared or self.core.shared.leave(self, buffer):
            super()._end(buffer)

    # Others.

    def subcore(
        self,
        kind: str,
        device: int | None,
        core: int | None,
        number: int | None,
        at: SourceLocation | None,
    ) -> Subcore:
        """The subcore of `kind` on device `device`, SparseCore `core` with number `number`.

        An id that is None means this subcore's own; the number of a subcore of another kind is then
        0. Raises `ExecutionError` if the kernel runs on no such subcore.
        """
        home = self.device if device is None else self.machine.device(device, at)
        index = self.index if core is None else core
        there = [c for c in home.cores if isinstance(c, Subcore) and c.kind == kind]
        if number is None:
            number = self.number if kind == self.kind else 0
        for found in there:
            if (found.index, found.number) == (index, number):
                return found
        what = "scalar subcores" if kind == SCALAR_SUBCORE else "vector subcores"
        raise ExecutionError(
            "no-such-core",
            f"subcore {number} of SparseCore {index} on device {home.index}, where the kernel runs "
            f"on {len(there)} {what} of {self.core.mesh.cores} SparseCores",
            at,
            [Note("only subcores of the kernel's meshes are there")],
        )

    def barrier_of(self, number: int, at: SourceLocation | None) -> Generator[Wait, None, None]:
        """Waits at barrier `number` until all vector subcores of this SparseCore have arrived
        there."""
        barrier = self.core.barriers.get(number)
        if barrier is None:
            barrier = self.core.barriers[number] = Barrier(self.core)
        return barrier.arrive(self, at)


class SharedMemory(Memory):
    """The shared memory of a SparseCore.

    All subcores allocate the same refs in the same order, each at its own pace. The n-th execution
    of one allocation gives the same buffer to every subcore; the buffer lives until the last of
    them leaves its scope.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._tops: dict[Core, int] = {}
        """The first free byte, as each subcore sees it."""
        self._times: Counter[tuple[Core, object]] = Counter()
        self._shared: dict[object, Buffer] = {}
        self._holders: dict[Buffer, set[Core]] = {}

    @property
    def used_bytes(self) -> int:
        return max(self._tops.values(), default=0)

    def join(
        self, core: Core, size: int, name: str, location: SourceLocation | None, *, zero: bool
    ) -> Buffer:
        """Gives `core` the buffer of an allocation of `size` bytes: a new one if it comes first.

        Raises if the memory is exhausted.
        """
        span = max(1, -(-size // ALIGNMENT)) * ALIGNMENT
        address = self._tops.get(core, 0)
        if address + span > self.capacity:
            raise self._exhausted(span, name, location)
        self._tops[core] = address + span
        self.peak_bytes = max(self.peak_bytes, self.used_bytes)
        # The kernels of several meshes share scratch, though each names another source line.
        place = (address, span, None if isinstance(location, KernelLine) else location)
        self._times[core, place] += 1
        key = (place, self._times[core, place])
        buffer = self._shared.get(key)
        # A core that comes after all others have left the buffer gets a new one.
        if buffer is None or buffer.freed:
            buffer = Buffer(self, address, span, name, location, zero)
            if self.tracked:
                buffer.track()
            self._shared[key] = self._live[address] = buffer
            self._stack.append(buffer)
        self._holders.setdefault(buffer, set()).add(core)
        return buffer

    def leave(self, core: Core, buffer: Buffer) -> bool:
        """Ends the scope of `buffer` on `core`; True if no other core has the buffer any more."""
        self._tops[core] = buffer.address
        holders = self._holders[buffer]
        holders.discard(core)
        return not holders

    def free(self, buffer: Buffer) -> None:
        """Ends the life of `buffer`."""
        del self._holders[buffer]
        buffer.freed = True
        buffer.forget()
        if self._live.get(buffer.address) is buffer:
            del self._live[buffer.address]
        self._stack.remove(buffer)


class Share(Memory):
    """The shared memory of a SparseCore as one subcore sees it: its allocations are joint ones."""

    def __init__(self, whole: SharedMemory, core: Core) -> None:
        super().__init__(whole.kind, whole.capacity, whole.owner)
        self._whole = whole
        self._core = core

    def allocate(
        self,
        size: int,
        name: str = "",
        location: SourceLocation | None = None,
        *,
        zero: bool = False,
        pinned: bool = False,
        again: Buffer | None = None,
    ) -> Buffer:
        """The buffer that the subcore shares with the others."""
        return self._whole.join(self._core, size, name, location, zero=zero)

    def at(self, address: int) -> Buffer | None:
        """The live buffer that starts at `address`."""
        return self._whole.at(address)


@dataclass(frozen=True)
class _Arrival(Count):
    """A subcore that waits for the others at a barrier."""

    barrier: Barrier = field(kw_only=True)

    def describe(self) -> str:
        where = f" at {self.location}" if self.location else ""
        core, come = self.barrier.core, self.barrier.arrived.value
        return (
            f"waits{where} at the barrier of SparseCore {core.index}, to which {come} of "
            f"{len(core.vector)} subcores have come"
        )

    def advice(self) -> str:
        return "every subcore must come to the barrier as often: not under a condition"


class Barrier:
    """Where the vector subcores of a SparseCore wait for each other.

    The last one to arrive releases the others. The checks see signals and waits on semaphores, so
    that all that comes before the barrier is ordered before all that comes after it.
    """

    def __init__(self, core: SparseCore) -> None:
        self.core = core
        self.arrived = Semaphore(str(core.vector[0]), 0, "barrier")
        self._left = {subcore: Semaphore(str(subcore), 0, "barrier") for subcore in core.vector}

    def arrive(self, subcore: Subcore, at: SourceLocation | None) -> Generator[Wait, None, None]:
        """`subcore` arrives, and goes on once all have; yields waits until then."""
        everybody, observer = self.core.vector, subcore.observer
        if observer is not None:
            observer.signal(subcore, self.arrived, 1, at)
        self.arrived.credit(1, subcore, at)
        if self.arrived.value == len(everybody):
            self.arrived.value = 0
            if observer is not None:
                observer.wait(subcore, self.arrived, len(everybody), at)
            for other in everybody:
                if other is not subcore:
                    if observer is not None:
                        observer.signal(subcore, self._left[other], 1, at)
                    self._left[other].credit(1, subcore, at)
            return
        own = self._left[subcore]
        while own.value < 1:
            yield _Arrival(own, 1, at, barrier=self)
        own.value -= 1
        if observer is not None:
            observer.wait(subcore, own, 1, at)
