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

from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import Attribute

from pallasite.diagnostics import SourceLocation, VerifyError
from pallasite.dialects.core_split import CoreSplit
from pallasite.dialects.kernel import IN_PLACE, Kernel
from pallasite.dialects.locations import kernel_line
from pallasite.dialects.types import memory_space
from pallasite.interpreter.blocks import Block, Index, Operand, copy_whole, titled
from pallasite.interpreter.driver import Program, Run
from pallasite.interpreter.limits import GRID_POINT_STEPS
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.grid_walk import Axis
from pallasite.interpreter.machine.views import Ref


class Invocation:
    """One core's execution of a kernel. Allocates at once, runs when `steps` is iterated."""

    def __init__(
        self,
        program: Program,
        kernel: Kernel,
        core: Core,
        grid: tuple[int, ...],
        operands: Sequence[Operand],
        *,
        prefetch: Sequence[Operand] = (),
        split: CoreSplit | None = None,
        point: tuple[int, ...] | None = None,
        owned: Callable[[Attribute], bool] | None = None,
    ):
        """The core runs its part of the grid by `split`, by default all of it, or only `point`.

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
        location = kernel.location
        self._prefetch: list[Ref] = []
        for operand, argument in zip(prefetch, kernel.prefetch, strict=True):
            buffer = core.allocate(argument.type, operand.name, kernel_line(location))
            self._prefetch.append(buffer)
            copy_whole(operand.ref, buffer, operand.name)
        self._blocks: dict[int, Block] = {}
        self._transforms: dict[int, Callable[..., Run]] = {}
        self._refs: list[Ref | None] = []
        """What the body sees of each operand; None of one with blocks."""
        self._hold(kernel, operands, program, location)
        self._know_writers()
        self.scratch: list[Ref | None] = [
            core.allocate(argument.type, titled(f"scratch {n}", argument), kernel_line(location))
            if owned is None or owned(argument.type)
            else None
            for n, argument in enumerate(kernel.scratch)
        ]
        """Refs of the kernel's scratch; None for what is another core's until it is put here."""

    @property
    def held(self) -> list[Ref]:
        """The scalars and the whole arrays that are in memory of the core before the kernel
        begins."""
        whole = [block.ref for n, block in self._blocks.items() if n not in self._transforms]
        return self._prefetch + whole

    def _hold(
        self,
        kernel: Kernel,
        operands: Sequence[Operand],
        program: Program,
        location: SourceLocation | None,
    ) -> None:
        """Allocates blocks of the operands that the body does not see where they are."""
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
            block = Block(self.core, operand, window, argument.type, location, shared)
            self._blocks[position] = block
            if window.transform is not None:
                self._transforms[position] = program.function(window.transform)
            elif not operand.output:
                copy_whole(operand.ref, block.buffer, operand.name)

    def _know_writers(self) -> None:
        """Tells the blocks of inputs which outputs share their memory."""
        windowed = [block for n, block in self._blocks.items() if n in self._transforms]
        outputs = [block for block in windowed if block.operand.output]
        for block in windowed:
            if not block.operand.output:
                memory = block.operand.ref.buffer
                block.writers = [b for b in outputs if b.operand.ref.buffer is memory]

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
                copy_whole(block.buffer, block.operand.ref, block.operand.name)
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
