"""Row blocks of packed and of wider registers: dealt out and put together, all by renaming."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import grid
from pallasite.lowering.vectors_to_tiles.converter import Converter


def interleave(c: Converter, parts: list[SSAValue], shape: tuple[int, ...]) -> SSAValue:
    """Block r of part i becomes row block `r * len(parts) + i`."""
    if len(parts) == 1:
        return parts[0]
    lead, rows, columns = shape[:-2], shape[-2], shape[-1]
    kind = cast(VectorType[Attribute], parts[0].type)
    register = kind.get_shape()[len(shape) :]
    split = VectorType(kind.element_type, (*lead, rows, 1, columns, *register))
    stacked = c.emit(
        grid.ConcatOp([c.emit(grid.ReshapeOp(p, split)) for p in parts], len(lead) + 1)
    )
    merged = VectorType(kind.element_type, (*lead, rows * len(parts), columns, *register))
    return c.emit(grid.ReshapeOp(stacked, merged))


def rows_of(c: Converter, value: SSAValue, first: int, shape: tuple[int, ...]) -> SSAValue:
    """Row blocks `first` onward, as many as the grid `shape` has."""
    kind = cast(VectorType[Attribute], value.type)
    if kind.get_shape()[: len(shape)] == shape:
        return value
    return c.box(value, [*[0] * (len(shape) - 2), first, 0], list(shape))


def deal(
    c: Converter, value: SSAValue, shape: tuple[int, ...], blocks: int, ratio: int
) -> list[SSAValue]:
    """The inverse of `interleave`: `ratio` grids with every `ratio`-th row block."""
    kind = cast(VectorType[Attribute], value.type)
    register = kind.get_shape()[len(shape) :]
    lead, rows, columns = shape[:-2], shape[-2], shape[-1]
    missing = blocks * ratio - rows
    if missing:
        filler = VectorType(kind.element_type, (*lead, missing, columns, *register))
        value = c.emit(grid.ConcatOp([value, c.emit(grid.PoisonOp(filler))], len(lead)))
    split = VectorType(kind.element_type, (*lead, blocks, ratio, columns, *register))
    value = c.emit(grid.ReshapeOp(value, split))
    flat = VectorType(kind.element_type, (*lead, blocks, columns, *register))
    parts: list[SSAValue] = []
    for part in range(ratio):
        offsets = [*[0] * len(lead), 0, part, 0]
        one = c.box(value, offsets, [*lead, blocks, 1, columns])
        parts.append(c.emit(grid.ReshapeOp(one, flat)))
    return parts
