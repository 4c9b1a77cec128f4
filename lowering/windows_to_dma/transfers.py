"""Block transfers: the DMAs that move a block of a window between its array and its buffer.

A block that overruns its array is cut (`extents.py`); the rest of its slot is not written. On the
TPU it keeps an older block's elements; the attributes `tpu.unspecified` and `tpu.slots` say that
nobody may rely on them (docs/internals/lowering.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, LocationAttr, UnitAttr, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from pallasite.dialects import scf
from pallasite.dialects.kernel import SLOTS, UNSPECIFIED
from pallasite.dialects.locations import block_location
from pallasite.dialects.types import bit_width, memory_space
from pallasite.layouts.registers import LANES
from pallasite.lowering.creation import made
from pallasite.lowering.windows_to_dma.copies import (
    dma_semaphores,
    memref_type,
    slice_of,
    squeeze_to,
    start_copy,
    wait_copy,
)
from pallasite.lowering.windows_to_dma.extents import Box, Extent, transfer_tiles
from pallasite.lowering.windows_to_dma.grid import Index
from pallasite.lowering.windows_to_dma.operands import Operand
from pallasite.lowering.windows_to_dma.scalars import Scalar, ScalarBuilder
from pallasite.passes.ranges import Range
from pallasite.passes.reference_tiles import tile_rows


@dataclass(frozen=True)
class Pipelined:
    """An operand whose blocks are pipelined: its array, its window buffer, its semaphores.

    The buffer consists of `buffers` slots of one block each, and each slot has a DMA semaphore.
    """

    argument: BlockArgument
    """The ref that the kernel's body sees, which the view of a slot replaces."""
    array: SSAValue
    block: tuple[int, ...]
    """The shape of a block, with squeezed dimensions."""
    low: tuple[int, ...] | None
    """Elements of padding before the array, for an element window; None for a blocked one."""
    index_map: FuncOp
    ranges: tuple[Range, ...]
    """The values that each result of the index map may take."""
    fetched: bool
    """Whether blocks are copied in: inputs, and outputs whose blocks may be visited again."""
    stored: bool
    """Whether blocks are copied out: outputs."""
    buffers: int
    stride: int
    """For blocks of rank 1: elements from one slot to the next in the buffer; else 0."""
    buffer: SSAValue
    semaphores: SSAValue
    location: LocationAttr
    bounded: tuple[bool, ...] = ()
    """For each dimension, whether it is a bounded slice: the index map gives its start and its
    size. () if none is."""
    in_parts: bool = False
    """Whether blocks that cut tiles of their array are copied in parts that do not. The TPU
    compiler refuses a transfer that cuts the tiles that it gives the array."""

    @staticmethod
    def of(
        build: ScalarBuilder,
        operand: Operand,
        array: SSAValue,
        buffer: Operation,
        *,
        bounded: tuple[bool, ...] = (),
        in_parts: bool = False,
    ) -> Pipelined:
        """The pipelined `operand` over `array`; allocates its semaphores.

        `buffer` is the operation that allocates its window buffer. It gets `tpu.unspecified` if
        blocks that are fetched may overrun the array.
        """
        window = Pipelined(
            argument=operand.argument,
            array=array,
            block=operand.block,
            low=operand.window.low,
            index_map=operand.index_map,
            ranges=operand.ranges,
            fetched=not operand.output or operand.window.revisits,
            stored=operand.output,
            buffers=operand.buffers,
            stride=operand.stride if len(operand.block) == 1 else 0,
            buffer=buffer.results[0],
            semaphores=dma_semaphores(build, operand.buffers, operand.hint("sems")),
            location=operand.location,
            bounded=bounded,
            in_parts=in_parts,
        )
        if window.fetched and window.overruns:
            buffer.attributes[UNSPECIFIED] = UnitAttr()
        return window

    @property
    def overruns(self) -> bool:
        """Whether a copy may leave part of a slot unwritten: at an edge, or of a bounded slice."""
        return any(self.bounded) or any(
            extent.overruns if self.low is None else extent.overruns_padded(self.low[d])
            for d, extent in enumerate(self._extents)
        )

    @cached_property
    def _extents(self) -> list[Extent]:
        shape = memref_type(self.array).get_shape()
        tiles = transfer_tiles(memref_type(self.array))
        columns = zip(shape, self.block, tiles, self.ranges, strict=True)
        return [Extent(*column) for column in columns]

    def box(self, build: ScalarBuilder, index: Index) -> Box:
        """The box of the array that the block at `index`, results of the index map, covers."""
        parts: list[tuple[Scalar, Scalar, Scalar]] = []
        values = iter(index)
        for d, extent in enumerate(self._extents):
            position = next(values)
            if self.bounded and self.bounded[d]:
                parts.append(extent.sized(build, position, next(values)))
            elif self.low is None:
                parts.append(extent.blocked(build, position))
            else:
                parts.append(extent.element(build, position, self.low[d]))
        return Box(*(cast("tuple[Scalar, ...]", column) for column in zip(*parts, strict=True)))

    def within(self, build: ScalarBuilder, index: Index) -> Index:
        """`index`, written so that the TPU compiler can prove that the block lies in the array.

        Only for blocked windows, and where the range of the index map shows it.
        """
        if self.low is not None or any(self.bounded):
            return index
        return tuple(
            build.below(number, extent.blocks) if extent.surely_exists else number
            for number, extent in zip(index, self._extents, strict=True)
        )

    def in_array(self, build: ScalarBuilder, box: Box) -> SSAValue:
        """The view of `box` in the array."""
        with build.at(block_location(self.location)):
            return slice_of(build, self.array, box.start, box.sizes)

    def in_buffer(self, build: ScalarBuilder, slot: Scalar, box: Box | None = None) -> SSAValue:
        """The view of the box (of the whole block, if None) in slot `slot` of the buffer."""
        box = box or Box((0,) * len(self.block), (0,) * len(self.block), self.block)
        if self.buffers == 1:
            return slice_of(build, self.buffer, box.inner, box.sizes)
        if len(self.block) == 1:
            # Blocks of rank 1 lie behind each other in one flat buffer.
            start = build.add(build.mul(slot, self.stride), box.inner[0])
            return slice_of(build, self.buffer, (start,), box.sizes)
        view = slice_of(build, self.buffer, (slot, *box.inner), (1, *box.sizes))
        return squeeze_to(build, view, memref_type(view).get_shape()[1:])

    def body_view(self, build: ScalarBuilder, slot: Scalar) -> SSAValue:
        """Slot `slot` as the body sees it: without squeezed dimensions."""
        shape = memref_type(self.argument).get_shape()
        return squeeze_to(build, self.in_buffer(build, slot), shape)

    def semaphore(self, build: ScalarBuilder, slot: Scalar) -> SSAValue:
        """The semaphore of slot `slot`."""
        if self.buffers == 1:
            return self.semaphores
        return squeeze_to(build, slice_of(build, self.semaphores, (slot,), (1,)), ())

    # Transfers of one block.

    def fetch(self, build: ScalarBuilder, index: Index, slot: Scalar) -> None:
        """Starts the copy of the block at `index` into slot `slot` of the buffer."""
        semaphore = self.semaphore(build, slot)
        started: list[Operation] = []
        self._copied(
            build, index, slot,
            lambda array, buffer: started.append(start_copy(build, array, buffer, semaphore)),
        )  # fmt: skip
        if self.overruns:
            # Of a copy in parts, only the first says it: the others go to the same slot.
            started[0].attributes[SLOTS] = IntegerAttr(self.buffers, i64)

    def wait_fetch(self, build: ScalarBuilder, index: Index, slot: Scalar) -> None:
        """Waits for the copy that `fetch` with the same arguments has started."""
        semaphore = self.semaphore(build, slot)
        self._copied(
            build, index, slot, lambda array, buffer: wait_copy(build, array, buffer, semaphore)
        )

    def store(self, build: ScalarBuilder, index: Index, slot: Scalar) -> None:
        """Starts the copy of slot `slot` to the block at `index`; waits if there is only one."""
        semaphore = self.semaphore(build, slot)
        self._copied(
            build, index, slot, lambda array, buffer: start_copy(build, buffer, array, semaphore)
        )
        if self.buffers == 1:
            self.wait_store(build, index, slot)

    def wait_store(self, build: ScalarBuilder, index: Index, slot: Scalar) -> None:
        """Waits for the copy that `store` with the same arguments has started."""
        semaphore = self.semaphore(build, slot)
        self._copied(
            build, index, slot, lambda array, buffer: wait_copy(build, buffer, array, semaphore)
        )

    def _copied(
        self,
        build: ScalarBuilder,
        index: Index,
        slot: Scalar,
        write: Callable[[SSAValue, SSAValue], object],
    ) -> None:
        """Calls `write` with views of the block at `index` in its array and in slot `slot`.

        A block that is copied in parts (`_part_rows`) gives a pair of views for each part: the
        first part in place, the others in an `scf.for`.
        """

        def write_for(box: Box) -> None:
            write(self.in_array(build, box), self.in_buffer(build, slot, box))

        box, rows = self.box(build, index), self._part_rows
        if rows is None:
            write_for(box)
            return
        write_for(box.rows(build, 0, rows))
        count = build.value(build.divide(box.sizes[-2], rows))
        each = Block(arg_types=[i32])
        with build.within(each):
            write_for(box.rows(build, build.mul(each.args[0], rows), rows))
            build.emit(made(scf.YieldOp, (), ()))
        one = build.value(1)
        build.emit(scf.ForOp(one, count, one, (), each))

    @cached_property
    def _part_rows(self) -> int | None:
        """The rows of one part if blocks are copied in parts, else None.

        It is the largest power of two that divides the rows of a block, so that no part cuts a
        tile. A block is copied at once if it cuts no tile itself, if its array has at most 128
        columns (one column of tiles, whose rows are contiguous), and in SMEM.
        """
        array = memref_type(self.array)
        shape, bits = array.get_shape(), bit_width(array)
        if not self.in_parts or self.low is not None or len(shape) < 2 or shape[-1] <= LANES:
            return None
        rows = self.block[-2]
        part = rows & -rows
        cut = part < rows < shape[-2] and part < tile_rows(shape[-2], bits)
        return part if cut and memory_space(memref_type(self.argument)) != "smem" else None
