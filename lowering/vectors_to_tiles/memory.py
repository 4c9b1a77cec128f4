"""Loads and stores of logical vectors: one register access per grid, edges as extra classes.

A native tile of memory is one register, so an access at a tile boundary is `tpu.load` of a grid
whose steps are the tile. Other static positions give (or want) a value with that offset in its
layout; dynamic positions must be provably aligned, except along rows of memory that
`infer-memref-layout` tiled by single rows because of such an access.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, MemRefType, VectorType, i1, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, grid, tpu, vector
from pallasite.dialects.types import bit_width, splat, tiling_of
from pallasite.layouts.registers import LANES, SUBLANES, packing, register_shape
from pallasite.layouts.tiling import Tiling
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.converter import (
    Converter,
    element_of,
    grid_type,
    rule,
    shape_of,
)
from pallasite.passes.divisibility import constant_of, remainder

STEPS = "grid.steps"


@dataclass(frozen=True)
class Access:
    """How registers meet a box of a tiled memref.

    `start` holds what must be added to the tile-aligned part of the indices (`base`) per memref
    dimension; `row` and `column` are where the box begins inside its first register.
    """

    memref: SSAValue
    base: tuple[SSAValue, ...]
    layout: VectorLayout
    steps: tuple[int, ...]
    sublane_stride: int
    tile_rows: int
    """Rows of a memory tile; a register reads no further unless tiles of one row are strided."""
    open_row: bool
    """The box ends where the array ends, so rows behind it are padding of the allocation."""
    open_column: bool


def access(
    op: Operation, memref: SSAValue, indices: Sequence[SSAValue], shape: tuple[int, ...], c: Converter
) -> Access:
    """Plans the access of a box of `shape` at `indices`; rejects positions nobody can prove."""
    kind = cast(MemRefType[Attribute], memref.type)
    tiling = tiling_of(kind)
    if tiling is None:
        raise c.unsupported(op, "untiled-memref", f"{kind} has no tiled layout")
    bits = bit_width(kind.element_type)
    if len(shape) == 1:
        return _flat_access(op, memref, indices[0], shape[0], tiling, bits, c)
    return _matrix_access(op, memref, indices, shape, tiling, bits, c)


def _offset(
    op: Operation, index: SSAValue, unit: int, what: str, c: Converter
) -> int:
    """The distance of `index` from the last multiple of `unit`, which must be known."""
    rest = remainder(index, unit)
    if rest is None:
        raise c.unsupported(
            op,
            f"unaligned-{what}",
            f"cannot prove that a dynamic {what} index is a multiple of {unit}",
            f"registers are loaded by whole tiles of {unit} {what}s; an unknown start would need a "
            "shift by an amount known only at run time",
            f"promise it with pl.multiple_of(index, {unit}), or load an aligned block and use "
            "pltpu.roll",
        )
    return rest


def _aligned(index: SSAValue, rest: int, c: Converter) -> SSAValue:
    """`index - rest`, folded for constants."""
    if not rest:
        return index
    known = constant_of(index)
    if known is not None:
        return c.constant_index(known - rest)
    return c.emit(arith.SubiOp(index, c.constant_index(rest)))


def _matrix_access(
    op: Operation,
    memref: SSAValue,
    indices: Sequence[SSAValue],
    shape: tuple[int, ...],
    tiling: Tiling,
    bits: int,
    c: Converter,
) -> Access:
    rank = len(shape)
    extent = cast(MemRefType[Attribute], memref.type).get_shape()
    rows = tiling.first[0] if len(tiling.first) == 2 else 0
    if rows == 0 or tiling.first[1] != LANES:
        raise c.unsupported(op, "memory-tiling", f"cannot load registers from tiles {tiling}")
    native = SUBLANES * packing(bits)
    column = _offset(op, indices[-1], LANES, "lane", c)
    single_rows = rows == 1 and bits == 32
    if single_rows:
        # Every row of 128 words has its own tile: any row is the start of a register, and the
        # rows below follow at the distance of one row of tiles.
        row, stride = 0, tiling.strides[-2]
    else:
        row, stride = _offset(op, indices[-2], rows, "sublane", c), 1
    if not single_rows and rows < native and (row + shape[-2] > rows):
        raise c.unsupported(
            op, "memory-tiling",
            f"a block of {shape[-2]} rows at row {row} crosses memory tiles of {rows} rows",
        )  # fmt: skip
    base = (*indices[:-2], _aligned(indices[-2], row, c), _aligned(indices[-1], column, c))
    layout = VectorLayout.native(rank, bits, row, column)
    steps = (*[1] * (rank - 2), native, LANES)
    starts = [constant_of(i) for i in indices[-2:]]
    ends = [None if s is None else s + n for s, n in zip(starts, shape[-2:], strict=True)]
    return Access(
        memref, base, layout, steps, stride, rows if not single_rows else native,
        ends[0] == extent[-2] and not single_rows, ends[1] == extent[-1],
    )  # fmt: skip


def _flat_access(
    op: Operation, memref: SSAValue, index: SSAValue, size: int, tiling: Tiling, bits: int, c: Converter
) -> Access:
    # One-dimensional memory is rows of 128 elements; a register takes as many as it has rows,
    # so its layout is that of tiles of one row.
    unit = LANES * packing(bits)
    offset = _offset(op, index, unit, "element", c)
    layout = VectorLayout(bits, None, 0, 0, offset, 1)
    extent = cast(MemRefType[Attribute], memref.type).get_shape()[0]
    start = constant_of(index)
    return Access(
        memref, (_aligned(index, offset, c),), layout, (layout.block[1],), 1, SUBLANES * packing(bits),
        False, start is not None and start + size == extent,
    )  # fmt: skip


def _sublane_mask(first: int, last: int) -> Attribute:
    return DenseArrayBase.from_list(i1, [first <= s < last for s in range(SUBLANES)])


def _grid_of_access(plan: Access, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The grid with one dimension per memref dimension."""
    grid_shape = plan.layout.grid_shape(shape)
    return grid_shape[1:] if len(shape) == 1 else grid_shape


