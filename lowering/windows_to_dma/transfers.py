"""Block transfers: which box of an array a window covers, and the DMAs that move it.

Address and size of a transfer follow spec/pallas_semantics.md section 2.4. A block that overruns
its array is cut to whole tiles of the array, whose memory is padded to whole tiles; the rest of
the buffer keeps what it held before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerAttr,
    LocationAttr,
    MemRefType,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from pallasite.dialects import scf
from pallasite.dialects.kernel import SLOTS
from pallasite.dialects.locations import block_location
from pallasite.dialects.tpu import (
    AssumeMultipleOp,
    EnqueueDmaOp,
    MemrefSliceOp,
    MemrefSqueezeOp,
    WaitDma2Op,
)
from pallasite.dialects.types import bit_width, memory_space, memref_of
from pallasite.layouts.registers import LANES, packing
from pallasite.layouts.tiling import infer_tiling
from pallasite.lowering.creation import made, operand_segments
from pallasite.lowering.windows_to_dma.scalars import Scalar, ScalarBuilder, known
from pallasite.passes.ranges import Range
from pallasite.passes.reference_tiles import tile_rows

Index = tuple[Scalar, ...]
"""The results of an index map: one i32 per dimension of the block."""


@dataclass(frozen=True)
class Box:
    """The part of a block that exists: its start in the array and in the block, and its size."""

    start: tuple[Scalar, ...]
    inner: tuple[Scalar, ...]
    sizes: tuple[Scalar, ...]

    def rows(self, build: ScalarBuilder, first: Scalar, count: int) -> Box:
        """`count` of the rows, from row `first` of the box."""
        start, inner = (
            (*starts[:-2], build.add(starts[-2], first), starts[-1])
            for starts in (self.start, self.inner)
        )
        return Box(start, inner, (*self.sizes[:-2], count, self.sizes[-1]))


@dataclass(frozen=True)
class Pipelined:
    """A windowed operand: its array, its window buffer of `buffers` blocks, its semaphores."""

    argument: BlockArgument
    """What the kernel's body sees."""
    array: SSAValue
    block: tuple[int, ...]
    low: tuple[int, ...] | None
    """Padding before the array, for an element window."""
    index_map: FuncOp
    ranges: tuple[Range, ...]
    """The values that each result of the index map may take."""
    fetched: bool
    """Blocks are copied in: inputs, and outputs whose blocks may be visited again."""
    stored: bool
    """Blocks are copied out: outputs."""
    buffers: int
    stride: int
    """Elements from one block of rank 1 to the next in its buffer."""
    buffer: SSAValue
    semaphores: SSAValue
    location: LocationAttr
    bounded: tuple[bool, ...] = ()
    """The dimensions for which the index map gives two values, start and size, if there are any."""
    in_parts: bool = False
    """Blocks that cut the tiles that the TPU compiler gives their array are copied in parts."""

    @property
    def overruns(self) -> bool:
        """Whether some of a block may lie outside the array, or outside what is copied."""
        return any(self.bounded) or any(
            extent.overruns if self.low is None else extent.overruns_padded(self.low[d])
            for d, extent in enumerate(self._extents)
        )

    @cached_property
    def _extents(self) -> list[_Extent]:
        shape = memref_type(self.array).get_shape()
        tiles = _transfer_tiles(memref_type(self.array))
        columns = zip(shape, self.block, tiles, self.ranges, strict=True)
        return [_Extent(*column) for column in columns]

    def box(self, build: ScalarBuilder, index: Index) -> Box:
        """The box of the array that the block at `index` covers."""
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
        """`index` such that the TPU compiler sees that numbered blocks lie in the array."""
        if self.low is not None or any(self.bounded):
            return index
        return tuple(
            build.below(number, extent.blocks) if extent.surely_exists else number
            for number, extent in zip(index, self._extents, strict=True)
        )

    def in_array(self, build: ScalarBuilder, box: Box) -> SSAValue:
        """The view of the array that `box` describes."""
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
        """What the body sees of slot `slot`."""
        shape = memref_type(self.argument).get_shape()
        return squeeze_to(build, self.in_buffer(build, slot), shape)

    def semaphore(self, build: ScalarBuilder, slot: Scalar) -> SSAValue:
        """The semaphore of slot `slot`."""
        if self.buffers == 1:
            return self.semaphores
        return squeeze_to(build, slice_of(build, self.semaphores, (slot,), (1,)), ())

    # Transfers of one block.

    def fetch(self, build: ScalarBuilder, index: Index, slot: Scalar) -> None:
        semaphore = self.semaphore(build, slot)
        started: list[Operation] = []
        self._copied(
            build, index, slot,
            lambda array, buffer: started.append(start_copy(build, array, buffer, semaphore)),
        )  # fmt: skip
        if self.overruns:
            # Whatever follows belongs to the same block.
            started[0].attributes[SLOTS] = IntegerAttr(self.buffers, i64)

    def wait_fetch(self, build: ScalarBuilder, index: Index, slot: Scalar) -> None:
        semaphore = self.semaphore(build, slot)
        self._copied(
            build, index, slot, lambda array, buffer: wait_copy(build, array, buffer, semaphore)
        )

    def store(self, build: ScalarBuilder, index: Index, slot: Scalar) -> None:
        semaphore = self.semaphore(build, slot)
        self._copied(
            build, index, slot, lambda array, buffer: start_copy(build, buffer, array, semaphore)
        )
        if self.buffers == 1:
            self.wait_store(build, index, slot)

    def wait_store(self, build: ScalarBuilder, index: Index, slot: Scalar) -> None:
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
        """Writes something for the block at `index` in its array and in its buffer, or for each
        part of it, the first one in place."""

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
        """The rows of a part: as many as lie in one tile wherever they start. None if blocks are
        copied at once, as they are where the array has a single column of tiles."""
        array = memref_type(self.array)
        shape, bits = array.get_shape(), bit_width(array)
        if not self.in_parts or self.low is not None or len(shape) < 2 or shape[-1] <= LANES:
            return None
        rows = self.block[-2]
        part = rows & -rows
        cut = part < rows < shape[-2] and part < tile_rows(shape[-2], bits)
        return part if cut and memory_space(memref_type(self.argument)) != "smem" else None


