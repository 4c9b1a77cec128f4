"""Interleaves and splits row blocks of grids, for packed and wider registers; both only rename
registers.

A row block is one row of registers of a grid. A packed register has the rows of two (or four)
registers of words, so widening deals row blocks out, and narrowing interleaves them: row block 0 of
the packed grid becomes row blocks 0 and 1 of the grid of words.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import grid
from pallasite.dialects.grid_base import grid_of
from pallasite.dialects.types import vector_of
from pallasite.lowering.vectors_to_tiles.converter import Converter


def interleave(parts: list[SSAValue], shape: tuple[int, ...], c: Converter) -> SSAValue:
    """The grid `shape` whose row block `r * len(parts) + i` is row block r of part i."""
    if len(parts) == 1:
        return parts[0]
    lead, rows, columns = shape[:-2], shape[-2], shape[-1]
    kind = cast(VectorType[Attribute], parts[0].type)
    register = kind.get_shape()[len(shape) :]
    split = vector_of(kind.element_type, (*lead, rows, 1, columns, *register))
    stacked = c.emit(
        grid.ConcatOp([c.emit(grid.ReshapeOp(p, split)) for p in parts], len(lead) + 1)
    )
    merged = vector_of(kind.element_type, (*lead, rows * len(parts), columns, *register))
    return c.emit(grid.ReshapeOp(stacked, merged))


def rows_of(value: SSAValue, first: int, shape: tuple[int, ...], c: Converter) -> SSAValue:
    """The row blocks of `value` from number `first` on, as many as a grid of `shape` has."""
    kind = cast(VectorType[Attribute], value.type)
    if kind.get_shape()[: len(shape)] == shape:
        return value
    return c.box(value, [*[0] * (len(shape) - 2), first, 0], list(shape))


def deal(
    value: SSAValue, shape: tuple[int, ...], blocks: int, ratio: int, c: Converter, first: int = 0
) -> list[SSAValue]:
    """The inverse of `interleave`: `ratio` grids, each with every `ratio`-th row block of `value`.

    Each has `blocks` row blocks. Poison stands for `first` missing row blocks in front, and for
    those missing at the end.
    """
    kind = cast(VectorType[Attribute], value.type)
    register = kind.get_shape()[len(shape) :]
    lead, rows, columns = shape[:-2], shape[-2], shape[-1]
    parts = [value]
    if first:
        parts.insert(0, _undefined(kind, (*lead, first, columns, *register), c))
    if behind := blocks * ratio - rows - first:
        parts.append(_undefined(kind, (*lead, behind, columns, *register), c))
    if len(parts) > 1:
        value = c.emit(grid.ConcatOp(parts, len(lead)))
    split = vector_of(kind.element_type, (*lead, blocks, ratio, columns, *register))
    value = c.emit(grid.ReshapeOp(value, split))
    flat = vector_of(kind.element_type, (*lead, blocks, columns, *register))
    dealt: list[SSAValue] = []
    for part in range(ratio):
        offsets = [*[0] * len(lead), 0, part, 0]
        one = c.box(value, offsets, [*lead, blocks, 1, columns])
        dealt.append(c.emit(grid.ReshapeOp(one, flat)))
    return dealt


def interleave_columns(
    parts: list[SSAValue], first: int, shape: tuple[int, ...], c: Converter
) -> SSAValue:
    """`interleave` for blocks of columns; of the result, the grid `shape` from block `first` on."""
    before = grid_of(parts[0])
    value = interleave([_below(part, c) for part in parts], (*before, 1), c)
    return _regrid(rows_of(value, first, (*shape, 1), c), shape, c)


def deal_columns(
    value: SSAValue, blocks: int, ratio: int, c: Converter, first: int = 0
) -> list[SSAValue]:
    """`deal` for blocks of columns."""
    shape = grid_of(value)
    dealt = deal(_below(value, c), (*shape, 1), blocks, ratio, c, first)
    return [_regrid(part, (*shape[:-1], blocks), c) for part in dealt]


def _below(value: SSAValue, c: Converter) -> SSAValue:
    """`value` with its blocks of columns arranged as blocks of rows."""
    return _regrid(value, (*grid_of(value), 1), c)


def _regrid(value: SSAValue, shape: tuple[int, ...], c: Converter) -> SSAValue:
    """The registers of `value` as a grid of `shape`, in row-major order."""
    kind = cast(VectorType[Attribute], value.type)
    register = kind.get_shape()[len(grid_of(value)) :]
    return c.emit(grid.ReshapeOp(value, vector_of(kind.element_type, (*shape, *register))))


def _undefined(kind: VectorType[Attribute], shape: tuple[int, ...], c: Converter) -> SSAValue:
    return c.emit(grid.PoisonOp(vector_of(kind.element_type, shape)))
