"""`pallas.emit_pipeline`: buffers, DMAs and a loop, by the schedule that windows of kernels follow.

    pallas.emit_pipeline (%x) -> (%o) grid (4) { ^bb0(%xb, %ob): ... }
becomes
    "tpu.region"() ({
      %buffers = memref.alloca() ...
      %semaphores = tpu.sem_alloc ...
      <prologue>; scf.for %step = ... { <fetch, wait, body, store, wait> }; <epilogue>
    })

The order of events is that of `lowering/windows_to_dma/schedule.py` (spec/pallas_semantics.md
section 2.3); `lookahead`, which allows fetching a block still earlier, is not used. If a ref is
already in the memory where its blocks should be, nothing is copied: the body gets a view of it.
Raises `Unsupported` for blocks of booleans, and for such a ref with bounded slices or with blocks
that do not divide it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import MemRefType, i1
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap

from pallasite.dialects import pallas, tpu
from pallasite.dialects.kernel import DYNAMIC, IN_PLACE, Window
from pallasite.dialects.pallas import DimKind
from pallasite.dialects.types import memory_space
from pallasite.lowering.pallas_to_mosaic.driver import Converter, rule
from pallasite.lowering.pallas_to_mosaic.pipeline_maps import PipelineMap, captured, pipeline_map
from pallasite.lowering.pallas_to_mosaic.scope import allocation
from pallasite.lowering.windows_to_dma.copies import copy, dma_semaphores, slice_of, squeeze_to
from pallasite.lowering.windows_to_dma.grid import Grid, Point
from pallasite.lowering.windows_to_dma.maps import evaluate
from pallasite.lowering.windows_to_dma.operands import Operand, Role
from pallasite.lowering.windows_to_dma.scalars import Scalar, ScalarBuilder, known
from pallasite.lowering.windows_to_dma.schedule import Pipeline
from pallasite.lowering.windows_to_dma.transfers import Pipelined


@rule(pallas.EmitPipelineOp)
def lower_pipeline(op: pallas.EmitPipelineOp, c: Converter) -> Sequence[SSAValue]:
    """Writes the pipeline's buffers, transfers and loop in a `tpu.region`, then lowers its body."""
    expansion = _Expansion(op, c)
    region = expansion.write()
    c.insert(region)
    c.block(region.body.block)
    return []


@dataclass(frozen=True)
class _Placed:
    """An operand that is not copied, because it is already in the memory of its blocks."""

    argument: BlockArgument
    array: SSAValue
    window: pallas.WindowAttr
    map: PipelineMap


