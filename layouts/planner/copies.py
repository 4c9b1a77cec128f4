"""Extends the plan of one copy of a movement to all copies (`batch.py` finds the copies).

The registers of the sources are brought into the order (copies, grid of one copy), the steps of
the plan operate on all copies at once, and the registers of the result are brought back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pallasite.layouts.move import Shape
from pallasite.layouts.plan import (
    GatherLanes,
    GatherSublanes,
    GridBroadcast,
    GridConcat,
    GridReshape,
    GridSlice,
    GridTake,
    GridTranspose,
    KeepElements,
    Plan,
    Select,
    Step,
    Value,
)
from pallasite.layouts.planner.batch import Batch, place_in_grid
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.fields import Field
from pallasite.layouts.planner.lines import Array
from pallasite.layouts.planner.program import Program


def plan_of_copies(found: Batch, plan: Plan, costs: Costs) -> Plan | None:
    """The plan of all copies from `plan`, that of one copy.

    None if an index register or mask of a step cannot be repeated for the copies.
    """
    if not all(f.is_repeatable for step in plan.steps for f in _fields(step)):
        return None
    laid = found.move.sources
    grids = [layout.grid_shape(shape) for layout, shape in laid]
    program = Program(
        [Value(g, la.packing) for g, (la, _) in zip(grids, laid, strict=True)],
        found.move.bits, costs,
    )  # fmt: skip
    values = [_gathered(found, program, number) for number in range(len(laid))]
    for number, step in enumerate(plan.steps, plan.sources):
        value = plan.values[number]
        operands = tuple(values[o] for o in step.operands)
        first = plan.values[step.operands[0]]
        wide = replace(value, grid=(found.copies, *value.grid))
        values.append(program.add(_on_copies(step, operands, first, found.copies), wide))
    result = _scattered(found, program, values[plan.result])
    return program.plan(result, plan.how)


def _gathered(found: Batch, program: Program, number: int) -> int:
    """Source `number` with its grid rearranged to (copies, *grid of one copy)."""
    layout, shape = found.move.sources[number]
    places = [place_in_grid(layout, len(shape), found.sources[number][a.dim]) for a in found.axes]
    value, grid = number, layout.grid_shape(shape)
    if _in_blocks(found):
        counts = {p: (a.places[1], a.first) for p, a in zip(places, found.axes, strict=True)}
        table, _ = _table(found, grid, places, counts)
        value = program.take(program.flat(value), table.reshape(-1))
        core = found.core.sources[number]
        return program.reshape(value, (found.copies, *core[0].grid_shape(core[1])))
    sizes, offsets = list(grid), [0] * len(grid)
    for axis, place in zip(found.axes, places, strict=True):
        sizes[place], offsets[place] = axis.copies, axis.first
    if tuple(sizes) != grid:
        box = GridSlice((value,), tuple(offsets), tuple(sizes), (1,) * len(sizes))
        value = program.add(box, replace(program.values[value], grid=tuple(sizes)))
    order = [*places, *(d for d in range(len(sizes)) if d not in places)]
    value = _transposed(program, value, order)
    core = found.core.sources[number]
    return program.reshape(value, (found.copies, *core[0].grid_shape(core[1])))


def _scattered(found: Batch, program: Program, value: int) -> int:
    """The grid of the destination from a value whose grid is (copies, *grid of one copy)."""
    layout, shape = found.move.destination
    grid = layout.grid_shape(shape)
    places = [place_in_grid(layout, len(shape), a.dim) for a in found.axes]
    if _in_blocks(found):
        counts = {p: (a.places[0], 0) for p, a in zip(places, found.axes, strict=True)}
        table, count = _table(found, grid, places, counts)
        back = np.full(count, -1)
        back[table[table >= 0]] = np.nonzero(table.reshape(-1) >= 0)[0]
        return program.reshape(program.take(program.flat(value), back), grid)
    order = [*places, *(d for d in range(len(grid)) if d not in places)]
    value = program.reshape(value, [grid[d] for d in order])
    return _transposed(program, value, np.argsort(order).tolist())


def _in_blocks(found: Batch) -> bool:
    """Whether a copy occupies several grid positions; then the last copy may lack some."""
    return any(axis.places != (1, 1) for axis in found.axes)


def _table(
    found: Batch, grid: Shape, places: Sequence[int], counts: dict[int, tuple[int, int]]
) -> tuple[Array, int]:
    """Register numbers of `grid` by copy and position within it, -1 where there is none.

    `counts` maps each of the grid dimensions `places` (in the order of the axes) to (positions that
    one copy occupies, positions before the first copy). The second result is the number of
    registers.
    """
    numbers = np.arange(math.prod(grid)).reshape(grid)
    split: list[int] = []
    outer: list[int] = []
    for d in range(len(grid)):
        if d not in counts:
            split.append(numbers.shape[d])
            continue
        each, first = counts[d]
        copies = found.axes[places.index(d)].copies
        numbers = numbers.take(range(first, min(first + copies * each, grid[d])), d)
        lacking = [(0, 0)] * len(grid)
        lacking[d] = (0, copies * each - numbers.shape[d])
        numbers = np.pad(numbers, lacking, constant_values=-1)
        outer.append(len(split))
        split += [copies, each]
    by_place = dict(zip(sorted(places), outer, strict=True))
    order = [by_place[p] for p in places]
    order += [d for d in range(len(split)) if d not in order]
    return numbers.reshape(split).transpose(order), math.prod(grid)


def _fields(step: Step) -> tuple[Field, ...]:
    match step:
        case GatherLanes() | GatherSublanes():
            return (step.index,)
        case KeepElements():
            return (step.mask,)
        case Select():
            return () if step.mask.field is None else (step.mask.field,)
        case _:
            return ()


def _transposed(program: Program, value: int, order: Sequence[int]) -> int:
    if list(order) == sorted(order):
        return value
    grid = program.values[value].grid
    shape = tuple(grid[d] for d in order)
    step = GridTranspose((value,), tuple(order))
    return program.add(step, replace(program.values[value], grid=shape))


def _on_copies(step: Step, operands: tuple[int, ...], first: Value, copies: int) -> Step:
    """`step` on grids with one more leading dimension."""
    match step:
        case GridReshape() | GridBroadcast():
            return replace(step, operands=operands, shape=(copies, *step.shape))
        case GridSlice():
            return GridSlice(
                operands, (0, *step.offsets), (copies, *step.sizes), (1, *step.strides)
            )
        case GridTranspose():
            return GridTranspose(operands, (0, *(d + 1 for d in step.permutation)))
        case GridConcat():
            return GridConcat(operands, step.dim + 1)
        case GridTake():
            table = step.numbers()
            every = table + np.arange(copies)[:, None] * first.registers
            numbers = np.where(table < 0, -1, every)
            return GridTake.of(operands[0], numbers, (copies, *step.shape))
        case GatherLanes() | GatherSublanes():
            return replace(step, operands=operands, index=step.index.repeated(copies))
        case Select() if step.mask.field is not None:
            mask = replace(step.mask, field=step.mask.field.repeated(copies))
            return replace(step, operands=operands, mask=mask)
        case _:
            return step.on(operands)
