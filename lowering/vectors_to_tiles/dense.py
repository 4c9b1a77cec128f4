"""Registers that are full of small tiles of memory, side by side.

Where memory has tiles of few rows (4 of f32, 8 of bf16), those of one row of tiles follow each
other, so one access takes as many tiles as a register holds:

    %v = vector.load %x[0, 0] : memref<4x512xf32, tiled<(4,128),[4,1]>>, vector<4x512xf32>
becomes
    %v = tpu.load %x[0, 0] {grid.steps = array<i64: 4, 256>} : ..., vector<1x2x8x128xf32>

With one tile per register it would take 4 registers. Elementwise work is half as much in this
layout (`tile_rows` 4); operations along rows or lanes are mostly done with one tile per register.
`filling.py` chooses.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import VectorType, i1
from xdsl.ir import SSAValue

from pallasite.dialects import arith, grid, tpu
from pallasite.dialects.types import vector_of
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.access import Access
from pallasite.lowering.vectors_to_tiles.converter import Converter


def is_storable(plan: Access, shape: Sequence[int]) -> bool:
    """Whether no word holds rows beside those that a store of `shape` writes, nor a masked one."""
    assert plan.layout.row is not None
    p = plan.layout.packing
    return plan.layout.row % p == 0 and (plan.open_word or (plan.layout.row + shape[-2]) % p == 0)


def sublanes_of(plan: Access, rows: tuple[int, int], columns: tuple[int, int]) -> list[bool]:
    """For each sublane of a register, whether it holds some of the `rows` and `columns`, two ranges
    of its block."""
    p = plan.layout.packing
    unit = plan.layout.tile_rows // p
    first, last = columns[0] // LANES, -(-columns[1] // LANES)
    low, high = rows[0] // p, -(-rows[1] // p)
    return [first <= s // unit < last and low <= s % unit < high for s in range(SUBLANES)]


def columns_mask(
    layout: VectorLayout, columns: tuple[int, int], blocks: Sequence[int], c: Converter
) -> SSAValue:
    """A mask, for all registers of `blocks`, of the words that hold columns in the range
    `columns`."""
    mask = lanes_mask(layout, columns, blocks, c)
    unit = layout.tile_rows // layout.packing
    first, last = columns[0] // LANES * unit, -(-columns[1] // LANES) * unit
    if mask is not None and (first, last) == (0, SUBLANES):
        return mask
    tiles = _box((first, last, 0, LANES), c)
    tiles = c.emit(grid.BroadcastOp(tiles, vector_of(i1, (*blocks, SUBLANES, LANES))))
    return tiles if mask is None else c.emit(arith.AndIOp(mask, tiles))


def lanes_mask(
    layout: VectorLayout, columns: tuple[int, int], blocks: Sequence[int], c: Converter
) -> SSAValue | None:
    """A mask of the lanes of columns in the range `columns`, in tiles that have some of them.

    None if all lanes of these tiles are in the range. Tiles outside of the range may be set or not.
    """
    low, high = columns
    unit = layout.tile_rows // layout.packing
    if low % LANES == 0 and high % LANES == 0:
        return None
    boxes: list[tuple[int, int, int, int]] = []
    whole = range(-(-low // LANES), high // LANES)
    if low // LANES == high // LANES:
        boxes.append((0, SUBLANES, low % LANES, high % LANES))
    else:
        tiles = SUBLANES // unit
        if low % LANES:
            # Tiles before the first and after the last are not stored, so their mask is free.
            last = low // LANES + 1 if whole or high % LANES else tiles
            boxes.append((0, last * unit, low % LANES, LANES))
        if high % LANES:
            boxes.append((high // LANES * unit, SUBLANES, 0, high % LANES))
        if whole:
            first = whole.start if low % LANES else 0
            last = whole.stop if high % LANES else tiles
            boxes.append((first * unit, last * unit, 0, LANES))
    made = [_box(box, c) for box in boxes]
    mask = made[0]
    for other in made[1:]:
        mask = c.emit(arith.OrIOp(mask, other))
    return c.emit(grid.BroadcastOp(mask, vector_of(i1, (*blocks, SUBLANES, LANES))))


def _box(box: tuple[int, int, int, int], c: Converter) -> SSAValue:
    """The mask of a register that is set in the sublanes and lanes of `box`."""
    first, last, low, high = box
    bounds = [c.constant_index(n) for n in (first, low, last, high)]
    made = tpu.CreateMaskOp.create(
        operands=bounds, result_types=[VectorType(i1, (SUBLANES, LANES))]
    )
    return c.emit(made)
