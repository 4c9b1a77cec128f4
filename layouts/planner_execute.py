"""Plans executed on element numbers: the check that every plan passes before it is accepted.

Values are arrays [registers..., 8, lanes, elements] of element numbers; UNDEFINED marks what no
one may read, ZERO bits that a shift or a mask cleared. Only the lanes that the checked result
depends on need to be carried: each value has its own list of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pallasite.layouts.plan import (
    Elements,
    GatherLanes,
    GatherSublanes,
    GridBroadcast,
    GridConcat,
    GridReshape,
    GridSlice,
    GridTake,
    GridTranspose,
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
from pallasite.layouts.planner_lines import Array, distinct_values
from pallasite.layouts.registers import LANES, SUBLANES

UNDEFINED = -1
ZERO = -2
ALL = np.arange(LANES)


def execute(plan: Plan, arrays: Sequence[Array]) -> Array:
    """Runs `plan` on whole grids of element numbers, shaped as the sources' vector types."""
    sources = [
        np.asarray(a).reshape(*v.grid, SUBLANES, LANES, v.elements)
        for a, v in zip(arrays, plan.values, strict=False)
    ]
    result = _run(plan, sources, [ALL] * len(plan.values))
    packed = plan.values[plan.result].elements > 1
    return result if packed else result[..., 0]


def execute_lanes(plan: Plan, lanes: Array, sources: Sequence[Array], needed: list[Array]) -> Array:
    """The lanes `lanes` of the result; `needed` is `lanes_needed(plan, lanes)`."""
    return _run(plan, list(sources), needed)


def lanes_needed(plan: Plan, lanes: Array) -> list[Array]:
    """Which lanes of every value the lanes `lanes` of the result depend on, ascending."""
    wanted = [np.zeros(LANES, np.bool_) for _ in plan.values]
    wanted[plan.result][lanes] = True
    for number in range(len(plan.steps) - 1, -1, -1):
        step, mine = plan.steps[number], wanted[plan.sources + number]
        if isinstance(step, RotateLanes):
            mine = np.roll(mine, -step.amount)
        elif isinstance(step, GatherLanes):
            used = distinct_values(step.index.array()[..., mine])
            mine = np.isin(ALL, used)
        elif isinstance(step, TransposeBlocks):
            mine = np.ones(LANES, np.bool_) if mine.any() else mine
        for operand in step.operands:
            wanted[operand] |= mine
    return [np.nonzero(w)[0] for w in wanted]


def _run(plan: Plan, sources: list[Array], lanes: list[Array]) -> Array:
    values = dict(enumerate(sources))
    last = {o: number for number, step in enumerate(plan.steps) for o in step.operands}
    for number, step in enumerate(plan.steps):
        operands = [values[o] for o in step.operands]
        before = [lanes[o] for o in step.operands]
        made = plan.sources + number
        values[made] = _step(step, plan.values[made], operands, before, lanes[made])
        # Memory that is used again is several times faster than memory that is new.
        for operand in {*step.operands}:
            if last[operand] == number and operand != plan.result:
                del values[operand]
    return values[plan.result]


def _at(have: Array, want: Array) -> Array:
    return np.searchsorted(have, want)


def _keep(x: Array, have: Array, want: Array) -> Array:
    """The lanes `want` of a value that carries the lanes `have`."""
    return x if have.size == want.size else x[..., _at(have, want), :]


