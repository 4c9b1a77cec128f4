"""Narrow values of few rows: neighbours along the last leading dimension share a register.

Eight rows of bf16 fill half a register. Where the halves follow each other in memory, two of them
are packed into one register and stored at once:

    tpu.store %b[%i, %z, %z], %h0  half a register       %h = tpu.pack_subelements %w0, %w1
    tpu.store %b[%i1, %z, %z], %h1             ->        tpu.store %tiles[%j, %z, %z], %h
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import grid, tpu
from pallasite.dialects.tpu import TiledLayoutAttr
from pallasite.dialects.types import bit_width, memref_of, shape_of, tiling_of
from pallasite.layouts.registers import LANES, SUBLANES, packing, register_shape
from pallasite.layouts.tiling import Tiling
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.access import Access
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.tiled import Tiled
from pallasite.passes.divisibility import constant_of


def stack(held: Tiled, element: Attribute, c: Converter) -> SSAValue | None:
    """The elements of `held`, words in one register of rows each, narrowed to `element`.

    As many neighbours share a register as fit. None if their number is no multiple of that, or if
    the layout is another one.
    """
    layout, bits = held.layout, bit_width(element)
    count = layout.bits // bits
    rank = len(held.shape)
    if rank < 3 or layout.column or layout != VectorLayout.native(rank, 32, 0, layout.column):
        return None
    if held.shape[-2] > SUBLANES or held.shape[-3] % count:
        return None
    *lead, neighbours, rows, columns = layout.grid_shape(held.shape)
    every = [neighbours // count, rows, columns]
    parts = [
        c.emit(
            grid.SliceOp(
                held.grid,
                [*[0] * len(lead), part, 0, 0],
                [*lead, *every],
                [*[1] * len(lead), count, 1, 1],
            )
        )
        for part in range(count)
    ]
    made = tpu.PackSubelementsOp.in_order(
        parts,
        VectorType(element, (*lead, *every, *register_shape(bits))),
        tpu.PackFormat.COMPRESSED,
    )
    return c.emit(made)


def stacked_view(
    value: SSAValue, plan: Access, indices: Sequence[SSAValue], c: Converter
) -> tuple[SSAValue, list[SSAValue], tuple[int, ...]] | None:
    """The memory of `plan`, seen with as many neighbours in a tile as fill a register.

    Also the indices there, and the shape of `value` there. None if the tiles of neighbours do not
    follow each other.
    """
    kind = cast(MemRefType[Attribute], plan.memref.type)
    extent, shape, tiling = kind.get_shape(), shape_of(value.type), tiling_of(kind)
    p = packing(plan.layout.bits)
    if p == 1 or len(shape) < 3 or tiling is None or tiling.first != (SUBLANES, LANES):
        return None
    if extent[-2:] != shape[-2:] or shape[-2] > SUBLANES or shape[-1] != LANES:
        return None
    place, strides = constant_of(indices[-3]), tiling.strides
    if place is None or place % p or shape[-3] % p or strides[-3] != 1:
        return None
    if any(constant_of(index) != 0 for index in indices[-2:]) or any(s % p for s in strides[:-3]):
        return None
    tiles = Tiling(
        ((SUBLANES * p, LANES), *tiling.tiles[1:]), (*(s // p for s in strides[:-3]), 1, 1, 1)
    )
    view = memref_of(
        kind.element_type, (*extent[:-3], extent[-3] // p, SUBLANES * p, LANES),
        kind.memory_space, TiledLayoutAttr.of(tiles),
    )  # fmt: skip
    memref = c.emit(tpu.ReinterpretCastOp(operands=[plan.memref, [], []], result_types=[view]))
    moved = [*indices[:-3], c.constant_index(place // p), *indices[-2:]]
    return memref, moved, (*shape[:-3], shape[-3] // p, SUBLANES * p, LANES)