@dataclass(frozen=True)
class _Extent:
    """One dimension of a window: array size, block size, tile, and what the index may be."""

    size: int
    block: int
    tile: int
    indices: Range

    @property
    def blocks(self) -> int:
        """How many blocks it takes to cover the array."""
        return -(-self.size // self.block)

    @property
    def surely_exists(self) -> bool:
        """Whether the number of a block is in `0 .. blocks - 1` at every step."""
        low, high = self.indices.low, self.indices.high
        return low is not None and low >= 0 and high is not None and high < self.blocks

    @property
    def overruns(self) -> bool:
        """Whether a numbered block may lie partly outside the array."""
        whole, rest = divmod(self.size, self.block)
        return rest != 0 and (self.indices.high is None or self.indices.high >= whole)

    def overruns_padded(self, low: int) -> bool:
        """The same for a block that starts at any element of the array padded by `low`."""
        return self._before(low) or self._behind(low)

    def _before(self, low: int) -> bool:
        return low > 0 and (self.indices.low is None or self.indices.low < low)

    def _behind(self, low: int) -> bool:
        last = self.indices.high
        return last is None or last - low + self.block > self.size

    def blocked(self, build: ScalarBuilder, index: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """Start in the array, start in the block and size of block number `index`."""
        start = build.mul(index, self.block)
        if known(start) is None and self.block % self.tile and self.block >= self.size:
            # The block spans the dimension, so its number is 0 wherever it is legal.
            start = self._assume_aligned(build, start)
        if not self.overruns:
            return start, 0, self.block
        whole, rest = divmod(self.size, self.block)
        cut = min(self.block, self._round_up(rest))
        if whole == 0:
            return start, 0, cut
        return start, 0, build.select(build.equal(index, whole), cut, self.block)

    def element(
        self, build: ScalarBuilder, index: Scalar, low: int
    ) -> tuple[Scalar, Scalar, Scalar]:
        """The same for a window that starts at element `index` of the array padded by `low`."""
        start = build.sub(index, low) if low else index
        inner: Scalar = 0
        if self._before(low):
            inner = build.largest(build.sub(0, start), 0)
            start = build.largest(start, 0)
        if not self._behind(low):
            return start, inner, build.sub(self.block, inner)
        # The tail is rounded up to whole tiles; starts are aligned, so rounding the size is enough.
        left = build.sub(self._round_up(self.size), start)
        return start, inner, build.smallest(build.sub(self.block, inner), left)

    def sized(
        self, build: ScalarBuilder, start: Scalar, size: Scalar
    ) -> tuple[Scalar, Scalar, Scalar]:
        """The same for a slice of `size` elements from `start`, both whole tiles.

        One that overruns the array ends with the array's last tile.
        """
        size = build.smallest(size, build.sub(self._round_up(self.size), start))
        if self.tile > 1:
            start, size = (
                value if known(value) is not None else self._assume_aligned(build, value)
                for value in (start, size)
            )
        return start, 0, size

    def _assume_aligned(self, build: ScalarBuilder, start: Scalar) -> Scalar:
        multiple = IntegerAttr(self.tile, i32)
        op = AssumeMultipleOp(
            operands=[build.value(start)],
            result_types=[i32],
            properties={"multiple": multiple},
        )
        return build.emit(op).results[0]

    def _round_up(self, size: int) -> int:
        return -(-size // self.tile) * self.tile


def _transfer_tiles(array: MemRefType[Attribute]) -> tuple[int, ...]:
    """The granule of a transfer in each dimension of `array`."""
    shape, bits = array.get_shape(), bit_width(array)
    if len(shape) == 1:
        return (LANES * packing(bits),)
    tiling = infer_tiling(shape, bits)
    return tuple(tiling.tile_of(d) for d in range(len(shape)))


# Views and copies.


def memref_type(value: SSAValue) -> MemRefType[Attribute]:
    """The type of a ref."""
    return cast("MemRefType[Attribute]", value.type)


def slice_of(
    build: ScalarBuilder, base: SSAValue, start: Sequence[Scalar], sizes: Sequence[Scalar]
) -> SSAValue:
    """`tpu.memref_slice` of `base`, or `base` itself if that is all of it."""
    type = memref_type(base)
    if all(known(s) == 0 for s in start) and tuple(sizes) == type.get_shape():
        return base
    static = [known(size) for size in sizes]
    shape = tuple(DYNAMIC_INDEX if size is None else size for size in static)
    dynamic = [build.value(z) for z, size in zip(sizes, static, strict=True) if size is None]
    result = memref_of(type.element_type, shape, type.memory_space)
    operands = (base, *(build.value(s) for s in start), *dynamic)
    return build.made(
        MemrefSliceOp, operands, result, operand_segments(1, len(start), len(dynamic))
    )


def squeeze_to(build: ScalarBuilder, view: SSAValue, shape: Sequence[int]) -> SSAValue:
    """`view` without dimensions of size 1, so that its shape is `shape`."""
    type = memref_type(view)
    if type.get_shape() == tuple(shape):
        return view
    result = memref_of(type.element_type, tuple(shape), type.memory_space)
    return build.made(MemrefSqueezeOp, (view,), result)


def start_copy(
    build: ScalarBuilder, source: SSAValue, target: SSAValue, semaphore: SSAValue
) -> Operation:
    """Starts the copy of `source` to `target`, which `semaphore` counts."""
    properties = operand_segments(1, 0, 1, 1, 0, 0, 0)
    return build.emit(made(EnqueueDmaOp, (source, target, semaphore), (), properties))


def wait_copy(
    build: ScalarBuilder, source: SSAValue, target: SSAValue, semaphore: SSAValue
) -> None:
    """Waits for such a copy."""
    properties = operand_segments(1, 1, 1, 0, 0)
    build.emit(made(WaitDma2Op, (semaphore, source, target), (), properties))


def copy(build: ScalarBuilder, source: SSAValue, target: SSAValue, semaphore: SSAValue) -> None:
    """Copies and waits."""
    start_copy(build, source, target, semaphore)
    wait_copy(build, source, target, semaphore)
