"""Stores of logical vectors: one register store per class of equally valid registers.

The interior, the ragged last row of blocks, the ragged last column and the corner are at most four
grid stores, whatever the size. Sublanes are masked by the store itself, lanes by a mask of words;
rows that share a word with rows outside the box are merged with what memory holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, VectorType, i1, i32
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, grid, tpu, vector
from pallasite.dialects.grid_base import grid_of
from pallasite.dialects.types import array_attribute, integer_attribute, shape_of, splat, vector_of
from pallasite.layouts.registers import LANES, SUBLANES, packing, register_shape
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.access import (
    Access,
    access,
    access_in,
    dense_accesses,
    moved,
    shifted_access,
)
from pallasite.lowering.vectors_to_tiles.agreement import moving_cost
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.dense import is_storable, lanes_mask, sublanes_of
from pallasite.lowering.vectors_to_tiles.flat_rows import rows_cost, rows_of
from pallasite.lowering.vectors_to_tiles.loading import (
    between,
    load_registers,
    load_slots,
    slots,
)
from pallasite.lowering.vectors_to_tiles.masks import mask_in_layout, merge_flat, merge_rows
from pallasite.lowering.vectors_to_tiles.relayout import relayout_cost
from pallasite.lowering.vectors_to_tiles.stacked import stacked_view


@dataclass(frozen=True)
class Class:
    """Neighbouring register blocks along one axis that are written alike.

    Blocks [first, first + count) hold data in [low, high) of their rows or lanes.
    """

    first: int
    count: int
    low: int
    high: int


def classes(offset: int, extent: int, block: int, open_end: bool) -> list[Class]:
    """Cuts `extent` rows (lanes) that begin at `offset` into classes of equal validity.

    With `open_end` what lies behind the data is padding that may be overwritten.
    """
    blocks = -(-(offset + extent) // block)
    end = offset + extent - (blocks - 1) * block
    if open_end:
        end = block
    if blocks == 1:
        return [Class(0, 1, offset, end)]
    found: list[Class] = []
    first, last = 0, blocks
    if offset:
        found.append(Class(0, 1, offset, block))
        first = 1
    tail: list[Class] = []
    if end < block:
        tail.append(Class(blocks - 1, 1, 0, end))
        last = blocks - 1
    if last > first:
        found.append(Class(first, last - first, 0, block))
    return found + tail


@rule(tpu.VectorStoreOp, vector.StoreOp)
def lower_store(op: tpu.VectorStoreOp | vector.StoreOp, c: Converter) -> None:
    """Stores a vector by one grid store per class of blocks: interior, ragged row, ragged column,
    corner."""
    value = op.value if isinstance(op, tpu.VectorStoreOp) else op.vector
    plan = access(op, op.base, list(op.indices), shape_of(value.type), c)
    store_grid(op, value, getattr(op, "mask", None), plan, list(op.indices), c)
    c.retire(op)


def store_grid(
    op: Operation,
    value: SSAValue,
    mask: SSAValue | None,
    plan: Access,
    indices: Sequence[SSAValue],
    c: Converter,
) -> None:
    """Stores the vector `value`, where `mask` is set, in the layout in which that costs least."""
    if indices and mask is None and _store_stacked(op, value, plan, indices, c):
        return
    held: SSAValue | None = None
    if mask is None and _store_flat_rows(value, plan, c):
        return
    if indices and mask is None:
        plan, held = _chosen(value, plan, indices, c)
    held = c.in_layout(value, plan.layout) if held is None else held
    words = mask_in_layout(mask, plan.layout, c) if mask is not None else None
    if len(shape_of(value.type)) == 1:
        _store_flat(held, words, plan, plan.layout.extents(shape_of(value.type))[1], c)
        return
    _store_classes(held, words, plan, shape_of(value.type), c)


def _chosen(
    value: SSAValue, plan: Access, indices: Sequence[SSAValue], c: Converter
) -> tuple[Access, SSAValue | None]:
    """The access of `plan` in the layout in which storing `value` costs least.

    The second result is the grid to be stored, None if that is `Converter.in_layout`'s.
    """
    layout, shape = c.tiled(value).layout, shape_of(value.type)
    filled = [dense for dense in dense_accesses(plan, shape) if is_storable(dense, shape)]
    if not filled and layout == plan.layout:
        return plan, None
    if (dense := next((d for d in filled if d.layout == layout), None)) is not None:
        return dense, None
    other = access_in(plan, list(indices), shape, layout) if layout.row is not None else None
    if other not in (None, plan) and other.layout.is_native:
        held = _rather_together(value, other, plan.layout, c)
        return (other, None) if held is None else (plan, held)
    # Each access with the register operations that move the value and store it.
    choices = [(plan, _cost(value, plan.layout, c))]
    choices += [(dense, _cost(value, dense.layout, c)) for dense in filled]
    if layout.tile_rows == plan.layout.tile_rows and layout.row is not None:
        # The rows stay where they are, whatever happens to the lanes.
        rows = layout.with_offsets(layout.row, plan.layout.column)
        shifted = shifted_access(plan, rows, c) if rows != plan.layout else None
        if shifted is not None:
            count = layout.register_count(shape) * slots(plan.sublane_stride, c)
            choices.append((shifted, count + moving_cost(value, rows, c)))
    return min(choices, key=lambda choice: choice[1])[0], None


def _cost(value: SSAValue, layout: VectorLayout, c: Converter) -> float:
    """Register operations that store `value` in `layout`, less the loads that are saved if it is
    loaded so."""
    held, count = c.tiled(value), layout.register_count(shape_of(value.type))
    if held.layout != layout and c.served(value, layout) is not None:
        return 2 * count - held.layout.register_count(held.shape)
    return count + moving_cost(value, layout, c)


def _rather_together(
    value: SSAValue, apart: Access, layout: VectorLayout, c: Converter
) -> SSAValue | None:
    """The grid of `value` in `layout`, in which neighbouring rows are stored together.

    None if it costs less to store rows at a distance, although rows in one bank of memory wait for
    each other.
    """
    times, held = slots(apart.sublane_stride, c), c.tiled(value)
    if times == 1:
        return None
    registers = held.layout.register_count(held.shape)
    count = layout.register_count(held.shape)
    served = c.served(value, layout)
    smaller = c.smaller(value)
    cost = None if smaller is None else smaller.cost(layout)
    moved = count + (relayout_cost(held.layout, held.shape, layout, c) if cost is None else cost)
    # The loads of `value` as it is are not needed then.
    loaded = math.inf if served is None else (1 + load_slots(served, c)) * count - registers
    if times * registers <= min(loaded, moved):
        return None
    if loaded <= moved:
        return served
    if smaller is not None and cost is not None:
        return smaller.make(layout)
    return c.relayout(held, layout).grid


def _store_stacked(
    op: Operation, value: SSAValue, plan: Access, indices: Sequence[SSAValue], c: Converter
) -> bool:
    """Stores registers that neighbours share, if `value` and memory come so."""
    view = stacked_view(value, plan, indices, c) if c.offers("stacked", value) else None
    held = c.form("stacked", value) if view is not None else None
    if view is None or held is None:
        return False
    memref, places, shape = view
    _store_classes(held, None, access(op, memref, places, shape, c), shape, c)
    return True


def _store_classes(
    held: SSAValue, words: SSAValue | None, plan: Access, shape: tuple[int, ...], c: Converter
) -> None:
    """Stores `held`, a value of `shape` in the layout of `plan`; `words` is its mask, if it has
    one."""
    rows, columns = plan.layout.extents(shape)
    assert plan.layout.row is not None and plan.layout.column is not None
    if not plan.layout.is_native:
        assert words is None, "registers of small tiles are stored without a mask"
        end = plan.layout.column + columns
        columns += -end % LANES if plan.open_column else 0
        last = plan.layout.tile_rows if plan.open_row else plan.layout.row + rows
        row = Class(0, 1, plan.layout.row, last)
        for k in classes(plan.layout.column, columns, plan.layout.block[1], open_end=False):
            _store_tiles(held, plan, row, k, c)
        return
    for r in classes(plan.layout.row, rows, plan.layout.block[0], plan.open_row):
        for k in classes(plan.layout.column, columns, LANES, plan.open_column):
            _store_class(held, words, plan, r, k, c)


def _part(value: SSAValue, lead: Sequence[int], r: Class, k: Class, c: Converter) -> SSAValue:
    """The blocks of row class `r` and column class `k`, for all leading grid positions."""
    offsets = [*[0] * len(lead), r.first, k.first]
    sizes = [*lead, r.count, k.count]
    return c.box(value, offsets, sizes)


def _store_class(
    held: SSAValue, words: SSAValue | None, plan: Access, r: Class, k: Class, c: Converter
) -> None:
    """Stores the blocks of two classes, with masks of sublanes and lanes, and merged words."""
    kind = cast(VectorType[Attribute], held.type)
    p = packing(plan.layout.bits)
    register = register_shape(plan.layout.bits)
    lead = kind.get_shape()[: -len(register) - 2]
    value = _part(held, lead, r, k, c)
    high = min(r.high, plan.tile_rows)
    if plan.open_word:
        high = -(-high // p) * p
    first, last = r.low // p, -(-high // p)
    base = list(plan.base)
    for axis, part in ((plan.axis, r), (-1, k)):
        if part.first:
            base[axis] = moved(base[axis], part.first * plan.steps[axis], c)
    blocks = (*lead, r.count, k.count)
    mask: SSAValue | None = None
    if (k.low, k.high) != (0, LANES):
        mask = _lane_mask(k.low, k.high, blocks, c)
    if words is not None:
        given = _part(words, lead, r, k, c)
        mask = given if mask is None else c.emit(arith.AndIOp(mask, given))
    if r.low % p or high % p:
        value = _merge_rows(value, base, plan, r.low, high, blocks, c)
    _emit_store(value, base, mask, between(first, last), plan, c)


def _store_tiles(held: SSAValue, plan: Access, r: Class, k: Class, c: Converter) -> None:
    """`_store_class` for registers that hold several tiles."""
    lead = grid_of(held)[:-2]
    value = _part(held, lead, r, k, c)
    rows, columns = (r.low, r.high), (k.low, k.high)
    mask = lanes_mask(plan.layout, columns, (*lead, 1, k.count), c)
    base = list(plan.base)
    if k.first:
        base[-1] = moved(base[-1], k.first * plan.steps[-1], c)
    _emit_store(value, base, mask, sublanes_of(plan, rows, columns), plan, c)


def _lane_mask(low: int, high: int, blocks: Sequence[int], c: Converter) -> SSAValue:
    """A mask of lanes [low, high) for a grid of `blocks`."""
    bounds = [c.constant_index(n) for n in (0, low, SUBLANES, high)]
    word = vector_of(i1, (SUBLANES, LANES))
    made = c.emit(tpu.CreateMaskOp.create(operands=bounds, result_types=[word]))
    return c.emit(grid.BroadcastOp(made, vector_of(i1, (*blocks, SUBLANES, LANES))))


def _merge_rows(
    value: SSAValue,
    base: Sequence[SSAValue],
    plan: Access,
    low: int,
    high: int,
    blocks: Sequence[int],
    c: Converter,
) -> SSAValue:
    """`value` in rows [low, high), what memory holds in the others, as words are written whole."""
    kind = cast(VectorType[Attribute], value.type)
    register = register_shape(plan.layout.bits)
    p = register[-1]
    # Registers may begin in front of the memory, which only the rows that are stored are in.
    old = load_registers(plan, base, kind.element_type, blocks, -(-high // p), c, low // p)
    if p > c.target.max_mask_subelements:
        return merge_rows(value, old, plan.layout.bits, low, high, c)
    rows = tpu.CreateSubelementMaskOp.create(
        result_types=[VectorType(i1, register)],
        properties={"from": IntegerAttr(low, i32), "to": IntegerAttr(high, i32)},
    )
    mask = c.emit(grid.BroadcastOp(c.emit(rows), vector_of(i1, (*blocks, *register))))
    return c.emit(arith.SelectOp(mask, value, old))


def _emit_store(
    value: SSAValue,
    base: Sequence[SSAValue],
    mask: SSAValue | None,
    sublanes: Sequence[bool],
    plan: Access,
    c: Converter,
) -> None:
    """Emits `tpu.store` of the registers `value` at `base`, for the given sublanes."""
    rank = len(base)
    if plan.axis != -2:
        order = plan.order(rank)
        back = [order.index(d) for d in range(rank)]
        value = c.emit(grid.TransposeOp(value, back))
        mask = c.emit(grid.TransposeOp(mask, back)) if mask is not None else None
    operands = [value, plan.memref, *base, *([mask] if mask is not None else [])]
    segments = [1, 1, len(base), 1 if mask is not None else 0]
    c.insert(
        tpu.StoreOp.create(
            operands=operands,
            properties={
                "sublane_mask": DenseArrayBase.from_list(i1, list(sublanes)),
                "sublane_stride": integer_attribute(plan.sublane_stride, i32),
                "add": integer_attribute(0, i1),
                "operandSegmentSizes": array_attribute(i32, *segments),
            },
            attributes=plan.attributes(base),
        )
    )


def _store_flat(
    held: SSAValue, words: SSAValue | None, plan: Access, size: int, c: Converter
) -> None:
    """Stores a one-dimensional vector: rows of 128 elements, of which the first and last may be
    ragged."""
    offset = plan.layout.column
    assert offset is not None
    block = plan.layout.block[1]
    p = packing(plan.layout.bits)
    register = register_shape(plan.layout.bits)
    for part in classes(offset, size, block, open_end=False):
        value = c.box(held, [0, part.first], [1, part.count])
        kind = cast(VectorType[Attribute], value.type)
        value = c.emit(grid.ReshapeOp(value, vector_of(kind.element_type, (part.count, *register))))
        base = [moved(plan.base[0], part.first * block, c) if part.first else plan.base[0]]
        unit = LANES * p
        first, last = part.low // unit, -(-part.high // unit)
        mask = None
        if (part.low % unit or part.high % unit) and not (plan.open_column and not part.low % unit):
            if p > 1:
                # Memory is written in words.
                old = load_registers(plan, base, kind.element_type, (part.count,), last, c)
                value = merge_flat(value, old, plan.layout.bits, part.low, part.high, c)
            else:
                mask = _flat_mask(part.low, part.high, (part.count,), c)
        if words is not None:
            given = c.box(words, [0, part.first], [1, part.count])
            given = c.emit(grid.ReshapeOp(given, vector_of(i1, (part.count, SUBLANES, LANES))))
            mask = given if mask is None else c.emit(arith.AndIOp(mask, given))
        _emit_store(value, base, mask, between(first, last), plan, c)


def _store_flat_rows(value: SSAValue, plan: Access, c: Converter) -> bool:
    """Stores a one-dimensional vector a row of words at a time; False if that does not cost
    less."""
    shape, first = shape_of(value.type), plan.layout.column
    unit = LANES * plan.layout.packing
    if len(shape) != 1 or first is None or first % unit:
        return False
    if shape[0] % unit and not plan.open_column:
        return False
    row, layout = rows_cost(value, c), plan.layout
    rows = -(-shape[0] // unit)
    if row is None or rows * row >= layout.register_count(shape) + moving_cost(value, layout, c):
        return False
    apart = replace(plan, steps=(unit,))
    base = [moved(plan.base[0], first, c) if first else plan.base[0]]
    _emit_store(rows_of(value, c), base, None, between(0, 1), apart, c)
    return True


def _flat_mask(low: int, high: int, blocks: Sequence[int], c: Converter) -> SSAValue:
    """A mask of the words of one-dimensional registers whose elements lie in [low, high)."""
    word = vector_of(i32, (SUBLANES, LANES))
    iota = tpu.IotaOp.create(
        result_types=[word], properties={"dimensions": DenseArrayBase.from_list(i32, [0, 1])}
    )
    position = c.emit(iota)
    bounds = [c.emit(arith.ConstantOp(splat(word, n))) for n in (low, high)]
    above = c.emit(arith.CmpiOp(position, bounds[0], "sge"))
    below = c.emit(arith.CmpiOp(position, bounds[1], "slt"))
    inside = c.emit(arith.AndIOp(above, below))
    return c.emit(grid.BroadcastOp(inside, vector_of(i1, (*blocks, SUBLANES, LANES))))
