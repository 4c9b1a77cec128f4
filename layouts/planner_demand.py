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
from pallasite.layouts.registers import LANES

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
    wanted[plan.result][registers] = True
    came: list[list[Array] | None] = [None] * len(plan.steps)
    for number in range(len(plan.steps) - 1, -1, -1):
        step, made = plan.steps[number], plan.sources + number
        operands = [plan.values[o] for o in step.operands]
        found = origins(step, operands, plan.values[made])
        if found is None:
            for operand in step.operands:
                wanted[operand] |= wanted[made]
            continue
        mine = wanted[made]
        came[number] = picked = [origin if mine.all() else origin[mine] for origin in found]
        for operand, origin in zip(step.operands, picked, strict=True):
            wanted[operand][origin[origin >= 0]] = True
            if isinstance(step, TransposeBlocks):
                _whole_blocks(wanted[operand], plan.values[operand])
    return Demand([np.nonzero(w)[0] for w in wanted], _lanes(plan, lanes), came)


def _lanes(plan: Plan, lanes: Array) -> list[Array]:
    wanted = [np.zeros(LANES, np.bool_) for _ in plan.values]
    wanted[plan.result][lanes] = True
    for number in range(len(plan.steps) - 1, -1, -1):
        step, mine = plan.steps[number], wanted[plan.sources + number]
        if isinstance(step, RotateLanes):
            mine = np.roll(mine, -step.amount)
        elif isinstance(step, GatherLanes):
            used = distinct_values(step.index.array()[..., mine])
            mine = np.isin(ALL_LANES, used)
        elif isinstance(step, TransposeBlocks):
            mine = np.ones(LANES, np.bool_) if mine.any() else mine
        for operand in step.operands:
            wanted[operand] |= mine
    return [np.nonzero(w)[0] for w in wanted]


def origins(step: Step, operands: Sequence[Value], value: Value) -> list[Array] | None:
    """Per operand, the register that each register of the result comes from, -1 for none.

    None if register i of the result comes from register i of every operand.
    """
    first = operands[0]
    match step:
        case GridTake():
            return [np.array(step.indices)]
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
        case TransposeBlocks():
            return [_block_origins(first, value)]
        case _:
            return None


def _numbers(value: Value) -> Array:
    return np.arange(value.registers).reshape(value.grid)


def _block_origins(operand: Value, value: Value) -> Array:
    """For a register of transposed blocks, the register of its block in the same place."""
    side = 16 // operand.elements
    *lead, rows, columns = operand.grid
    blocks = _numbers(operand).reshape(*lead, rows // side, side, columns)
    return np.moveaxis(blocks, -1, -3).swapaxes(-1, -2).reshape(value.registers)


def _whole_blocks(wanted: Array, operand: Value) -> None:
    """Extends `wanted` to the blocks that are transposed together."""
    side = 16 // operand.elements
    *lead, rows, columns = operand.grid
    blocks = wanted.reshape(*lead, rows // side, side, columns)
    blocks |= blocks.any(-2, keepdims=True)
