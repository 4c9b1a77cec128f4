"""Explicit tilings for buffers that would otherwise get larger tiles than the blocks they hold.

The TPU compiler tiles a block that its own pipeline holds and a buffer that the kernel allocates
differently: on newer generations 16-bit buffers have tiles of 16 rows, blocks tiles of 8
(`reference_tiles.has_large_halves`); on all generations 8-bit buffers have tiles of 32 rows, and
blocks of some arrays tiles of 8 (`reference_tiles.rows_of_tiles`). In form `dma` a block is held by
a buffer that the kernel allocates. A body that accesses 8 rows at an offset known at run time,
which is legal for the block, would then cut a tile of the buffer and be refused. Such a buffer gets
the tiling of its block:

    %w = memref.alloca() : memref<2x32x256xbf16, vmem>
becomes
    %l = memref.alloca() : memref<2x32x256xbf16, #tpu.tiled<(8,128)(2,1),[8,2,1]>, vmem>
    %w = tpu.erase_memref_layout %l : ... -> memref<2x32x256xbf16, vmem>
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import tpu
from pallasite.dialects.tpu import TiledLayoutAttr
from pallasite.dialects.types import bit_width, memory_space, memref_of
from pallasite.layouts.tiling import infer_tiling
from pallasite.passes.accesses import ACCESSES
from pallasite.passes.divisibility import constant_of, remainder
from pallasite.passes.reference_tiles import tile_rows
from pallasite.targets import Target


def keep_tiles(buffers: Iterable[tuple[Operation, int]], target: Target) -> None:
    """Gives each buffer whose own tiles the body would cut the smaller tiles of its block.

    `buffers` are allocations of memrefs of rank 2 or more, each with the number of rows in a tile
    of the block (or scratch) that it holds.
    """
    for buffer, rows in buffers:
        _keep_tiles(buffer, rows, target)


def _keep_tiles(buffer: Operation, rows: int, target: Target) -> None:
    value = buffer.results[0]
    kind = cast("MemRefType[Attribute]", value.type)
    shape, bits = kind.get_shape(), bit_width(kind)
    if bits > 16 or memory_space(kind) not in ("vmem", None):
        return
    large = tile_rows(shape[-2], bits, large_halves="scoped" in target.large_half_tiles)
    if large <= rows or not _cuts(value, large):
        return
    layout = TiledLayoutAttr.of(infer_tiling(shape, bits))
    held = memref_of(kind.element_type, shape, kind.memory_space, layout)
    made = Rewriter.replace_value_with_new_type(value, held)
    erased = tpu.EraseMemrefLayoutOp(operands=[made], result_types=[kind])
    erased.location = buffer.location
    made.replace_uses_with_if(erased.result, lambda use: use.operation is not erased)
    erased.result.name_hint, made.name_hint = made.name_hint, None
    Rewriter.insert_op(erased, InsertPoint.after(buffer))


def _cuts(view: SSAValue, rows: int) -> bool:
    """Whether a use of `view` would cut a tile if its tiles had `rows` rows."""
    return any(_cuts_at(use.operation, rows) for use in view.uses)


def _cuts_at(op: Operation, rows: int) -> bool:
    """Whether `op` takes a part of its ref, or accesses it, at rows that may be inside a tile."""
    if isinstance(op, tpu.MemrefSliceOp):
        size, held = op.result.type.get_shape()[-2], op.mem_ref.type.get_shape()[-2]
        whole = size == held or (size % rows == 0 and remainder(op.base_idx[-2], rows) == 0)
        return not whole or _cuts(op.result, rows)
    if isinstance(op, tpu.MemrefSqueezeOp):
        # A view without the dimension of rows has another tiling altogether.
        old, new = op.input.type.get_shape(), op.result.type.get_shape()
        return old[-2:] != new[-2:] or _cuts(op.result, rows)
    if isinstance(op, tpu.MemrefBitcastOp):
        seen = rows * bit_width(op.input.type) // bit_width(op.result.type)
        return _cuts(op.result, max(seen, 1))
    if isinstance(op, tpu.MemrefReshapeOp):
        held = (kind.get_shape() for kind in (op.input.type, op.result.type))
        cut = any(len(shape) < 2 or shape[-2] % rows for shape in held)
        return cut or _cuts(op.result, rows)
    if not isinstance(op, ACCESSES):
        return False
    index = cast(Any, op).indices[-2]
    return constant_of(index) is None and remainder(index, rows) != 0
