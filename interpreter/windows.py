"""Runs a kernel function with its windows, by their sequential meaning.

For each grid point in order, last dimension fastest: the index maps say which block of each operand
the step sees; an input block is fetched when its index changes, the body runs, an output block is
written back when its index is about to change and after the last step
(spec/pallas_semantics.md sections 1.3 to 1.9, spec/tpu_dialect.md section 4). This is what forms
`mosaic` and the old C++ register form leave to the machine around the kernel; in the later forms
operands are whole HBM refs and nothing is left to do here but to start the cores: where they share
the grid (`dialects.core_split`), each runs the points of its part, with blocks of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, BlockArgument

from pallasite.diagnostics import ExecutionError, Note, SourceLocation, UsageError, VerifyError
from pallasite.dialects.core_split import CoreSplit
from pallasite.dialects.kernel import IN_PLACE, Kernel, Window
from pallasite.dialects.locations import kernel_line, source_location
from pallasite.dialects.types import memory_space
from pallasite.interpreter.driver import Program, Run
from pallasite.interpreter.limits import GRID_POINT_STEPS
from pallasite.interpreter.machine import dma
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.faults import ONE_VISIT, block_outside
from pallasite.interpreter.machine.grid_walk import Axis
from pallasite.interpreter.machine.rounding import spoil_block
from pallasite.interpreter.machine.views import Ref

Index = tuple[int, ...]
Box = list[tuple[int, int, int]]
"""Per dimension: start in the array, start in the buffer, length of what both have."""

DEFAULT_BUFFERS = 2


@dataclass(frozen=True)
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
        fetched = again or not self.operand.output
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
                raise dma.broken_alias(
                    f"block {list(self.index or ())} of {self.operand.name} is fetched for grid "
                    f"point {list(step)}, but {writer.operand.name}, which shares its memory, is "
                    f"written there {number - written} steps before",
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
        if store:
            dma.copy(near, far, self.location)
        else:
            dma.copy(far, near, self.location)

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


class Invocation:
    """One core's execution of a kernel. Allocates at once, runs when `steps` is iterated."""

    def __init__(
        self,
        program: Program,
        kernel: Kernel,
        core: Core,
        grid: tuple[int, ...],
        split: CoreSplit | None,
        prefetch: Sequence[Operand],
        operands: Sequence[Operand],
        point: tuple[int, ...] | None = None,
        owned: Callable[[Attribute], bool] | None = None,
    ):
        """`point` is the only one that this core runs, by default it runs its part of the grid.

        `owned` says of the type of scratch whether it is this core's own, and not to be put into
        `scratch` later. Where it is given, memory of the kernel lives to the end of the run: other
        cores may use it after this one has ended.
        """
        self.core = core
        self.grid = grid
        axes = [range(size) for size in grid] if point is None else [range(n, n + 1) for n in point]
        if split is not None:
            first, count = split.part(core.index, grid[split.axis])
            axes[split.axis] = range(first, first + count)
        walk = core.machine.grid_walk
        kinds = kernel.semantics or ("arbitrary",) * len(grid)
        self._axes: Sequence[Axis] = axes if walk is None else walk.shuffled(axes, kinds, core)
        self._visit = None if walk is None else walk.visit
        self._token = core.mark()
        self._lasting = owned is not None
        self._budget = program.budget
        self._func = kernel.func
        self._body = program.function(kernel.func.sym_name.data)
        location = source_location(kernel.func)
        self._prefetch: list[Ref] = []
        for operand, argument in zip(prefetch, kernel.prefetch, strict=True):
            buffer = core.allocate(argument.type, operand.name, kernel_line(location))
            self._prefetch.append(buffer)
            copy_whole(operand.ref, buffer, operand.name)
        self._blocks: dict[int, Block] = {}
        self._transforms: dict[int, Callable[..., Run]] = {}
        self._refs: list[Ref | None] = []
        rows = zip(operands, kernel.operands, kernel.windows, strict=True)
        for position, (operand, argument, window) in enumerate(rows):
            if memory_space(argument.type) in IN_PLACE:
                self._refs.append(operand.buffer)
                continue
            self._refs.append(None)
            rule = window.broken_rule(argument.type) if window.windowed else None
            if rule is not None:
                raise VerifyError("window-bounds", rule, location)
            shared = None if window.windowed else self._aliased(operand)
            block = Block(core, operand, window, argument.type, location, shared)
            self._blocks[position] = block
            if window.transform is not None:
                self._transforms[position] = program.function(window.transform)
            elif not operand.output:
                copy_whole(operand.ref, block.ref, operand.name)
        windowed = [block for n, block in self._blocks.items() if n in self._transforms]
        for block in windowed:
            if not block.operand.output:
                memory = block.operand.ref.buffer
                outputs = [b for b in windowed if b.operand.output]
                block.writers = [b for b in outputs if b.operand.ref.buffer is memory]
        self.scratch: list[Ref | None] = [
            core.allocate(argument.type, titled(f"scratch {n}", argument), kernel_line(location))
            if owned is None or owned(argument.type)
            else None
            for n, argument in enumerate(kernel.scratch)
        ]
        """Refs of the kernel's scratch; None for what is another core's until it is put here."""

    def _aliased(self, operand: Operand) -> Block | None:
        """The input that output `operand` shares its array with, if that is held whole as well.

        What the kernel does not write keeps the input's contents, as in HBM; kernels of a core mesh
        rely on it, whose refs are the inputs.
        """
        for block in self._blocks.values():
            if operand.aliased and block.operand.ref is operand.ref and not block.window.windowed:
                return block
        return None

    def steps(self) -> Run:
        """Runs every grid point, one after the other."""
        self.core.bounds = self.grid
        for number, point in enumerate(points(self._axes)):
            self._budget.spend(GRID_POINT_STEPS, self._func)
            if self._visit is not None:
                self._visit(point, self.core.device.index, self.core.index)
            yield from self._move(point, number)
            refs = [self._blocks[n].ref if ref is None else ref for n, ref in enumerate(self._refs)]
            yield from self._body(self.core, *point, *self._prefetch, *refs, *self.scratch)
        for position, block in self._blocks.items():
            if position in self._transforms:
                block.leave(0)
            elif block.operand.output and all(self._axes):
                self.core.machine.engine.land_passed(block.ref.buffer)
                copy_whole(block.ref, block.operand.ref, block.operand.name)
        if not self._lasting:
            self.core.release(self._token)
        return ()

    def _move(self, point: Index, number: int) -> Run:
        """Leaves blocks whose index changes, then enters the new ones."""
        wanted: dict[int, Index] = {}
        for position, transform in self._transforms.items():
            wanted[position] = yield from transform(self.core, *point, *self._prefetch)
        for position, index in wanted.items():
            if self._blocks[position].index not in (None, index):
                self._blocks[position].leave(number)
        for position, index in wanted.items():
            self._blocks[position].enter(index, point, number)
        return ()


def points(axes: Sequence[Axis]) -> Iterator[Index]:
    """The points of a grid, last dimension fastest; grids may be far larger than memory."""
    if not axes:
        yield ()
        return
    for first in axes[0]:
        for rest in points(axes[1:]):
            yield (first, *rest)


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
