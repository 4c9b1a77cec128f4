"""Blocks of windows as their sequential meaning has them: fetched, written back, checked.

A block is fetched when the index of its operand changes, and written back when it is about to
change or after the last step (spec/pallas_semantics.md sections 1.3 to 1.9).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, BlockArgument

from pallasite.diagnostics import ExecutionError, Note, SourceLocation, UsageError
from pallasite.dialects.kernel import Window
from pallasite.dialects.locations import kernel_line
from pallasite.interpreter.machine import accesses, dma
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.dma_rules import broken_alias
from pallasite.interpreter.machine.faults import ONE_VISIT, block_outside
from pallasite.interpreter.machine.rounding import spoil_block
from pallasite.interpreter.machine.views import Ref

Index = tuple[int, ...]
Box = list[tuple[int, int, int]]
"""Per dimension: start in the array, start in the buffer, length of what both have."""

DEFAULT_BUFFERS = 2


@dataclass(eq=False, slots=True)
class Operand:
    """One array of the call: where it lies in HBM, and its part in the kernel.

    `ref` has the array's shape; `buffer` is the whole allocation, which may be padded.
    """

    name: str
    ref: Ref
    buffer: Ref
    output: bool
    aliased: bool = False
    in_order: bool = False
    """Whether its elements lie in memory as in an array of NumPy (`in_order`)."""
    left: dict[Index, Core] = field(default_factory=dict[tuple[int, ...], "Core"])
    """Blocks of an output that were written back, and the core that did it last."""


def titled(role: str, argument: BlockArgument) -> str:
    """What messages call an argument of the kernel: its role, and its name in the module."""
    return f"{role} (%{argument.name_hint})" if argument.name_hint else role


class Block:
    """The on-chip buffers of one operand and the block that they hold now."""

    def __init__(
        self,
        core: Core,
        operand: Operand,
        window: Window,
        type: Attribute,
        location: SourceLocation | None,
        shared: Block | None = None,
    ):
        """`type` is that of the ref that the kernel sees; `shared` has the buffers already."""
        self.core = core
        self.operand = operand
        self.window = window
        count = (window.buffers or DEFAULT_BUFFERS) if window.windowed else 1
        name = f"block of {operand.name}"
        shape: tuple[int, ...] | None = None
        if window.squeezed and window.bounds is not None:
            memref = cast("MemRefType[Attribute]", type)
            shape = window.bounds
            type = MemRefType(memref.element_type, shape, memory_space=memref.memory_space)
        self.buffers = (
            [core.allocate(type, name, kernel_line(location)) for _ in range(count)]
            if shared is None
            else shared.buffers
        )
        kept = [d for d in range(len(shape or ())) if d not in window.squeezed]
        self._seen = [b.keep(kept) for b in self.buffers] if shape is not None else self.buffers
        self.location = location
        self.slot = 0
        self.index: Index | None = None
        self.writers: list[Block] = []
        """The outputs that share the memory of this input."""
        self.written: deque[tuple[int, Box]] = deque(maxlen=2)
        """The last step of each of the blocks that were written back last, and where they are."""

    @property
    def ref(self) -> Ref:
        """What the kernel sees of the current block."""
        return self._seen[self.slot]

    @property
    def buffer(self) -> Ref:
        """The buffer of the current block, with squeezed dimensions of size 1."""
        return self.buffers[self.slot]

    def enter(self, index: Index, step: Index, number: int) -> None:
        """Makes `index` the current block: fetches an input, checks the return to an output.

        An output that may be visited again is fetched at every visit, the first one included: it
        shows what its array holds, which is an aliased input or what nobody has written.
        `step` is the grid point, the `number`-th of this core.
        """
        if index == self.index:
            return
        if self.index is not None:
            self.slot = (self.slot + 1) % len(self.buffers)
        self.index = index
        inside = self._inside(index, step)
        again = self.operand.output and index in self.operand.left and not self.operand.aliased
        if again and not self.window.revisits:
            raise self._revisited(index, step)
        fetched = self.window.revisits or not self.operand.output
        if self.writers and not self.operand.output:
            self._check_aliases(inside, step, number)
        if fetched and tuple(size for *_, size in inside) != self.buffer.shape:
            spoil_block(self.buffer, 1)
            self.core.machine.overruns = True
        self._forget(written=fetched)
        if fetched:
            self._copy(inside, store=False)

    def _forget(self, *, written: bool) -> None:
        """A fetched block is written, with what lies outside its array; a new result is not."""
        shadow = self.ref.buffer.shadow
        if shadow is not None:
            shadow[:] = 0xFF if written else 0

    def leave(self, number: int) -> None:
        """Writes the current block of an output back, before the `number`-th step."""
        if self.operand.output and self.index is not None:
            self.operand.left[self.index] = self.core
            inside = self._inside(self.index, ())
            self.written.append((number - 1, inside))
            self._copy(inside, store=True)

    def _check_aliases(self, box: Box, step: Index, number: int) -> None:
        """Refuses a block that an output which shares its memory has written a moment ago.

        The pipeline fetches a block one step ahead and waits for a written one a step later, unless
        they have a single buffer (spec/pallas_semantics.md 1.7 and 2.3).
        """
        for writer, written, other in [(w, *last) for w in self.writers for last in w.written]:
            if written < number - (len(self.buffers) + len(writer.buffers) - 2):
                continue
            pairs = zip(box, other, strict=True)
            if all(a[0] < b[0] + b[2] and b[0] < a[0] + a[2] for a, b in pairs):
                raise broken_alias(
                    f"block {list(self.index or ())} of {self.operand.name} is fetched for grid "
                    f"point {list(step)}, but {writer.operand.name}, which shares its memory, is "
                    f"written there {_steps(number - written)} before",
                    self.location,
                )

    def _inside(self, index: Index, step: Index) -> Box:
        """The part of block `index` that lies inside the array."""
        shape, bounds = self.operand.ref.shape, self.window.bounds or ()
        box: Box = []
        for d, (position, size) in enumerate(zip(index, bounds, strict=True)):
            start = position * size if self.window.low is None else position - self.window.low[d]
            first, last = max(start, 0), min(start + size, shape[d])
            if first >= last or (start < 0 and self.window.low is None):
                raise self._outside(index, step)
            box.append((first, first - start, last - first))
        return box

    def _copy(self, box: Box, *, store: bool) -> None:
        far, near = self._ends(box)
        source, target = (near, far) if store else (far, near)
        dma.copy(source, target, self.location)
        observer = self.core.observer
        if observer is not None and all(far.shape):
            first = (0,) * len(far.shape)
            read, written = (accesses.Box(ref, first, ref.shape) for ref in (source, target))
            observer.block(self.core, read, written, self.location)

    def _ends(self, box: Box) -> tuple[Ref, Ref]:
        """The box in the array, and in the buffer."""
        sizes = tuple(size for _, _, size in box)
        far = self.operand.ref.slice(tuple(start for start, _, _ in box), sizes)
        return far, self.buffer.slice(tuple(start for _, start, _ in box), sizes)

    def _outside(self, index: Index, step: Index) -> ExecutionError:
        shape = self.operand.ref.shape
        return ExecutionError(
            "block-out-of-bounds",
            f"block {list(index)} of {self.operand.name} lies outside the array of shape "
            f"{list(shape)} at grid point {list(step)}",
            self.location,
            block_outside(self._place(index), self.window.bounds or (), shape),
        )

    def _place(self, index: Index) -> Sequence[int]:
        """The first element of block `index`; of one at elements, in the padded array."""
        if self.window.low is not None:
            return index
        return [n * size for n, size in zip(index, self.window.bounds or (), strict=True)]

    def _revisited(self, index: Index, step: Index) -> ExecutionError:
        other = self.operand.left[index]
        what = f"block {list(index)} of {self.operand.name} is visited again at grid point "
        if other is not self.core:
            note = Note(
                "cores share a parallel axis of the grid; its steps must not share output blocks"
            )
            where = f"{list(step)} by {self.core}, after {other}"
        else:
            note = ONE_VISIT
            where = f"{list(step)}, after other blocks"
        return ExecutionError("block-revisited", what + where, self.location, [note])


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def copy_whole(source: Ref, target: Ref, name: str) -> None:
    """Copies what two refs of equal rank have in common: one may be padded."""
    if len(source.shape) != len(target.shape):
        raise UsageError(
            "operand-rank",
            f"{name} has rank {len(source.shape)}, the kernel's memref rank {len(target.shape)}",
        )
    sizes = tuple(map(min, source.shape, target.shape))
    start = (0,) * len(sizes)
    dma.copy(source.slice(start, sizes), target.slice(start, sizes))