@rule(vector.LoadOp)
def lower_load(op: vector.LoadOp, c: Converter) -> None:
    """One grid load."""
    result = op.results[0]
    load_grid(result, access(op, op.base, list(op.indices), shape_of(result), c), c)
    c.retire(op)


def load_grid(result: SSAValue, plan: Access, c: Converter) -> None:
    """Loads the vector `result`; sublanes outside a small memory tile are not read."""
    shape, element = shape_of(result), element_of(result)
    p = packing(plan.layout.bits)
    last = SUBLANES if plan.tile_rows >= SUBLANES * p else -(-plan.tile_rows // p)
    kind = VectorType(element, (*_grid_of_access(plan, shape), *register_shape(plan.layout.bits)))
    made = tpu.LoadOp.create(
        operands=[plan.memref, *plan.base],
        result_types=[kind],
        properties={
            "sublane_mask": _sublane_mask(0, last),
            "sublane_stride": IntegerAttr(plan.sublane_stride, i32),
        },
        attributes={STEPS: DenseArrayBase.from_list(i64, plan.steps)},
    )
    loaded = c.emit(made)
    if len(shape) == 1:
        loaded = c.emit(grid.ReshapeOp(loaded, grid_type(plan.layout, shape, element)))
    c.define(result, loaded, plan.layout)


@dataclass(frozen=True)
class Class:
    """Neighbouring register blocks along one axis that are written alike: blocks [first, first+count)
    hold data in [low, high) of their rows or lanes."""

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
    """One grid store per class of blocks: interior, ragged row, ragged column, corner."""
    value = op.value if isinstance(op, tpu.VectorStoreOp) else op.vector
    plan = access(op, op.base, list(op.indices), shape_of(value), c)
    store_grid(op, value, getattr(op, "mask", None), plan, c)
    c.retire(op)


def store_grid(
    op: Operation, value: SSAValue, mask: SSAValue | None, plan: Access, c: Converter
) -> None:
    """Stores the vector `value`, where `mask` is set."""
    held = c.in_layout(value, plan.layout)
    words = c.in_layout(mask, plan.layout) if mask is not None else None
    rows, columns = plan.layout.extents(shape_of(value))
    if len(shape_of(value)) == 1:
        _store_flat(op, held, words, plan, columns, c)
        return
    assert plan.layout.row is not None and plan.layout.column is not None
    for r in classes(plan.layout.row, rows, plan.layout.block[0], plan.open_row):
        for k in classes(plan.layout.column, columns, LANES, plan.open_column):
            _store_class(held, words, plan, r, k, c)


def _part(value: SSAValue, lead: Sequence[int], r: Class, k: Class, c: Converter) -> SSAValue:
    """The blocks of two classes, for all leading grid positions."""
    offsets = [*[0] * len(lead), r.first, k.first]
    sizes = [*lead, r.count, k.count]
    return c.box(value, offsets, sizes)


def _store_class(
    held: SSAValue, words: SSAValue | None, plan: Access, r: Class, k: Class, c: Converter
) -> None:
    kind = cast(VectorType[Attribute], held.type)
    p = packing(plan.layout.bits)
    register = register_shape(plan.layout.bits)
    lead = kind.get_shape()[: -len(register) - 2]
    value = _part(held, lead, r, k, c)
    high = min(r.high, plan.tile_rows)
    first, last = r.low // p, -(-high // p)
    base = list(plan.base)
    for axis, part in ((-2, r), (-1, k)):
        if part.first:
            base[axis] = _moved(base[axis], part.first * plan.steps[axis], c)
    blocks = (*lead, r.count, k.count)
    mask: SSAValue | None = None
    if (k.low, k.high) != (0, LANES):
        mask = _lane_mask(k.low, k.high, blocks, c)
    if words is not None:
        given = _part(words, lead, r, k, c)
        mask = given if mask is None else c.emit(arith.AndIOp(mask, given))
    if r.low % p or high % p:
        value = _merge_rows(value, base, plan, r.low, high, blocks, c)
    _emit_store(value, base, mask, (first, last), plan, c)


def _moved(index: SSAValue, amount: int, c: Converter) -> SSAValue:
    known = constant_of(index)
    if known is not None:
        return c.constant_index(known + amount)
    return c.emit(arith.AddiOp(index, c.constant_index(amount)))


def _lane_mask(low: int, high: int, blocks: Sequence[int], c: Converter) -> SSAValue:
    bounds = [c.constant_index(n) for n in (0, low, SUBLANES, high)]
    word = VectorType(i1, (SUBLANES, LANES))
    made = c.emit(tpu.CreateMaskOp.create(operands=bounds, result_types=[word]))
    return c.emit(grid.BroadcastOp(made, VectorType(i1, (*blocks, SUBLANES, LANES))))


def _merge_rows(
    value: SSAValue,
    base: Sequence[SSAValue],
    plan: Access,
    low: int,
    high: int,
    blocks: Sequence[int],
    c: Converter,
) -> SSAValue:
    """`value` in rows [low, high), what memory holds in the others: words are written whole."""
    kind = cast(VectorType[Attribute], value.type)
    register = register_shape(plan.layout.bits)
    p = register[-1]
    old = tpu.LoadOp.create(
        operands=[plan.memref, *base],
        result_types=[kind],
        properties={
            "sublane_mask": _sublane_mask(low // p, -(-high // p)),
            "sublane_stride": IntegerAttr(plan.sublane_stride, i32),
        },
        attributes={STEPS: DenseArrayBase.from_list(i64, plan.steps)},
    )
    rows = tpu.CreateSubelementMaskOp.create(
        result_types=[VectorType(i1, register)],
        properties={"from": IntegerAttr(low, i32), "to": IntegerAttr(high, i32)},
    )
    mask = c.emit(grid.BroadcastOp(c.emit(rows), VectorType(i1, (*blocks, *register))))
    return c.emit(arith.SelectOp(mask, value, c.emit(old)))


def _emit_store(
    value: SSAValue,
    base: Sequence[SSAValue],
    mask: SSAValue | None,
    sublanes: tuple[int, int],
    plan: Access,
    c: Converter,
) -> None:
    operands = [value, plan.memref, *base, *([mask] if mask is not None else [])]
    segments = [1, 1, len(base), 1 if mask is not None else 0]
    c.insert(
        tpu.StoreOp.create(
            operands=operands,
            properties={
                "sublane_mask": _sublane_mask(*sublanes),
                "sublane_stride": IntegerAttr(plan.sublane_stride, i32),
                "add": IntegerAttr(0, i1),
                "operandSegmentSizes": DenseArrayBase.from_list(i32, segments),
            },
            attributes={STEPS: DenseArrayBase.from_list(i64, plan.steps)},
        )
    )


def _store_flat(
    op: Operation, held: SSAValue, words: SSAValue | None, plan: Access, size: int, c: Converter
) -> None:
    """A one-dimensional store: rows of 128 elements, the last one perhaps ragged."""
    offset = plan.layout.column
    assert offset is not None
    block = plan.layout.block[1]
    p = packing(plan.layout.bits)
    register = register_shape(plan.layout.bits)
    for part in classes(offset, size, block, open_end=False):
        value = c.box(held, [0, part.first], [1, part.count])
        kind = cast(VectorType[Attribute], value.type)
        value = c.emit(
            grid.ReshapeOp(value, VectorType(kind.element_type, (part.count, *register)))
        )
        base = [_moved(plan.base[0], part.first * block, c) if part.first else plan.base[0]]
        unit = LANES * p
        first, last = part.low // unit, -(-part.high // unit)
        mask = None
        if (part.low % unit or part.high % unit) and not (plan.open_column and not part.low % unit):
            if p > 1:
                raise c.unsupported(
                    op, "packed-flat-store",
                    f"a one-dimensional store of {plan.layout.bits}-bit elements must start and end "
                    f"at multiples of {unit}, or end where the array ends",
                    "memory is written in words of 32 bits",
                    "pad the block, or store a two-dimensional block",
                )  # fmt: skip
            mask = _flat_mask(part.low, part.high, (part.count,), c)
        if words is not None:
            given = c.box(words, [0, part.first], [1, part.count])
            given = c.emit(grid.ReshapeOp(given, VectorType(i1, (part.count, SUBLANES, LANES))))
            mask = given if mask is None else c.emit(arith.AndIOp(mask, given))
        _emit_store(value, base, mask, (first, last), plan, c)


def _flat_mask(low: int, high: int, blocks: Sequence[int], c: Converter) -> SSAValue:
    """Words of a one-dimensional register whose elements lie in [low, high)."""
    word = VectorType(i32, (SUBLANES, LANES))
    iota = tpu.IotaOp.create(
        result_types=[word], properties={"dimensions": DenseArrayBase.from_list(i32, [0, 1])}
    )
    position = c.emit(iota)
    bounds = [c.emit(arith.ConstantOp(splat(word, n))) for n in (low, high)]
    above = c.emit(arith.CmpiOp(position, bounds[0], "sge"))
    below = c.emit(arith.CmpiOp(position, bounds[1], "slt"))
    inside = c.emit(arith.AndIOp(above, below))
    return c.emit(grid.BroadcastOp(inside, VectorType(i1, (*blocks, SUBLANES, LANES))))