def _step(
    step: Step, value: Value, operands: list[Array], before: list[Array], lanes: Array
) -> Array:
    if isinstance(step, RotateLanes):
        return operands[0][..., _at(before[0], (lanes - step.amount) % LANES), :]
    if isinstance(step, GatherLanes):
        index = _at(before[0], step.index.array()[..., lanes])
        return _gather(operands[0], index, -2)
    if isinstance(step, TransposeBlocks):
        return _transpose_blocks(operands[0], value)[..., lanes, :]
    # Everything else keeps lanes where they are. Registers first: few may be wanted of many.
    if isinstance(step, GridTake):
        table = np.array(step.indices)
        taken = _keep(operands[0].reshape(-1, *operands[0].shape[-3:])[table], before[0], lanes)
        if (table < 0).any():
            taken[table < 0] = UNDEFINED
        return taken.reshape(*step.shape, *taken.shape[1:])
    if isinstance(step, GridSlice):
        boxes = zip(step.offsets, step.sizes, step.strides, strict=True)
        box = tuple(slice(o, o + (n - 1) * s + 1, s) for o, n, s in boxes)
        return _keep(operands[0][box], before[0], lanes)
    operands = [_keep(a, b, lanes) for a, b in zip(operands, before, strict=True)]
    first = operands[0]
    inner = first.shape[-3:]
    grid = len(first.shape) - 3
    match step:
        case Words() | Elements():
            return first
        case GridReshape():
            return first.reshape(*step.shape, *inner)
        case GridTranspose():
            return first.transpose(*step.permutation, *range(grid, grid + 3))
        case GridBroadcast():
            return np.broadcast_to(first, (*step.shape, *inner))
        case GridConcat():
            return np.concatenate(operands, step.dim)
        case SublaneShuffle():
            shuffled = np.empty_like(first)
            for sublane, row in enumerate(step.pattern):
                which, row = divmod(row, SUBLANES)
                shuffled[..., sublane, :, :] = operands[which][..., row, :, :]
            return shuffled
        case Select():
            return np.where(step.mask.array()[..., lanes, None], first, operands[1])
        case GatherSublanes():
            return _gather(first, step.index.array()[..., lanes], -3)
        case ShiftLeft() | ShiftRight():
            result = np.full_like(first, ZERO)
            if isinstance(step, ShiftLeft):
                result[..., step.amount :] = first[..., : -step.amount]
            else:
                result[..., : -step.amount] = first[..., step.amount :]
            return result
        case KeepElements():
            kept = step.mask.array()[..., lanes, None] >> np.arange(first.shape[-1]) * step.bits
            return np.where(kept & 1, first, ZERO)
        case Or():
            second = operands[1]
            both = np.where(first == second, first, UNDEFINED)
            return np.where(first == ZERO, second, np.where(second == ZERO, first, both))
        case Unpack():
            return _unpack(first, step)
        case Pack():
            stacked = np.stack(operands, -1)[..., 0, :]
            if step.format == "interleaved":
                return stacked
            rows = np.moveaxis(stacked, -1, -3)
            rows = rows.reshape(*rows.shape[:-3], SUBLANES, step.elements, rows.shape[-1])
            return np.moveaxis(rows, -2, -1)
        case _:
            raise TypeError(f"no meaning for {type(step).__name__}")


def _gather(x: Array, index: Array, axis: int) -> Array:
    grid = x.shape[:-3]
    flat = x.reshape(-1, *x.shape[-3:])
    index = np.broadcast_to(index[..., None], (len(flat), *index.shape[1:], x.shape[-1]))
    return np.take_along_axis(flat, index, axis).reshape(*grid, *index.shape[1:])


def _unpack(x: Array, step: Unpack) -> Array:
    if step.format == "interleaved":
        return x[..., step.index : step.index + 1]
    rows = np.moveaxis(x, -1, -2)
    rows = rows.reshape(*x.shape[:-3], -1, x.shape[-2])
    return rows[..., step.index * SUBLANES : (step.index + 1) * SUBLANES, :, None]


def _transpose_blocks(x: Array, value: Value) -> Array:
    """The matrix of native tiles, transposed block by block, which transposes the whole matrix."""
    *lead, r, c, sublanes, lanes, elements = x.shape
    matrix = np.moveaxis(x, -1, -2).reshape(*lead, r, c, sublanes * elements, lanes)
    matrix = np.swapaxes(matrix, -3, -2).reshape(*lead, r * sublanes * elements, c * lanes)
    turned = np.swapaxes(matrix, -1, -2)
    rows, columns = value.grid[-2:]
    turned = turned.reshape(*lead, rows, sublanes, elements, columns, LANES)
    return np.moveaxis(turned, (-2, -4, -1, -3), (-4, -3, -2, -1))
