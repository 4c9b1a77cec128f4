"""Which registers and lanes of every value of a plan a part of its result depends on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pallasite.layouts.plan import (
    GatherLanes,
    GridBroadcast,
    GridConcat,
    GridSlice,
    GridTake,
    GridTranspose,
    Plan,
    RotateLanes,
    Step,
    TransposeBlocks,
    Value,
)
from pallasite.layouts.planner.lines import Array, distinct_values
from pallasite.layouts.registers import LANES, SUBLANES

ALL_LANES = np.arange(LANES)


@dataclass(frozen=True)
class Demand:
    """Per value of a plan, the needed registers (flat numbers) and lanes, both ascending.

    `origins[i]` has, per operand of step i, the register of the operand that each needed register
    of the result comes from, -1 for none. It is None if they have the same numbers.
    """

    registers: list[Array]
    lanes: list[Array]
    origins: list[list[Array] | None]


def demand(plan: Plan, registers: Array, lanes: Array) -> Demand:
    """What the given registers and lanes of the result of `plan` depend on."""
    wanted = [np.zeros(value.registers, np.bool_) for value in plan.values]
    kept = [np.zeros(LANES, np.bool_) for _ in plan.values]
    wanted[plan.result][registers] = True
    kept[plan.result][lanes] = True
    came: list[list[Array] | None] = [None] * len(plan.steps)
    for number in range(len(plan.steps) - 1, -1, -1):
        step, made = plan.steps[number], plan.sources + number
        operands = [plan.values[o] for o in step.operands]
        mine, along = wanted[made], kept[made]
        if isinstance(step, TransposeBlocks):
            places = blocks(operands[0], np.nonzero(mine)[0], np.nonzero(along)[0])
            wanted[step.operands[0]][places.registers] = True
            kept[step.operands[0]][places.lanes] = True
            continue
        if isinstance(step, RotateLanes):
            along = np.roll(along, -step.amount)
        elif isinstance(step, GatherLanes):
            there = np.zeros(LANES, np.bool_)
            there[step.index.array()[..., along]] = True
            along = there
        found = None
        if isinstance(step, _MOVING):
            found = origins_of(step, operands, plan.values[made], np.nonzero(mine)[0])
        came[number] = found
        for place, operand in enumerate(step.operands):
            kept[operand] |= along
            if found is None:
                wanted[operand] |= mine
            else:
                wanted[operand][found[place][found[place] >= 0]] = True
    return Demand([np.nonzero(w)[0] for w in wanted], [np.nonzero(k)[0] for k in kept], came)


@dataclass(frozen=True)
class Blocks:
    """Operand registers and lanes that some registers of a `TransposeBlocks` result need."""

    registers: Array
    """[blocks, needed registers of each], numbers of registers of the operand."""
    lanes: Array
    """Needed lanes of the operand."""
    block: Array
    """Per register of the result, the number of its block."""
    place: Array
    """Per register of the result, its position within the block."""
    row: Array
    """Per lane of the result, the needed row of the block that becomes this lane."""


def blocks(operand: Value, registers: Array, lanes: Array) -> Blocks:
    """What `registers` of the transposed `operand` need for `lanes` of theirs."""
    side, height = 16 // operand.elements, SUBLANES * operand.elements
    rows, columns = operand.grid[-2:]
    rest, across = np.divmod(registers, rows // side)
    rest, place = np.divmod(rest, side)
    matrix, column = np.divmod(rest, columns)
    first = (matrix * (rows // side) + across) * side * columns + column
    corner = distinct_values(first)
    used = distinct_values(lanes // height)
    return Blocks(
        corner[:, None] + used * columns,
        (distinct_values(place)[:, None] * height + np.arange(height)).reshape(-1),
        np.searchsorted(corner, first),
        place,
        np.searchsorted(used, lanes // height) * height + lanes % height,
    )


def origins(step: Step, operands: Sequence[Value], value: Value) -> list[Array] | None:
    """Per operand, the register that each register of the result comes from, -1 for none.

    None if register i of the result comes from register i of every operand.
    """
    if isinstance(step, GridTake):
        return [step.numbers()]
    if not isinstance(step, _MOVING):
        return None
    return origins_of(step, operands, value, np.arange(value.registers))


_MOVING = (GridTake, GridSlice, GridTranspose, GridBroadcast, GridConcat)


def origins_of(
    step: Step, operands: Sequence[Value], value: Value, registers: Array
) -> list[Array] | None:
    """`origins` for `registers` of the result only, in time proportional to their number."""
    grid = operands[0].grid
    match step:
        case GridTake():
            return [step.numbers()[registers]]
        case GridSlice():
            strides = _strides(grid)
            first = sum(o * s for o, s in zip(step.offsets, strides, strict=True))
            strides = [n * s for n, s in zip(step.strides, strides, strict=True)]
            return [_places(registers, value.grid, strides, first)]
        case GridTranspose():
            strides = _strides(grid)
            return [_places(registers, value.grid, [strides[d] for d in step.permutation], 0)]
        case GridBroadcast():
            kept = [s if n > 1 else 0 for n, s in zip(grid, _strides(grid), strict=True)]
            return [_places(registers, value.grid, [0] * (len(value.grid) - len(kept)) + kept, 0)]
        case GridConcat():
            return list(_concatenated(operands, step.dim, value.grid, registers))
        case _:
            return None


def _strides(grid: Sequence[int]) -> list[int]:
    """The row-major stride of every dimension of `grid`."""
    return [math.prod(grid[d + 1 :]) for d in range(len(grid))]


def _places(registers: Array, grid: Sequence[int], strides: Sequence[int], first: int) -> Array:
    """Maps flat numbers in `grid` to `first` plus the sum of index times stride per dimension."""
    result, left = np.full(registers.shape, first), registers
    for extent, stride in zip(reversed(grid), reversed(strides), strict=True):
        if extent > 1:
            rest = left // extent
            result += (left - rest * extent) * stride
            left = rest
    return result


def _concatenated(
    operands: Sequence[Value], dim: int, grid: Sequence[int], registers: Array
) -> Iterator[Array]:
    inner, at = math.prod(grid[dim + 1 :]), 0
    row = registers // inner
    outer = row // grid[dim]
    along = row - outer * grid[dim]
    for operand in operands:
        extent = operand.grid[dim]
        # From the first register of the operand in this row of the result to that in its own.
        moved = registers - (outer * (grid[dim] - extent) + at) * inner
        yield np.where((along >= at) & (along < at + extent), moved, -1)
        at += extent
