"""What a part of a plan's result depends on: which registers and which lanes of every value."""

from __future__ import annotations

from collections.abc import Sequence
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
from pallasite.layouts.planner_lines import Array, distinct_values
from pallasite.layouts.registers import LANES, SUBLANES

ALL_LANES = np.arange(LANES)


@dataclass(frozen=True)
class Demand:
    """Registers (by flat number) and lanes of every value of a plan that are looked at, ascending.

    `origins[i]` tells, for step i and each of its operands, which register of the operand each
    register of the result comes from, -1 for none; it is None where they are the same ones.
    """

    registers: list[Array]
    lanes: list[Array]
    origins: list[list[Array] | None]


def demand(plan: Plan, registers: Array, lanes: Array) -> Demand:
    """What `registers` of the result of `plan` depend on, in `lanes`."""
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
            along = np.isin(ALL_LANES, distinct_values(step.index.array()[..., along]))
        found = origins(step, operands, plan.values[made])
        if found is not None and not mine.all():
            found = [origin[mine] for origin in found]
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
    """Registers of matrices of native tiles that are transposed in blocks, and what they need."""

    registers: Array
    """[blocks, needed registers of each]: of the operand."""
    lanes: Array
    """Of the operand."""
    block: Array
    """Per register of the result, which of the blocks it is in."""
    place: Array
    """Per register of the result, where in its block."""
    row: Array
    """Which needed row of a block each lane of the result is."""


def blocks(operand: Value, registers: Array, lanes: Array) -> Blocks:
    """What `registers` of `operand`, transposed, need for `lanes`: rows and lanes change roles."""
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
    first = operands[0]
    match step:
        case GridTake():
            return [step.numbers()]
        case GridSlice():
            boxes = zip(step.offsets, step.sizes, step.strides, strict=True)
            box = tuple(slice(o, o + (n - 1) * s + 1, s) for o, n, s in boxes)
            return [_numbers(first)[box].reshape(-1)]
        case GridTranspose():
            return [_numbers(first).transpose(step.permutation).reshape(-1)]
        case GridBroadcast():
            return [np.broadcast_to(_numbers(first), step.shape).reshape(-1)]
        case GridConcat():
            result: list[Array] = []
            at = 0
            for operand in operands:
                origin = np.full(value.grid, -1)
                extent = operand.grid[step.dim]
                box = (slice(None),) * step.dim + (slice(at, at + extent),)
                origin[box] = _numbers(operand)
                result.append(origin.reshape(-1))
                at += extent
            return result
        case _:
            return None


def _numbers(value: Value) -> Array:
    return np.arange(value.registers).reshape(value.grid)
