"""Executes plans on element numbers, to check them before they are accepted.

Values are arrays [registers, 8, lanes, elements] of element numbers; UNDEFINED marks what must not
be read, ZERO bits that a shift or a mask cleared. Only what the checked part of the result depends
on is computed: each value has its own list of registers and of lanes (`demand.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pallasite.layouts.plan import (
    Elements,
    GatherLanes,
    GatherSublanes,
    GridReshape,
    Interleave,
    KeepElements,
    Or,
    Pack,
    Plan,
    RotateLanes,
    Select,
    ShiftLeft,
    ShiftRight,
    Step,
    SublaneShuffle,
    TransposeBlocks,
    Unpack,
    Value,
    Words,
)
from pallasite.layouts.planner.demand import ALL_LANES, Demand, blocks, demand
from pallasite.layouts.planner.fields import Field, Mask
from pallasite.layouts.planner.lines import Array
from pallasite.layouts.registers import LANES, SUBLANES

UNDEFINED = -1
ZERO = -2


def execute(plan: Plan, arrays: Sequence[Array]) -> Array:
    """Runs `plan` on whole grids of element numbers, shaped as the sources' vector types."""
    result = plan.values[plan.result]
    whole = demand(plan, np.arange(result.registers), ALL_LANES)
    sources = [
        np.asarray(a).reshape(v.registers, SUBLANES, LANES, v.elements)[registers][:, :, lanes]
        for a, v, registers, lanes in zip(
            arrays, plan.values, whole.registers, whole.lanes, strict=False
        )
    ]
    made = execute_part(plan, whole, sources)
    made = made.reshape(*result.grid, SUBLANES, LANES, result.elements)
    return made if result.elements > 1 else made[..., 0]


def execute_part(plan: Plan, part: Demand, sources: Sequence[Array]) -> Array:
    """The part of the result for which `part` was computed: [registers, 8, lanes, elements].

    `sources` holds the same for what `part` needs of the sources.
    """
    values = dict(enumerate(sources))
    last = {o: number for number, step in enumerate(plan.steps) for o in step.operands}
    for number, step in enumerate(plan.steps):
        made = plan.sources + number
        values[made] = _step(step, number, plan, part, [values[o] for o in step.operands])
        # Memory that is used again is several times faster than memory that is new.
        for operand in {*step.operands}:
            if last[operand] == number and operand != plan.result:
                del values[operand]
    return values[plan.result]


def _at(have: Array, want: Array) -> Array:
    return np.searchsorted(have, want)


def _keep(x: Array, have: Array, want: Array, axis: int) -> Array:
    """The slices of `x`, which has the registers or lanes `have`, that are in `want`."""
    return x if have.size == want.size else x.take(_at(have, want), axis)


def _of(what: Field | Mask, registers: Array, lanes: Array) -> Array:
    """`what`, given for all registers or for each, as [registers or nothing, 8, lanes]."""
    pattern = what.array()
    if pattern.ndim == 3 and len(pattern) > 1:
        numbers = pattern_numbers(what)
        pattern = pattern[registers if numbers is None else numbers[registers]]
    return pattern if lanes.size == LANES else pattern[..., lanes]


def pattern_numbers(what: Field | Mask) -> Array | None:
    """The number of the pattern of each register of the grid, if a table gives them."""
    field = what.field if isinstance(what, Mask) else what
    return None if field is None else field.numbers()


def _step(step: Step, number: int, plan: Plan, part: Demand, operands: list[Array]) -> Array:
    made = plan.sources + number
    registers, lanes = part.registers[made], part.lanes[made]
    before = [part.lanes[o] for o in step.operands]
    have = [part.registers[o] for o in step.operands]
    origins = part.origins[number]
    if isinstance(step, TransposeBlocks):
        operand = plan.values[step.operands[0]]
        return _transpose_blocks(operands[0], have[0], before[0], operand, registers, lanes)
    if origins is not None:
        return _renamed(operands, have, before, origins, lanes)
    # Everything else works on equal registers.
    operands = [_keep(a, r, registers, 0) for a, r in zip(operands, have, strict=True)]
    if isinstance(step, RotateLanes):
        return operands[0].take(_at(before[0], (lanes - step.amount) % LANES), -2)
    if isinstance(step, GatherLanes):
        index = _at(before[0], _of(step.index, registers, lanes))
        return _gather(operands[0], index, -2)
    # And keeps lanes where they are.
    operands = [_keep(a, b, lanes, -2) for a, b in zip(operands, before, strict=True)]
    if isinstance(step, Words | Elements | GridReshape):
        return operands[0]
    if isinstance(step, Select | GatherSublanes | KeepElements):
        return _by_pattern(step, operands, registers, lanes)
    return _by_words(step, operands)


def _by_pattern(
    step: Select | GatherSublanes | KeepElements,
    operands: list[Array],
    registers: Array,
    lanes: Array,
) -> Array:
    """Executes steps with a mask or an index, whose effect differs between words."""
    first = operands[0]
    if isinstance(step, GatherSublanes):
        return _gather(first, _of(step.index, registers, lanes), -3)
    mask = _of(step.mask, registers, lanes)[..., None]
    if isinstance(step, Select):
        return np.where(mask, first, operands[1])
    kept = mask >> np.arange(first.shape[-1]) * step.bits
    return np.where(kept & 1, first, ZERO)


