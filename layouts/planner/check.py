"""Checks that a plan moves the numbers of the elements correctly, before it is accepted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pallasite.diagnostics import Unsupported
from pallasite.layouts.move import Laid, Move
from pallasite.layouts.plan import Plan
from pallasite.layouts.planner.demand import ALL_LANES, demand
from pallasite.layouts.planner.execute import UNDEFINED, execute_part
from pallasite.layouts.planner.lines import Array, Line, Lines, distinct_values
from pallasite.layouts.planner.points import Points, came_from
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.layouts.vector_layout import VectorLayout

ELEMENT = np.int32
"""The type of element numbers: half as wide as NumPy's default, which halves the time on large
blocks."""

_SMALL, _SMALL_SOURCES = 32, 512
"""Destinations of so few registers, of sources of so few, are checked in every lane."""
_MUCH_MORE = 16
"""Of so many times as many elements as the destination has, few are wanted."""

_SOME_LANES = np.array([0, 1, 8, 16, 32, 50, 63, 64, 101, 126, 127])
_SOME_REGISTERS = 128
"""Above that number of registers, only some lanes are checked: the parts that the plan is put
together of were checked in all."""


def performs(plan: Plan, move: Move, starts: Array, registers: Array | None = None) -> bool:
    """Whether `plan` puts every element of `move` where it belongs.

    Large blocks are checked at the first, second and last lane of every segment (`starts`), within
    which source positions are affine. `registers` restricts the check to some registers of the
    destination.
    """
    layout, shape = move.destination
    if sum(math.prod(extents) for _, extents in move.sources) > np.iinfo(ELEMENT).max:
        raise Unsupported("movement-size", f"too many elements to check: {move}")
    lanes = ALL_LANES
    read = sum(la.register_count(extents) for la, extents in move.sources)
    if layout.register_count(shape) > _SMALL or read > _SMALL_SOURCES:
        ends = np.append(starts[1:], LANES) - 1
        lanes = distinct_values([starts, np.minimum(starts + 1, ends), ends])
    if registers is None:
        if _reads_much_more(plan, move, lanes.size):
            return performs_at(plan, move, np.arange(math.prod(shape)))
        registers = np.arange(layout.register_count(shape))
    expected = expected_elements(move, registers, lanes)
    part = demand(plan, registers, lanes)
    sources = [
        source_elements(source, base, part.registers[number], part.lanes[number])
        for number, (source, base) in enumerate(zip(move.sources, _bases(move), strict=True))
    ]
    actual = execute_part(plan, part, sources)
    return not ((expected != UNDEFINED) & (actual != expected)).any()


def _reads_much_more(plan: Plan, move: Move, lanes: int) -> bool:
    """Whether it is cheaper to follow every destination element back to the sources than to carry
    these lanes forward.
    """
    layout, shape = move.destination
    read = sum(value.registers * value.elements for value in plan.values[: plan.sources])
    named = layout.row is not None and layout.column is not None
    return named and SUBLANES * lanes * read > _MUCH_MORE * math.prod(shape)


def performs_at(plan: Plan, move: Move, elements: Array) -> bool:
    """Whether `plan` moves the given `elements` of the destination (row-major numbers) correctly.

    For plans that are so regular that a few elements stand for all.
    """
    layout, shape = move.destination
    index: list[Array] = []
    left = elements
    for extent in reversed(shape):
        rest = left // extent
        index.insert(0, left - rest * extent)
        left = rest
    register, row, lane = (np.broadcast_to(a, elements.shape) for a in layout.locate(shape, index))
    rows, lanes = _copies(layout)
    times = (rows.size, elements.size)
    register, row, lane = (
        np.broadcast_to(a, times).reshape(-1)
        for a in (register, row + rows[:, None], lane + lanes[:, None])
    )
    asked = Points.of(register, row // layout.packing, lane, row % layout.packing)
    expected = np.broadcast_to(_expected(move, index, elements.shape), times).reshape(-1)
    found = np.zeros(register.size, np.bool_)
    bases = _bases(move)
    for source, points in came_from(plan, asked):
        if source < 0:
            return False
        laid, extents = move.sources[source]
        register, sublane, lane = points.place
        row = sublane * laid.packing + points.element
        place, valid = laid.elements(extents, register, row, lane)
        number = points.number
        right = bases[source] + _linear(place, extents) == expected[number]
        if not (right & valid).all():
            return False
        found[number] = True
    return bool(found.all())


def _copies(layout: VectorLayout) -> tuple[Array, Array]:
    """(rows, lanes) offsets of copies of an element along replicated axes, itself included."""
    rows = [0] if layout.row is not None else [0, 1 % layout.tile_rows, layout.tile_rows - 1]
    lanes = [0]
    if layout.column is None:
        last = layout.native_rows - layout.tile_rows
        rows = [tile + row for tile in (0, last) for row in rows]
        lanes = [0, 1, LANES // 2, LANES - 1]
    places = np.array([(row, lane) for row in sorted({*rows}) for lane in lanes])
    return places[:, 0], places[:, 1]


def corner_elements(move: Move) -> Array:
    """Row-major numbers of elements in `corners` of the destination, in some lanes."""
    layout, shape = move.destination
    registers = corners(layout.grid_shape(shape))[:, None, None]
    rows = layout.live_rows(shape)[None, :, None]
    lanes = _SOME_LANES[:: 1 + registers.size // _SOME_REGISTERS]
    index, valid = layout.elements(shape, registers, rows, lanes)
    numbers = np.where(valid, _linear(index, shape), -1)
    return distinct_values(numbers[numbers >= 0])


def corners(grid: Sequence[int]) -> Array:
    """The first two, the middle and the last two registers along every dimension of `grid`.

    Enough to find mistakes in assembling a plan from parts that are correct.
    """
    places = [
        distinct_values(np.array([0, min(1, n - 1), n // 2, max(n - 2, 0), n - 1])) for n in grid
    ]
    return np.arange(math.prod(grid)).reshape(tuple(grid))[np.ix_(*places)].reshape(-1)


def _bases(move: Move) -> list[int]:
    """The number of the first element of each source if all are numbered consecutively."""
    sizes = [math.prod(shape) for _, shape in move.sources]
    return [sum(sizes[:i]) for i in range(len(sizes))]


def source_elements(source: Laid, base: int, registers: Array, lanes: Array) -> Array:
    """The element numbers in registers of a laid-out value, [registers, 8, lanes, elements]."""
    layout, shape = source
    rows = np.arange(layout.native_rows, dtype=ELEMENT)[None, :, None]
    places = registers.astype(ELEMENT)[:, None, None], rows, lanes.astype(ELEMENT)[None, None, :]
    index, valid = layout.elements(shape, *places)
    numbers = np.where(valid, base + _linear(index, shape), UNDEFINED).astype(ELEMENT, copy=False)
    full = np.broadcast_to(numbers, (registers.size, rows.size, lanes.size))
    return _as_registers(full, layout.packing)


def _as_registers(rows: Array, packing: int) -> Array:
    split = rows.reshape(len(rows), SUBLANES, packing, rows.shape[-1])
    return np.moveaxis(split, -2, -1)


def _linear(index: Sequence[Array], shape: Sequence[int]) -> Array:
    number = np.zeros((), ELEMENT)
    for i, n in zip(index, shape, strict=True):
        number = number * n + i
    return number


def expected_elements(move: Move, registers: Array, lanes: Array) -> Array:
    """Element numbers that `registers` of the destination must hold, shaped as
    `source_elements`."""
    layout, shape = move.destination
    # Numbers of elements before they are broadcast, and all that lead to them.
    largest = max(math.prod(shape) for shape in (*(step.shape for step in move.steps), shape))
    integer = ELEMENT if largest + layout.block[1] <= np.iinfo(ELEMENT).max else np.int64
    live = layout.live_rows(shape)
    rows = live.astype(integer)[None, :, None]
    places = registers.astype(integer)[:, None, None], rows, lanes.astype(integer)[None, None, :]
    index, valid = layout.elements(shape, *places)
    full = (registers.size, rows.size, lanes.size)
    valid = np.broadcast_to(valid, full)
    numbers = _expected(move, [np.where(valid, i, 0) for i in index], full)
    numbers = np.where(valid, numbers, UNDEFINED).astype(ELEMENT, copy=False)
    every = np.full((registers.size, layout.native_rows, lanes.size), UNDEFINED, ELEMENT)
    every[:, live] = numbers
    return _as_registers(every, layout.packing)


def _named(source: Laid, index: Sequence[Array]) -> list[Array]:
    """The index of the elements that represent those along a replicated axis."""
    layout, _ = source
    replicated = [layout.sublane_dim] if layout.row is None else []
    replicated += [layout.lane_dim] if layout.column is None else []
    return [i * 0 if d in replicated else i for d, i in enumerate(index)]


def _expected(move: Move, index: Sequence[Array], shape: Sequence[int]) -> Array:
    """The element numbers at an index of the destination; the index arrays broadcast to `shape`."""
    # Slope 0: every element stands for itself.
    integer = np.result_type(ELEMENT, *index)
    lines = Lines(np.zeros(shape[-1], integer), np.ones((1,) * len(shape), np.bool_))
    pulled = [Line(np.asarray(i), 0) for i in index]
    for step in reversed(move.steps):
        pulled = step.pull(lines, pulled)
    places = [line.base for line in pulled]
    starts = np.cumsum([0, *(s[move.concat_dim] if s else 1 for _, s in move.sources)])
    numbers = np.zeros((), integer)
    for number, (source, base) in enumerate(zip(move.sources, _bases(move), strict=True)):
        extents = source[1]
        if len(move.sources) == 1:
            return base + _linear(_named(source, places), extents)
        along = places[move.concat_dim] - int(starts[number])
        here = (along >= 0) & (along < extents[move.concat_dim])
        local = [*places[: move.concat_dim], along, *places[move.concat_dim + 1 :]]
        mine = base + _linear(_named(source, local), extents)
        numbers = np.where(here, mine, numbers)
    return numbers
