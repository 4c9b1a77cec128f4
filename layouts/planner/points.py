"""Follows single elements of a plan's result back to the sources: the check of large plans.

`execute.py` carries whole registers forward; here the time does not depend on the block's size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pallasite.layouts.plan import (
    RENAMING,
    Elements,
    GatherLanes,
    GatherSublanes,
    GridConcat,
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
from pallasite.layouts.planner.demand import origins_of
from pallasite.layouts.planner.lines import Array
from pallasite.layouts.registers import LANES, SUBLANES

_ELEMENT, _LANE, _SUBLANE, _NUMBER = 0, 5, 12, 15
"""The lowest bits of what one number holds of a point: a word has at most 32 elements, a register 8
x 128 words."""
_FIELDS = {_ELEMENT: 31, _LANE: LANES - 1, _SUBLANE: SUBLANES - 1}


class Points(NamedTuple):
    """Elements in the registers of one value, one entry per point in each array.

    Few arrays, because most steps pick some of the points.
    """

    register: Array
    rest: Array
    """Sublane, lane and element within the word, below the number of the point."""

    @classmethod
    def of(cls, register: Array, sublane: Array, lane: Array, element: Array) -> Points:
        """Points with consecutive numbers."""
        number = np.arange(register.size)
        places = (sublane << _SUBLANE) + (lane << _LANE) + (element << _ELEMENT)
        return cls(register, (number << _NUMBER) + places)

    @classmethod
    def together(cls, points: Sequence[Points]) -> Points:
        """All given points in one object."""
        if len(points) == 1:
            return points[0]
        return cls(*[np.concatenate(fields) for fields in zip(*points, strict=True)])

    @property
    def number(self) -> Array:
        """Which of the points that were asked for each one leads to."""
        return self.rest >> _NUMBER

    @property
    def sublane(self) -> Array:
        """The sublane of each point."""
        return self._field(_SUBLANE)

    @property
    def lane(self) -> Array:
        """The lane of each point."""
        return self._field(_LANE)

    @property
    def element(self) -> Array:
        """The element within the word."""
        return self._field(_ELEMENT)

    def _field(self, at: int) -> Array:
        return self.rest >> at & _FIELDS[at]

    @property
    def place(self) -> tuple[Array, Array, Array]:
        """The arrays (register, sublane, lane)."""
        return self.register, self.sublane, self.lane

    def only(self, which: Array) -> Points:
        """The points for which `which` [points] is true."""
        if which.all():
            return self
        return self.at(which.nonzero()[0])

    def at(self, places: Array) -> Points:
        """The points at some `places` of the arrays."""
        return Points(self.register.take(places), self.rest.take(places))

    def moved(
        self,
        register: Array | None = None,
        sublane: Array | None = None,
        lane: Array | None = None,
        element: Array | None = None,
    ) -> Points:
        """The points with the given arrays replaced."""
        rest = self.rest
        if sublane is None is lane is element:
            return Points(self.register if register is None else register, rest)
        for at, field in ((_SUBLANE, sublane), (_LANE, lane), (_ELEMENT, element)):
            if field is not None:
                rest = rest & ~(_FIELDS[at] << at) | field << at
        return Points(self.register if register is None else register, rest)


_SAME = frozenset({Words, Elements, GridReshape})
"""Steps whose registers are those of the operand."""


def came_from(plan: Plan, asked: Points) -> Iterator[tuple[int, Points]]:
    """Per source, the elements that the points of the result of `plan` come from.

    An element made by `Or` has several origins, all of which are given. Cleared bits have none.
    Points from undefined registers have source -1.
    """
    waiting: dict[int, list[Points]] = {plan.result: [asked]}
    for number in range(len(plan.steps) - 1, -1, -1):
        made = plan.sources + number
        step = plan.steps[number]
        if made not in waiting:
            continue
        points = Points.together(waiting.pop(made))
        if type(step) in _SAME:
            waiting.setdefault(step.operands[0], []).append(points)
            continue
        for operand, before in _back(step, plan, plan.values[made], points):
            if before.register.size:
                waiting.setdefault(operand, []).append(before)
    for source, found in waiting.items():
        yield source, Points.together(found)


def _back(step: Step, plan: Plan, value: Value, points: Points) -> Iterator[tuple[int, Points]]:
    """The points of the operands, by value, that points of `value` come from; -1 is undefined."""
    operands = [plan.values[o] for o in step.operands]
    if type(step) is GridConcat:
        return _of_parts(step, operands, value, points)
    if type(step) in RENAMING:
        renamed = origins_of(step, operands, value, points.register)
        assert renamed is not None
        return _renamed(step, renamed, points)
    if isinstance(step, Unpack | Pack | ShiftLeft | ShiftRight | KeepElements):
        return _within_words(step, points, operands[0].elements)
    if isinstance(step, TransposeBlocks):
        return iter([(step.operands[0], _transposed(operands[0], value, points))])
    return _by_words(step, points)


def _of_parts(
    step: GridConcat, operands: Sequence[Value], value: Value, points: Points
) -> Iterator[tuple[int, Points]]:
    """Points of the operands of a concatenation, of which there may be many."""
    inner = math.prod(value.grid[step.dim + 1 :])
    ends = np.cumsum([operand.grid[step.dim] for operand in operands])
    row = points.register // inner
    outer = row // value.grid[step.dim]
    part = np.searchsorted(ends, row - outer * value.grid[step.dim], side="right")
    ordered = part.argsort(kind="stable")
    counts = np.bincount(part, minlength=len(operands))
    for number, end in enumerate(counts.cumsum().tolist()):
        if not counts[number]:
            continue
        mine = ordered[end - counts[number] : end]
        begin, extent = ends[number] - operands[number].grid[step.dim], operands[number].grid
        some = points.at(mine)
        # From the first register of the operand in this row of the result to that in its own.
        skipped = outer[mine] * (value.grid[step.dim] - extent[step.dim]) + begin
        yield step.operands[number], some.moved(register=some.register - skipped * inner)


def _renamed(step: Step, renamed: Sequence[Array], points: Points) -> Iterator[tuple[int, Points]]:
    """Points of operands under other register numbers; -1 is an undefined register."""
    if len(renamed) == 1 and renamed[0].size and renamed[0].min() >= 0:
        yield step.operands[0], points.moved(register=renamed[0])
        return
    missing = np.ones(points.register.size, np.bool_)
    for operand, register in zip(step.operands, renamed, strict=True):
        there = register >= 0
        if not there.any():
            continue
        if there.all():
            yield operand, points.moved(register=register)
            return
        missing &= ~there
        # Of several operands each gives a few: these are picked out first.
        yield operand, points.only(there).moved(register=register[there])
    if missing.any():
        yield -1, points.only(missing)


def _by_words(step: Step, points: Points) -> Iterator[tuple[int, Points]]:
    """Origins for steps that keep words as they are and move them within registers."""
    first, *_ = step.operands
    match step:
        case SublaneShuffle():
            row = np.array(step.pattern)[points.sublane]
            turned = points.moved(sublane=row % SUBLANES)
            if len(step.operands) == 1:
                yield first, turned
                return
            there = row < SUBLANES
            yield first, turned.only(there)
            yield step.operands[1], turned.only(~there)
        case RotateLanes():
            yield first, points.moved(lane=(points.lane - step.amount) % LANES)
        case Select():
            mask = step.mask.at(*points.place)
            yield first, points.only(mask)
            yield step.operands[1], points.only(~mask)
        case GatherLanes():
            yield first, points.moved(lane=step.index.at(*points.place))
        case GatherSublanes():
            yield first, points.moved(sublane=step.index.at(*points.place))
        case Or():
            yield first, points
            yield step.operands[1], points
        case Interleave():
            which = points.element // step.width % 2
            taken = points.moved(element=points.element + (int(step.odd) - which) * step.width)
            yield first, taken.only(which == 0)
            yield step.operands[1], taken.only(which == 1)
        case _:
            yield first, points


def _within_words(
    step: Unpack | Pack | ShiftLeft | ShiftRight | KeepElements, points: Points, packing: int
) -> Iterator[tuple[int, Points]]:
    """Origins for steps that move elements within or between words; `packing` is the operands'."""
    first, *_ = step.operands
    match step:
        case ShiftLeft() | ShiftRight():
            amount = step.amount if isinstance(step, ShiftLeft) else -step.amount
            element = points.element - amount
            there = (element >= 0) & (element < packing)
            yield first, points.moved(element=element).only(there)
        case KeepElements():
            kept = step.mask.at(*points.place) >> points.element * step.bits & 1
            yield first, points.only(kept > 0)
        case Unpack() if step.format == "interleaved":
            yield first, points.moved(element=np.full_like(points.element, step.index))
        case Unpack():
            sublane, element = np.divmod(step.index * SUBLANES + points.sublane, packing)
            yield first, points.moved(sublane=sublane, element=element)
        case Pack():
            part, sublane = points.element, None
            if step.format == "compressed":
                part, sublane = np.divmod(points.sublane * step.elements + part, SUBLANES)
            alone = points.moved(sublane=sublane, element=np.zeros_like(part))
            for number, operand in enumerate(step.operands):
                yield operand, alone.only(part == number)


def _transposed(operand: Value, value: Value, points: Points) -> Points:
    """Origins of points of a `TransposeBlocks` result."""
    height = SUBLANES * value.elements
    register, sublane, lane = points.place
    rest, across = np.divmod(register, value.grid[-1])
    matrix, down = np.divmod(rest, value.grid[-2])
    column = down * height + sublane * value.elements + points.element
    tile, row = np.divmod(across * LANES + lane, height)
    sublane, element = np.divmod(row, operand.elements)
    register = (matrix * operand.grid[-2] + tile) * operand.grid[-1] + column // LANES
    return points.moved(register, sublane, column % LANES, element)