def _by_words(step: Step, operands: list[Array]) -> Array:
    """Executes steps whose effect is the same in all registers and lanes."""
    first = operands[0]
    match step:
        case SublaneShuffle():
            return _shuffle(operands, step.pattern)
        case ShiftLeft() | ShiftRight():
            result = np.full_like(first, ZERO)
            if isinstance(step, ShiftLeft):
                result[..., step.amount :] = first[..., : -step.amount]
            else:
                result[..., : -step.amount] = first[..., step.amount :]
            return result
        case Or():
            return _either(first, operands[1])
        case Interleave():
            return _interleave(first, operands[1], step)
        case Unpack():
            return _unpack(first, step)
        case Pack():
            return _pack(operands, step)
        case _:
            raise TypeError(f"no meaning for {type(step).__name__}")


def _shuffle(operands: list[Array], pattern: tuple[int, ...]) -> Array:
    shuffled = np.empty_like(operands[0])
    for sublane, row in enumerate(pattern):
        which, row = divmod(row, SUBLANES)
        shuffled[..., sublane, :, :] = operands[which][..., row, :, :]
    return shuffled


def _either(first: Array, second: Array) -> Array:
    cleared = first == ZERO
    made = np.where(cleared, second, first)
    both = ~cleared & (second != ZERO) & (first != second)
    if both.any():
        made[both] = UNDEFINED
    return made


def _interleave(first: Array, second: Array, step: Interleave) -> Array:
    # The number of groups is not left to be found: of some steps nothing is wanted.
    groups = (*first.shape[:-1], first.shape[-1] // (2 * step.width), 2, step.width)
    taken = [x.reshape(groups)[..., int(step.odd), :] for x in (first, second)]
    return np.stack(taken, -2).reshape(first.shape)


def _pack(operands: list[Array], step: Pack) -> Array:
    stacked = np.stack(operands, -1)[..., 0, :]
    if step.format == "interleaved":
        return stacked
    rows = np.moveaxis(stacked, -1, -3)
    rows = rows.reshape(*rows.shape[:-3], SUBLANES, step.elements, rows.shape[-1])
    return np.moveaxis(rows, -2, -1)


def _renamed(
    operands: list[Array],
    have: list[Array],
    before: list[Array],
    origins: list[Array],
    lanes: Array,
) -> Array:
    """Registers taken from one or several operands; UNDEFINED where there is no origin."""
    result: Array | None = None
    for x, mine, kept, origin in zip(operands, have, before, origins, strict=True):
        there = origin >= 0
        if there.all():
            # Registers first: few may be wanted of many.
            same = origin.size == mine.size and (origin == mine).all()
            taken = x if same else _taken(x, _at(mine, origin))
            return _keep(taken, kept, lanes, -2)
        if result is None:
            result = np.full((origin.size, SUBLANES, lanes.size, x.shape[-1]), UNDEFINED, x.dtype)
        result[there] = _keep(_taken(x, _at(mine, origin[there])), kept, lanes, -2)
    assert result is not None
    return result


def _taken(x: Array, registers: Array) -> Array:
    # `take` is faster, but makes a copy of an array that repeats its elements first.
    return x.take(registers, 0) if x.flags.c_contiguous else x[registers]


def _gather(x: Array, index: Array, axis: int) -> Array:
    """Lanes (axis -2) or sublanes (-3) by `index` [registers or nothing, 8, lanes]."""
    count, rows, lanes, elements = x.shape
    # The elements of a word move together: whole words are taken, many times as fast.
    if axis == -2:
        place = np.arange(rows)[:, None] * lanes + index
    else:
        place = index * lanes + np.arange(lanes)
    if index.ndim == 2:
        taken = x.reshape(count, rows * lanes, elements).take(place.reshape(-1), 1)
    else:
        place = place + np.arange(count)[:, None, None] * (rows * lanes)
        taken = x.reshape(-1, elements).take(place.reshape(-1), 0)
    return taken.reshape(count, *place.shape[-2:], elements)


def _unpack(x: Array, step: Unpack) -> Array:
    if step.format == "interleaved":
        return x[..., step.index : step.index + 1]
    rows = np.moveaxis(x, -1, -2)
    rows = rows.reshape(len(x), SUBLANES * x.shape[-1], x.shape[-2])
    return rows[..., step.index * SUBLANES : (step.index + 1) * SUBLANES, :, None]


def _transpose_blocks(
    x: Array, have: Array, before: Array, operand: Value, registers: Array, lanes: Array
) -> Array:
    """Some `registers` of a `TransposeBlocks` result.

    `x` holds the registers `have` and the lanes `before` of the operand.
    """
    needed = blocks(operand, registers, lanes)
    height = SUBLANES * operand.elements
    tiles = _keep(x.take(_at(have, needed.registers.reshape(-1)), 0), before, needed.lanes, -2)
    count, across = needed.registers.shape
    # No size is left to be found: where nothing is wanted of this step, all are 0.
    matrix = np.swapaxes(tiles, -1, -2).reshape(count, across * height, needed.lanes.size)
    turned = np.swapaxes(matrix.take(needed.row, 1), 1, 2)
    places = _at(needed.lanes, needed.place[:, None] * height + np.arange(height))
    picked = turned[needed.block[:, None], places]
    rows = picked.reshape(len(registers), SUBLANES, operand.elements, lanes.size)
    return np.swapaxes(rows, -1, -2)
