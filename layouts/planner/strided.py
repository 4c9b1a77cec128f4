"""Expresses tables of registers as strided boxes: slices of a grid, transposed and broadcast.

A table of register numbers that is a nest of arithmetic progressions needs no `GridTake`: in a grid
whose dimensions have the strides of the nest, the registers are a box.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pallasite.layouts.plan import GridBroadcast, GridSlice, GridTranspose
from pallasite.layouts.planner.lines import Array, progressions

if TYPE_CHECKING:
    from pallasite.layouts.planner.program import Program


class _Box(NamedTuple):
    """A box in a grid; all lists have an entry per dimension of the grid."""

    shape: list[int]
    """The shape of the grid."""
    offsets: list[int]
    sizes: list[int]


def strided(program: Program, value: int, table: Array) -> int | None:
    """Registers `table` of a flat `value`, flat, without `GridTake`; None if they are no box."""
    dims = progressions(table)
    if dims is None:
        return None
    size, values = program.size(value), program.values
    moving = sorted((d for d in dims if d[1]), key=lambda d: -d[1])
    box = _box(moving, int(table[0]), size)
    if box is None:
        return None
    made = program.reshape(value, box.shape)
    if box.sizes != box.shape:
        sizes = tuple(box.sizes)
        step = GridSlice((made,), tuple(box.offsets), sizes, (1,) * len(sizes))
        made = program.add(step, values[value].on(sizes))
    made = program.reshape(made, [count for count, _ in moving] or [1])
    order = [moving.index(d) for d in dims if d[1]]
    if order != sorted(order):
        grid = tuple(moving[o][0] for o in order)
        made = program.add(GridTranspose((made,), tuple(order)), values[value].on(grid))
    if any(not stride for _, stride in dims):
        ones = [count if stride else 1 for count, stride in dims]
        grid = tuple(count for count, _ in dims)
        step = GridBroadcast((program.reshape(made, ones),), grid)
        made = program.add(step, values[value].on(grid))
    return program.flat(made)


def _box(moving: Sequence[tuple[int, int]], base: int, size: int) -> _Box | None:
    """The box with dimensions `moving` (count, stride), largest strides first, from `base` on.

    Its grid has `size` registers and dimensions of these strides; None if there is no such grid.
    """
    if not moving:
        return _Box([size], [base], [1])
    box = _Box([], [], [count for count, _ in moving])
    above, rest = size, base
    for number, (count, stride) in enumerate(moving):
        if number and above % stride:
            return None
        extent = -(-above // stride) if number == 0 else above // stride
        offset, rest = divmod(rest, stride)
        if offset + count > extent:
            return None
        box.shape.append(extent)
        box.offsets.append(offset)
        above = stride
    if above > 1:
        box.shape.append(above)
        box.offsets.append(rest)
        box.sizes.append(1)
    return box if math.prod(box.shape) == size else None
