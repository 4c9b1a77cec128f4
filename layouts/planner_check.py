"""No plan is accepted before it has moved the numbers of the elements correctly."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pallasite.diagnostics import Unsupported
from pallasite.layouts.move import Laid, Move
from pallasite.layouts.plan import Plan
from pallasite.layouts.planner_execute import UNDEFINED, execute_lanes, lanes_needed
from pallasite.layouts.planner_lines import Array, Line, Lines, distinct_values
from pallasite.layouts.registers import LANES, SUBLANES

ELEMENT = np.int32
"""Numbers an element; half the memory of NumPy's integers is half the time on large blocks."""

_SMALL = 32
"""Destinations of so few registers are checked in every lane."""


def performs(plan: Plan, move: Move, starts: Array) -> bool:
    """Whether `plan` puts every element of `move` where it belongs.

    Large blocks are checked at the first, second and last lane of every segment (`starts`) within
    which the source position is affine; between them nothing can differ but the lanes themselves.
    """
    layout, shape = move.destination
    if sum(math.prod(extents) for _, extents in move.sources) > np.iinfo(ELEMENT).max:
        raise Unsupported("movement-size", f"too many elements to check: {move}")
    lanes = np.arange(LANES)
    if layout.register_count(shape) > _SMALL:
        ends = np.append(starts[1:], LANES) - 1
        lanes = distinct_values([starts, np.minimum(starts + 1, ends), ends])
    expected = expected_elements(move, lanes)
    needed = lanes_needed(plan, lanes)
    sources = [
        source_elements(source, base, needed[number])
        for number, (source, base) in enumerate(zip(move.sources, _bases(move), strict=True))
    ]
    actual = execute_lanes(plan, lanes, sources, needed).reshape(expected.shape)
    return not ((expected != UNDEFINED) & (actual != expected)).any()


def _bases(move: Move) -> list[int]:
    """The number of the first element of each source, when all are numbered consecutively."""
    sizes = [math.prod(shape) for _, shape in move.sources]
    return [sum(sizes[:i]) for i in range(len(sizes))]


def source_elements(source: Laid, base: int, lanes: Array) -> Array:
    """Element numbers held by a laid-out value, [registers..., 8, lanes, elements]."""
    layout, shape = source
    registers = np.arange(layout.register_count(shape))[:, None, None]
    rows = np.arange(layout.native_rows)[None, :, None]
    index, valid = layout.elements(shape, registers, rows, lanes[None, None, :])
    numbers = np.where(valid, base + _linear(index, shape), UNDEFINED).astype(ELEMENT)
    full = np.broadcast_to(numbers, (registers.size, rows.size, lanes.size))
    return _as_registers(full, layout.grid_shape(shape), layout.packing)


def _as_registers(rows: Array, grid: Sequence[int], packing: int) -> Array:
    split = rows.reshape(*grid, SUBLANES, packing, rows.shape[-1])
    return np.moveaxis(split, -2, -1)


def _linear(index: Sequence[Array], shape: Sequence[int]) -> Array:
    number = np.zeros((), np.int64)
    for i, n in zip(index, shape, strict=True):
        number = number * n + i
    return number


def expected_elements(move: Move, lanes: Array) -> Array:
    """The element numbers that the destination must hold, as `source_elements` numbers them."""
    layout, shape = move.destination
    registers = np.arange(layout.register_count(shape))[:, None, None]
    rows = np.arange(layout.native_rows)[None, :, None]
    index, valid = layout.elements(shape, registers, rows, lanes[None, None, :])
    full = (registers.size, rows.size, lanes.size)
    valid = np.broadcast_to(valid, full)
    # Slope 0: every lane stands for itself.
    lines = Lines(lanes, valid)
    pulled = [Line(np.where(valid, i, 0), 0) for i in index]
    for step in reversed(move.steps):
        pulled = step.pull(lines, pulled)
    places = [np.broadcast_to(line.base, full) for line in pulled]
    numbers = np.zeros(full, np.int64)
    starts = np.cumsum([0, *(s[move.concat_dim] if s else 1 for _, s in move.sources)])
    for number, ((_, extents), base) in enumerate(zip(move.sources, _bases(move), strict=True)):
        if len(move.sources) == 1:
            numbers = base + np.broadcast_to(_linear(places, extents), full)
            break
        along = places[move.concat_dim] - starts[number]
        here = (along >= 0) & (along < extents[move.concat_dim])
        local = [*places[: move.concat_dim], along, *places[move.concat_dim + 1 :]]
        numbers = np.where(here, base + _linear(local, extents), numbers)
    numbers = np.where(valid, numbers, UNDEFINED).astype(ELEMENT)
    return _as_registers(numbers, (registers.size,), layout.packing)
