"""One core: VMEM, SMEM, semaphores and a random number generator, and what its program does."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from pallasite.diagnostics import ExecutionError, SourceLocation, Unsupported
from pallasite.dialects.tpu import DMASemaphoreType
from pallasite.dialects.types import memory_space, tiling_of
from pallasite.interpreter.machine.codec import codec, is_semaphore, memory_bits
from pallasite.interpreter.machine.dma import Transfer
from pallasite.interpreter.machine.faults import no_such_core, several_semaphores
from pallasite.interpreter.machine.memory import Buffer, Memory
from pallasite.interpreter.machine.mxu import MatrixUnits
from pallasite.interpreter.machine.observers import Observer
from pallasite.interpreter.machine.prng import Prng
from pallasite.interpreter.machine.renewal import Allocations, Wanted
from pallasite.interpreter.machine.semaphores import Count, Semaphore, Wait, amount_of, negative
from pallasite.interpreter.machine.views import Ref
from pallasite.layouts.tiling import Tiling, contiguous_strides, infer_tiling

if TYPE_CHECKING:
    from pallasite.interpreter.machine.clock import Profile
    from pallasite.interpreter.machine.machine import Device, Machine
    from pallasite.interpreter.replay.recorder import Recorder

_SPACES = {
    None: "vmem", "vmem": "vmem", "smem": "smem", "semaphore_mem": "semaphore_mem",
    "any": "hbm", "hbm": "hbm", "host": "hbm",
}  # fmt: skip
BARRIER_BYTES = 4


class Core:
    """One TensorCore: the memories and units that its program uses, and where its effects go."""

    def __init__(self, machine: Machine, device: Device, index: int) -> None:
        self.machine = machine
        self.allocations = Allocations(next(machine.earlier, None))
        self.device = device
        self.index = index
        self.number = 0  # Of a subcore among those of its SparseCore.
        self.target = machine.target
        self.bounds: tuple[int, ...] = ()
        """Iteration bounds of the running kernel, for `tpu.iteration_bound`."""
        self.log: list[str] = []
        """Lines written by `tpu.log` and its kin."""
        self.observer: Observer | None = None
        self.recorder: Recorder | None = None
        """Who is told of what a run does with arrays, if somebody wants to replay it."""
        self.spans: list[str] = []
        """The names of the open `tpu.trace_start`, the innermost last."""
        self.clock: Profile | None = None
        """What the program's operations report their work to, if the run keeps time."""
        self.begun = True
        """Whether its program has come to its first wait, and so has allocated what others use."""
        self.finished = False
        """Whether its program has ended while others of the same run go on."""
        self.semaphores: dict[int, Semaphore] = {}
        self.sessions: dict[Any, Any] = {}
        """What copies in the text of its program know of this run (`prompt`)."""
        self._title = str(self)
        sizes = self._sizes()
        kinds = ("vmem", "smem", "semaphore_mem")
        own = [machine.new_memory(kind, sizes[kind], self._title) for kind in kinds]
        self.vmem, self.smem, self.semaphore_memory = own
        # The barrier semaphore exists before any kernel starts, at one address everywhere.
        self._barrier = self.semaphore_memory.allocate(BARRIER_BYTES, "barrier", pinned=True)
        self._memories = {
            "vmem": self.vmem,
            "smem": self.smem,
            "semaphore_mem": self.semaphore_memory,
            "hbm": device.hbm,
        }
        self.mxus = MatrixUnits()
        self._scoped: list[Buffer] = []
        self._scratch: dict[Attribute, Ref] = {}

    @cached_property
    def prng(self) -> Prng:
        """The core's random number generator."""
        return Prng(self.machine.order.seed, self.device.index, self.index)

    def _sizes(self) -> dict[str, int]:
        """The bytes of a core's memories, by memory space."""
        return self.machine.sizes

    def __str__(self) -> str:
        return f"core {self.index}{self._place()}"

    def _place(self) -> str:
        """The device that it is on, if there are several."""
        several = len(self.machine.devices) > 1 or self.machine.device_count > 1
        return f" of device {self.device.index}" if several else ""

    # Memory.

    def memory(self, space: str | None) -> Memory:
        """The memory of this core for the memory space `space`."""
        kind = _SPACES.get(space)
        if kind is None:
            raise Unsupported(
                "memory-space",
                f"memory space {space} does not exist on a TensorCore of {self.target.name}",
            )
        return self._memories[kind]

    def allocate(
        self,
        type: Attribute,
        name: str = "",
        location: SourceLocation | None = None,
        *,
        shape: Sequence[int] | None = None,
        zero: bool = False,
        argument: bool = False,
        pinned: bool = False,
    ) -> Ref:
        """A new buffer for memref type `type`; `shape` gives the sizes of dynamic dimensions.

        The layout is the type's, else the compiler's (spec/vreg_lowering.md section 3), by the
        rule for kernel arguments if `argument` is set. It lives until `release` unless `pinned`.
        """
        memref = cast("MemRefType[Attribute]", type)
        sizes = tuple(memref.get_shape() if shape is None else shape)
        if sizes and min(sizes) < 0:
            raise ExecutionError(
                "negative-size", f"expected sizes of at least 0, got {list(sizes)}", location
            )
        wanted = Wanted(type, sizes, zero, pinned, argument)
        ref = self.allocations.again(wanted, self._memories, name, location)
        if ref is None:
            element = memref.element_type
            tiling = tiling_of(type) or self.tiling(sizes, element, argument=argument)
            size = -(-tiling.elements(sizes) * codec(element).bits // 8)
            memory = self.memory(memory_space(type))
            buffer = memory.allocate(size, name, location, zero=zero, pinned=pinned)
            ref = Ref.of(buffer, element, sizes, tiling)
        self.allocations.add(wanted, ref)
        if not pinned:
            self._scoped.append(ref.buffer)
        if ref.buffer.memory is self.semaphore_memory:
            self._new_semaphores(ref, name, location)
        if self.observer is not None:
            self.observer.allocated(self, ref.buffer)
        return ref

    def tiling(self, shape: Sequence[int], element: Attribute, *, argument: bool) -> Tiling:
        """The layout of a memref whose type has none."""
        if is_semaphore(element):
            return Tiling((), contiguous_strides(shape, ()))
        large_halves = not argument and self.target.large_buffer_halves
        return infer_tiling(shape, memory_bits(element), large_halves=large_halves)

    def mark(self) -> int:
        """A token for `release`: the allocations that exist now."""
        return len(self._scoped)

    def release(self, token: int) -> None:
        """Frees what this core has allocated since `mark` returned `token`."""
        while len(self._scoped) > token:
            self._end(self._scoped.pop())

    def _end(self, buffer: Buffer) -> None:
        """Ends the scope of a buffer."""
        self.machine.engine.land_passed(buffer)
        if self.observer is not None:
            self.observer.released(self, buffer)
        buffer.memory.free(buffer)

    def drop(self) -> None:
        """Forgets its allocations, after its program has ended."""
        self.allocations = Allocations()
        self._scoped.clear()
        self._scratch.clear()
        self.sessions.clear()
        for memory in self._memories.values():
            memory.drop()

    def internal_scratch(self, type: Attribute, location: SourceLocation | None = None) -> Ref:
        """The compiler's scratch of a type: one buffer per core, whichever scope asks first."""
        if type not in self._scratch:
            self._scratch[type] = self.allocate(type, "internal scratch", location, pinned=True)
        return self._scratch[type]

    # Semaphores.

    def _new_semaphores(self, ref: Ref, name: str, location: SourceLocation | None) -> None:
        first = ref.buffer.address // 4
        counts_bytes = isinstance(ref.element, DMASemaphoreType)
        for number in range(ref.buffer.size // 4):
            semaphore = self._semaphore(first + number)
            semaphore.name, semaphore.location = name, location
            semaphore.number, semaphore.shape, semaphore.bytes = number, ref.shape, counts_bytes

    def _semaphore(self, index: int) -> Semaphore:
        semaphore = self.semaphores.get(index)
        if semaphore is None:
            semaphore = self.semaphores[index] = Semaphore(self._title, index)
        return semaphore

    def semaphore(self, ref: Ref, at: SourceLocation | None = None) -> Semaphore:
        """The counter that a rank-0 semaphore ref of any core names on this one."""
        if ref.shape:
            raise several_semaphores(ref, at)
        index = ref.address // 4
        return self.semaphores.get(index) or self._semaphore(index)

    def passed_semaphores(self, ref: Ref) -> list[Semaphore]:
        """The counters of an operand of the kernel, in row-major order of `ref`."""
        first = ref.address // 4
        found = [self._semaphore(first + index) for index in range(prod(ref.shape))]
        for semaphore in found:
            semaphore.passed = self.machine.engine.passes = True
        return found

    def barrier(self, element: Attribute) -> Ref:
        """The barrier semaphore, which exists before the kernel starts."""
        self._semaphore(self._barrier.address // 4).name = "barrier semaphore"
        return Ref(self._barrier, element, (), ())

    def signal(self, target: Core, ref: Ref, amount: int, at: SourceLocation | None = None) -> None:
        """Adds `amount` to the semaphore that `ref` names on `target`."""
        semaphore = target.semaphore(ref, at)
        if amount < 0:
            raise negative(amount, semaphore, at)
        if self.observer is not None:
            self.observer.signal(self, semaphore, amount, at)
        semaphore.credit(amount, self, at)

    def wait(self, ref: Ref, amount: int, at: SourceLocation | None = None) -> Generator[Wait]:
        """Waits until the semaphore holds `amount`, then takes it; does not block if it already
        does."""
        semaphore = self.semaphore(ref, at)
        if amount < 0:
            raise negative(amount, semaphore, at)
        if semaphore.value < amount:
            self.machine.engine.hurry(semaphore, amount)
        if semaphore.value < amount:
            transfers = isinstance(ref.element, DMASemaphoreType)
            return Count(semaphore, amount, at, transfers).blocking(self)
        return semaphore.take(amount, self, at)

    # DMA.

    def peer(self, device: int | None, core: int | None, at: SourceLocation | None = None) -> Core:
        """The core that a device id and a core id name, as seen from this one."""
        machine = self.machine
        home = self.device if device is None else machine.device(device, at)
        index = self.index if core is None else core
        if not 0 <= index < len(home.cores):
            raise no_such_core(index, home.index, len(home.cores), at)
        return home.cores[index]

    def enqueue(
        self,
        source: Ref,
        target: Ref,
        target_semaphore: Ref,
        source_semaphore: Ref | None = None,
        *,
        peer: Core | None = None,
        reach: Ref | None = None,
        edge: bool = False,
        at: SourceLocation | None = None,
    ) -> Transfer:
        """Starts a copy, to this core or to `peer`; returns at once."""
        receiver = peer or self
        if receiver.device is not self.device:
            self.machine.routes.check(self.device.index, receiver.device.index, at)
        credited = receiver.semaphore(target_semaphore, at)
        sent = None if source_semaphore is None else self.semaphore(source_semaphore, at)
        transfer = Transfer(
            self,
            receiver,
            source,
            target,
            source_semaphore=sent,
            target_semaphore=credited,
            source_amount=0 if source_semaphore is None else amount_of(source_semaphore, source),
            target_amount=amount_of(target_semaphore, target),
            location=at,
            remote=receiver is not self,
            reach=reach,
            edge=edge,
        )
        self.machine.engine.enqueue(transfer)
        return transfer

    def start(
        self, source: Ref, target: Ref, semaphore: Ref, amount: int, at: SourceLocation | None
    ) -> None:
        """`enqueue` of a copy to this core that adds `amount` to `semaphore`, and nothing else."""
        plain = self.observer is None and self.recorder is None
        self.machine.engine.enqueue(
            Transfer(
                self, self, source, target, None, self.semaphore(semaphore, at), 0, amount, at,
                plain=plain,
            )
        )  # fmt: skip
