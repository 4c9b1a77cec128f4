"""Loads grids of registers from memory, as an `Access` describes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects.builtin import (
    DenseArrayBase,
    VectorType,
    i1,
    i32,
)
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import grid, tpu
from pallasite.dialects.grid_base import Renaming
from pallasite.dialects.types import integer_attribute, tiling_of
from pallasite.layouts.registers import LANES, SUBLANES, packing, register_shape
from pallasite.lowering.vectors_to_tiles.access import Access, moved
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.tiled import grid_type
from pallasite.passes.divisibility import remainder

_WAIT = 2
"""Register operations in the time of one access that waits for another in its memory bank; so grows
the TPU compiler's code."""


@lru_cache(maxsize=256)
def sublane_mask(first: int, last: int) -> Attribute:
    """The mask, one boolean per sublane, of a load or store of sublanes `first` to `last - 1`."""
    return DenseArrayBase.from_list(i1, between(first, last))


def between(first: int, last: int) -> list[bool]:
    """For each sublane, whether it is one of `first` to `last - 1`."""
    return [first <= s < last for s in range(SUBLANES)]


def _grid_of_access(plan: Access, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The grid of registers with one dimension per dimension of the memref."""
    grid_shape = plan.layout.grid_shape(shape)
    if len(shape) == 1:
        return grid_shape[1:]
    # Rows that number registers, each spread over one, leave no dimension of row blocks.
    return grid_shape if plan.layout.sublane_dim is not None else (*grid_shape[:-2], grid_shape[-1])


def load_grid(plan: Access, shape: tuple[int, ...], element: Attribute, c: Converter) -> SSAValue:
    """The registers of a vector of `shape`; sublanes outside a small tile or the buffer are not
    read."""
    if len(shape) > 1 and not plan.layout.is_native:
        return _load_dense(plan, shape, element, c)
    p = packing(plan.layout.bits)
    last = SUBLANES if plan.tile_rows >= SUBLANES * p else -(-plan.tile_rows // p)
    blocks = list(_grid_of_access(plan, shape))
    if len(shape) == 1:
        loaded = _load_flat(plan, element, blocks[0], shape[0], c)
        return c.emit(grid.ReshapeOp(loaded, grid_type(plan.layout, shape, element)))
    words = -(-((plan.layout.row or 0) + shape[plan.axis]) // p)
    if (plan.single_rows or plan.axis != -2) and words % SUBLANES and plan.sublane_stride:
        return _load_ragged(plan, element, blocks, words, c)
    loaded = load_registers(plan, plan.base, element, blocks, last, c)
    return c.emit(grid.ReshapeOp(loaded, grid_type(plan.layout, shape, element)))


def _load_flat(plan: Access, element: Attribute, count: int, size: int, c: Converter) -> SSAValue:
    """Loads rows of 128 words; none after the last one, where the buffer may end."""
    block = plan.layout.block[1]
    tiling = tiling_of(plan.memref.type)
    assert plan.layout.column is not None and tiling is not None
    whole_tiles = tiling.first[0] % block == 0 and remainder(plan.base[0], block) == 0
    rows = -(-(plan.layout.column + size) * SUBLANES // block)
    rest = rows - (count - 1) * SUBLANES
    if whole_tiles or rest == SUBLANES:
        return load_registers(plan, plan.base, element, [count], SUBLANES, c)
    base = [moved(plan.base[0], (count - 1) * block, c)] if count > 1 else plan.base
    tail = load_registers(plan, base, element, [1], rest, c)
    if count == 1:
        return tail
    head = load_registers(plan, plan.base, element, [count - 1], SUBLANES, c)
    return c.emit(grid.ConcatOp([head, tail], 0))


def _load_ragged(
    plan: Access, element: Attribute, blocks: list[int], words: int, c: Converter
) -> SSAValue:
    """Loads whole blocks of rows, and then the last block without the sublanes that it does not
    fill."""
    whole, rest = divmod(words, SUBLANES)
    base = list(plan.base)
    if whole:
        base[plan.axis] = moved(base[plan.axis], whole * plan.steps[plan.axis], c)
    tail = load_registers(plan, base, element, [*blocks[:-2], 1, blocks[-1]], rest, c)
    if not whole:
        return tail
    head = load_registers(plan, plan.base, element, [*blocks[:-2], whole, blocks[-1]], SUBLANES, c)
    return c.emit(grid.ConcatOp([head, tail], len(blocks) - 2))


def _load_dense(plan: Access, shape: tuple[int, ...], element: Attribute, c: Converter) -> SSAValue:
    """Loads registers of several tiles; of the last register only tiles that have columns of the
    vector."""
    blocks = list(plan.layout.grid_shape(shape))
    unit = plan.layout.tile_rows // plan.layout.packing
    assert plan.layout.column is not None
    tiles = -(-(plan.layout.column + shape[-1]) // LANES)
    rest = tiles * unit - (blocks[-1] - 1) * SUBLANES
    if rest == SUBLANES:
        return load_registers(plan, plan.base, element, blocks, SUBLANES, c)
    whole = blocks[-1] - 1
    base = list(plan.base)
    if whole:
        base[-1] = moved(base[-1], whole * plan.steps[-1], c)
    tail = load_registers(plan, base, element, [*blocks[:-1], 1], rest, c)
    if not whole:
        return tail
    head = load_registers(plan, plan.base, element, [*blocks[:-1], whole], SUBLANES, c)
    return c.emit(grid.ConcatOp([head, tail], len(blocks) - 1))


def load_registers(
    plan: Access,
    base: Sequence[SSAValue],
    element: Attribute,
    blocks: Sequence[int],
    last: int,
    c: Converter,
    first: int = 0,
) -> SSAValue:
    """Loads the registers of `blocks`, a grid in the layout of `plan`, from index `base` on.

    Only sublanes `first` to `last - 1` of each are read.
    """
    order = plan.order(len(blocks)) if len(blocks) > 1 else [0]
    held = [blocks[order.index(d)] for d in range(len(blocks))]
    made = tpu.LoadOp.create(
        operands=[plan.memref, *base],
        result_types=[VectorType(element, (*held, *register_shape(plan.layout.bits)))],
        properties={
            "sublane_mask": sublane_mask(first, last),
            "sublane_stride": integer_attribute(plan.sublane_stride, i32),
        },
        attributes=plan.attributes(base),
    )
    loaded = c.emit(made)
    return loaded if plan.axis == -2 else c.emit(grid.TransposeOp(loaded, order))


def slots(stride: int, c: Converter) -> int:
    """How many register operations' time it takes to access one register of rows that are `stride`
    apart."""
    times = c.target.row_accesses(stride)
    return times if times == 1 else _WAIT * times


def _origin(value: SSAValue) -> object:
    """The operation that defines the registers of `value`, or the first of them, before
    renaming."""
    op = value.owner
    while isinstance(op, Renaming | grid.ConcatOp):
        op = op.operands[0].owner
    return op


def is_loaded(value: SSAValue) -> bool:
    """Whether the registers of `value` are loaded, so that they may be loaded otherwise."""
    return isinstance(_origin(value), tpu.LoadOp)


def load_slots(value: SSAValue, c: Converter) -> int:
    """`slots` for loading a register of `value`, 1 if it is not loaded."""
    op = _origin(value)
    return slots(op.sublane_stride.value.data, c) if isinstance(op, tpu.LoadOp) else 1