class _Expansion:
    """Lowers one pipeline to explicit transfers."""

    def __init__(self, op: pallas.EmitPipelineOp, c: Converter) -> None:
        self.op = op
        self.c = c
        self.block = Block()
        self.build = ScalarBuilder(self.block, op.location)
        self.synchronous = op.no_pipelining is not None
        bounds = iter(op.bounds)
        sizes: list[Scalar] = [next(bounds) if n == DYNAMIC else n for n in op.grid_shape]
        self.grid = Grid(tuple(sizes), tuple(op.offsets))
        self.outside = captured(op.maps)
        """Values from outside the pipeline that its index maps use."""
        self.pipelined: list[Pipelined] = []
        self.copied: list[tuple[BlockArgument, SSAValue, SSAValue, bool]] = []
        """Operands copied whole: block argument, array, buffer, whether it is an output."""
        self.placed: list[_Placed] = []

    def write(self) -> tpu.RegionOp:
        """The region, not inserted; the operations of the pipeline's body are moved into it."""
        op, build = self.op, self.build
        operands = [*op.inputs, *op.outputs]
        for n, operand in enumerate(operands):
            self._operand(n, operand, output=n >= len(op.inputs))
        semaphore = dma_semaphores(build, 1, "copied") if self.copied else None
        steps = self.grid.steps(build)

        def everything() -> None:
            for block, array, buffer, output in self.copied:
                if not output and semaphore is not None:
                    copy(build, array, buffer, semaphore)
                shape = cast(MemRefType[Attribute], block.type).get_shape()
                block.replace_all_uses_with(squeeze_to(build, buffer, shape))
            pipeline = Pipeline(
                build, self.grid, self.pipelined, self.outside, self._body,
                every_step=self.synchronous,
            )  # fmt: skip
            pipeline.write(steps)
            for _, array, buffer, output in self.copied:
                if output and semaphore is not None:
                    copy(build, buffer, array, semaphore)

        build.when(1 if known(steps) else build.less(0, steps), everything)
        build.emit(tpu.YieldOp(operands=[[]]))
        return tpu.RegionOp(operands=[], result_types=[[]], regions=[Region(self.block)])

    # Operands.

    def _operand(self, n: int, operand: SSAValue, *, output: bool) -> None:
        """Sorts operand number `n` into `placed`, `copied` or `pipelined`; allocates its buffer."""
        op, window, argument = self.op, self.op.windows.data[n], self.op.blocks[n]
        array = self.c.plain(operand)
        if cast(MemRefType[Attribute], argument.type).element_type == i1:
            raise self.c.unsupported(
                op,
                "bool-transfer",
                "transfers are of types that memory holds, got blocks of booleans",
                "booleans are 32-bit integers in memory; use an int32 array and compare with 0",
            )
        map = pipeline_map(op, window, self.outside)
        space = memory_space(argument.type)
        if space in (memory_space(array.type), *IN_PLACE):
            self._place(_Placed(argument, array, window, map))
            return
        described = self._described(argument, window, array, map, output=output)
        if not self.synchronous and self._is_trivial(window, array):
            buffer = self._buffer(described, 1)
            self.copied.append((argument, array, buffer.results[0], output))
            return
        buffer = self._buffer(described, described.buffers)
        self.pipelined.append(
            Pipelined.of(self.build, described, array, buffer, bounded=map.bounded)
        )

    def _is_trivial(self, window: pallas.WindowAttr, array: SSAValue) -> bool:
        """Whether the block is the whole array at every point (spec/pallas_semantics.md 1.4)."""
        if any(dim.kind is not DimKind.BLOCKED for dim in window.dims):
            return False
        if window.bounds != cast(MemRefType[Attribute], array.type).get_shape():
            return False
        map, grid = window.map, self.op.grid_shape
        if not isinstance(map, AffineMap):
            return False
        used = {d for expr in map.results for d in expr.used_dims()}
        return all(grid[axis] == 1 for axis in used)

    def _described(
        self,
        argument: BlockArgument,
        window: pallas.WindowAttr,
        array: SSAValue,
        map: PipelineMap,
        *,
        output: bool,
    ) -> Operand:
        """The operand as `windows-to-dma` describes it, which writes the schedule."""
        buffers = 1 if self.synchronous else window.buffers
        zeros = (0,) * len(window.dims) if map.in_elements else None
        described = Window(window.bounds, map.function.sym_name.data, zeros, zeros, buffers)
        type = cast(MemRefType[Attribute], array.type)
        return Operand(
            argument, described, Role.PIPELINED, output, type, self.op.location, map.function,
            map.ranges,
        )  # fmt: skip

    def _buffer(self, operand: Operand, buffers: int) -> Operation:
        made = allocation(operand.buffer_type(buffers))
        return self.build.emit(made, operand.hint("window"))

    def _place(self, placed: _Placed) -> None:
        """Adds an operand that is not copied; refuses blocks that would not be views of it."""
        shape = cast(MemRefType[Attribute], placed.array.type).get_shape()
        if placed.map.bounded:
            raise self.c.unsupported(
                self.op,
                "pipeline-bounded",
                "bounded slices are of refs that are copied, got a ref in the blocks' memory",
                "keep the array in HBM",
            )
        for dim, size in zip(placed.window.dims, shape, strict=True):
            if dim.kind is DimKind.BLOCKED and size % dim.size:
                raise self.c.unsupported(
                    self.op,
                    "pipeline-edge",
                    f"blocks of a ref that is not copied must divide it, got {dim.size} of {size}",
                    "keep the array in HBM, or choose a block size that divides it",
                )
        self.placed.append(placed)

    # The body.

    def _body(self, point: Point) -> None:
        """Moves the body's operations here, with blocks and program ids replaced.

        `point` includes the offsets of the pipeline.
        """
        build, op = self.build, self.op
        for placed in self.placed:
            placed.argument.replace_all_uses_with(self._view(placed, point))
        axes = op.user_axes
        body = op.body.block
        for inner in list(_own_operations(body)):
            if isinstance(inner, pallas.ProgramIdOp):
                _replace(inner, build.value(point[axes[inner.axis.value.data]]))
            elif isinstance(inner, pallas.NumProgramsOp):
                _replace(inner, build.value(self.grid.bounds[axes[inner.axis.value.data]]))
        for inner in list(body.ops):
            if inner is not body.last_op:
                inner.detach()
                build.keep(inner)

    def _view(self, placed: _Placed, point: Point) -> SSAValue:
        """The block at `point` as a view of the operand."""
        build = self.build
        arguments = (*point, *self.outside)
        index = evaluate(build, placed.map.function, arguments, self.grid.bounds)
        sizes = placed.window.bounds
        starts = index
        if not placed.map.in_elements:
            starts = [build.mul(i, size) for i, size in zip(index, sizes, strict=True)]
        shape = cast(MemRefType[Attribute], placed.argument.type).get_shape()
        return squeeze_to(build, slice_of(build, placed.array, starts, sizes), shape)


def _own_operations(block: Block) -> Iterator[Operation]:
    """The operations in `block`, also in regions, except those of pipelines nested in it: their
    program ids are others."""
    for op in block.ops:
        yield op
        if not isinstance(op, pallas.EmitPipelineOp):
            for region in op.regions:
                for inner in region.blocks:
                    yield from _own_operations(inner)


def _replace(op: Operation, value: SSAValue) -> None:
    op.results[0].replace_all_uses_with(value)
    op.detach()
    op.erase()
