"""What `absorb-moves` asks of values and of the memory behind a ref: buffers, tiles, alignment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    MemRefType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pallasite.dialects import arith, tpu, vector
from pallasite.dialects import memref as memref_dialect
from pallasite.dialects.types import bit_width, element_type, memory_space, shape_of, tiling_of
from pallasite.dialects.viewed import PARTS, viewed
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.layouts.tiling import infer_tiling
from pallasite.lowering.boxes import accessed
from pallasite.lowering.vectors_to_tiles.elementwise import elementwise_kinds
from pallasite.passes.accesses import accessed_shape
from pallasite.passes.divisibility import constant_of, remainder
from pallasite.passes.insertion import insert_before

Shape = tuple[int, ...]

_MOST_SLICES = 32
"""Slices of one value that are looked at: each of them is compared with all others."""

ELEMENTWISE = tuple(elementwise_kinds())

VIEWS = (
    tpu.MemrefSliceOp, tpu.MemrefSqueezeOp, tpu.MemrefReshapeOp, tpu.MemrefBitcastOp,
    tpu.ReinterpretCastOp, tpu.EraseMemrefLayoutOp, tpu.AssumeLayoutOp,
    memref_dialect.CastOp, memref_dialect.MemorySpaceCastOp,
)  # fmt: skip
"""Operations whose result is another view of the same buffer."""


def rows_are_ours(memref: SSAValue) -> bool:
    """Whether `infer-memref-layout` may tile the buffer behind `memref` by single rows."""
    memref = viewed(memref, *PARTS, tpu.MemrefReshapeOp)
    if not isinstance(memref.owner, memref_dialect.AllocaOp):
        return False
    return memory_space(memref.type) in ("vmem", None) and tiling_of(memref.type) is None


def is_whole_buffer(memref: SSAValue) -> bool:
    """Whether `memref` is an allocation, or one slot of it, so that its rows follow each other.

    A slot is complete in every dimension from the first one on whose extent in it is not 1.
    """
    owner = memref.owner
    if isinstance(owner, tpu.MemrefSqueezeOp):
        return is_whole_buffer(owner.operands[0])
    if isinstance(owner, tpu.MemrefSliceOp):
        whole = cast(MemRefType[Attribute], owner.operands[0].type).get_shape()
        part = cast(MemRefType[Attribute], memref.type).get_shape()
        first = next((d for d, n in enumerate(part) if n != 1), 0)
        return tuple(whole[first:]) == tuple(part[first:]) and is_whole_buffer(owner.operands[0])
    return isinstance(owner, memref_dialect.AllocaOp)


def buffer_of(memref: SSAValue) -> SSAValue | None:
    """The allocation that `memref` is a view of, or is itself; None if that is not known.

    Different allocations never overlap.
    """
    memref = viewed(memref, *VIEWS)
    return memref if isinstance(memref.owner, memref_dialect.AllocaOp) else None


def is_known(memref: SSAValue) -> bool:
    """Whether `memref` is a view of an allocation or of an argument of its function."""
    return isinstance(viewed(memref, *VIEWS).owner, memref_dialect.AllocaOp | Block)


def registers(shape: Shape, bits: int, tile: int | None = None) -> int:
    """How many registers a vector of `shape` takes, in tiles of `tile` rows (None: native tiles).

    A register of smaller tiles has several of them side by side: with 2 rows of f32, it covers
    2x512 elements.
    """
    native = SUBLANES * packing(bits)
    rows = tile or native
    columns = native // rows * LANES
    return math.prod(shape[:-2]) * -(-shape[-2] // rows) * -(-shape[-1] // columns)


def only_sliced(value: SSAValue) -> bool:
    """Whether only slices use `value`, and these together take no more registers than it does."""
    bits = bit_width(element_type(value.type))
    left = registers(shape_of(value.type), bits)
    tiles = small_tile(value)
    for use in value.uses:
        if not isinstance(use.operation, vector.ExtractStridedSliceOp):
            return False
        box = box_of(use.operation)
        if box is None:
            return False
        shape = (*box.sizes[:-1], box.offsets[-1] % LANES + box.sizes[-1])
        left -= registers(shape, bits, tiles)
        if tiles is not None and box.offsets[-2] % (SUBLANES * packing(bits)):
            # Rows that do not begin a native tile would have to move.
            left += registers(shape, bits)
        if left < 0:  # every slice is asked, and there may be many
            return False
    return True


def small_tile(value: SSAValue) -> int | None:
    """The rows of small tiles of which each slice of the load `value` takes a first part, or None.

    `infer-memref-layout` can tile the buffer so. None also if some slice does not fit, or if native
    tiles serve all of them.
    """
    owner, shape = value.owner, shape_of(value.type)
    if not isinstance(owner, vector.LoadOp) or shape[-1] <= LANES or not rows_are_ours(owner.base):
        return None
    p = packing(bit_width(element_type(value.type)))
    start = remainder(owner.indices[-2], SUBLANES * p)
    slices = [use.operation for use in islice(value.uses, _MOST_SLICES + 1)]
    if start is None or len(slices) > _MOST_SLICES:
        return None
    boxes = [box_of(op) for op in slices if isinstance(op, vector.ExtractStridedSliceOp)]
    if not any(b and b.offsets[-2] % (SUBLANES * p) for b in boxes):
        return None
    rows = 2 * p
    while rows < SUBLANES * p:
        if all(b and not (start + b.offsets[-2]) % rows and b.sizes[-2] <= rows for b in boxes):
            return rows
        rows *= 2
    return None


def takes_rows_of_tiles(load: vector.LoadOp, box: Box) -> bool:
    """Whether `box` of a load of packed elements is made of whole rows of the tiles that HBM has.

    `fill-registers` may then tile the buffer like HBM.
    """
    held, bits = (
        cast(MemRefType[Attribute], load.base.type).get_shape(),
        bit_width(load.result.type),
    )
    row, column = (constant_of(index) for index in load.indices[-2:])
    if bits == 32 or row is None or column != 0 or not rows_are_ours(load.base):
        return False
    tile = infer_tiling(held, bits).first[0]
    return (
        box.sizes[-1] == held[-1]
        and math.prod(box.sizes[:-2]) == 1
        and (row + box.offsets[-2]) % tile == 0
        and box.sizes[-2] % tile == 0
    )


def index_plus(index: SSAValue, amount: int, anchor: Operation) -> SSAValue:
    """`index + amount` as a value, inserted before `anchor`."""
    if not amount:
        return index
    known = constant_of(index)
    step = arith.ConstantOp(IntegerAttr((known or 0) + amount, IndexType()))
    added = insert_before(step, anchor)
    return added if known is not None else insert_before(arith.AddiOp(index, added), anchor)


def part_of(
    access: vector.LoadOp | tpu.VectorStoreOp, indices: Sequence[SSAValue]
) -> dict[str, Attribute]:
    """The attributes of an access at `indices` that is a part of `access` (`dialects.registers`):
    the box that the kernel accesses, seen from there."""
    sizes = accessed_shape(access)
    whole = accessed(access, list(access.indices), sizes, shape_of(access.base.type))
    return {} if whole is None else whole.seen_from(indices)


@dataclass(frozen=True)
class Box:
    """A slice of a vector with unit strides: its first position and its extent in each
    dimension."""

    offsets: Shape
    sizes: Shape

    def is_aligned(self, bits: int) -> bool:
        """Whether the slice begins at the corner of a native register of elements of `bits`."""
        return not self.offsets[-2] % (SUBLANES * packing(bits)) and not self.offsets[-1] % LANES


def box_of(op: vector.ExtractStridedSliceOp) -> Box | None:
    """The box that `op` slices; None if it omits dimensions, has strides, or is of rank below 2."""
    offsets = tuple(int(a.value.data) for a in op.offsets)
    sizes = shape_of(op.result.type)
    if len(offsets) != len(sizes) or len(sizes) < 2:
        return None
    return Box(offsets, sizes) if all(int(a.value.data) == 1 for a in op.strides) else None


def memory_serves(
    memref: SSAValue, row: SSAValue, offset: int, bits: int, tile: int | None = None
) -> bool:
    """Whether registers of `memref` may begin `offset` rows after index `row`.

    That is so at the first row of a native tile. In a buffer whose tiles `infer-memref-layout`
    chooses it is so anywhere for 32-bit elements, at multiples of `tile` rows if that is given, and
    at whole words of packed rows if the array is one tile wide.
    """
    native = SUBLANES * packing(bits)
    rest = remainder(row, native)
    if rest is not None and (rest + offset) % native == 0:
        return True
    if not rows_are_ours(memref):
        return False
    if bits == 32 or (tile is not None and rest is not None and (rest + offset) % tile == 0):
        return True
    # Packed rows follow each other, word by word, where the array is one column of tiles.
    columns = cast(MemRefType[Attribute], memref.type).get_shape()[-1]
    return rest is not None and (rest + offset) % packing(bits) == 0 and columns <= LANES
