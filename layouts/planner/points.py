"""Follows single elements of a plan's result back to the sources: the check of large plans.

`execute.py` carries whole registers forward; here the time does not depend on the block's size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pallasite.layouts.plan import (
    GatherLanes,
    GatherSublanes,
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
)
from pallasite.layouts.planner.demand import origins_of
from pallasite.layouts.planner.lines import Array
from pallasite.layouts.registers import LANES, SUBLANES


class Points(NamedTuple):
    """Elements in the registers of one value, one entry per point in each array.

    The arrays are separate because most steps change only one of them.
    """

    number: Array
    """Which of the points that were asked for each one leads to."""
    register: Array
    sublane: Array
    lane: Array
    element: Array
    """The element within the word."""

    @classmethod
    def of(cls, register: Array, sublane: Array, lane: Array, element: Array) -> Points:
        """Points with consecutive numbers."""
        return cls(np.arange(register.size), register, sublane, lane, element)

    @classmethod
    def together(cls, points: Sequence[Points]) -> Points:
        """All given points in one object."""
        if len(points) == 1:
            return points[0]
        return cls(*[np.concatenate(fields) for fields in zip(*points, strict=True)])

    @property
    def place(self) -> tuple[Array, Array, Array]:
        """The arrays (register, sublane, lane)."""
        return self.register, self.sublane, self.lane

    def only(self, which: Array) -> Points:
        """The points for which `which` [points] is true."""
        if which.all():
            return self
        places = which.nonzero()[0]
        return Points(*[field.take(places) for field in self])

    def moved(
        self,
        register: Array | None = None,
        sublane: Array | None = None,
        lane: Array | None = None,
        element: Array | None = None,
    ) -> Points:
        """The points with the given arrays replaced."""
        return Points(
            self.number,
            self.register if register is None else register,
            self.sublane if sublane is None else sublane,
            self.lane if lane is None else lane,
            self.element if element is None else element,
        )


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
        for operand, before in _back(step, plan, plan.values[made], points):
            if before.number.size:
                waiting.setdefault(operand, []).append(before)
    for source, found in waiting.items():
        yield source, Points.together(found)


def _back(step: Step, plan: Plan, value: Value, points: Points) -> Iterator[tuple[int, Points]]:
    """The points of the operands, by value, that points of `value` come from; -1 is undefined."""
    operands = [plan.values[o] for o in step.operands]
    renamed = origins_of(step, operands, value, points.place[0])
    if renamed is not None:
        return _renamed(step, renamed, points)
    if isinstance(step, Unpack | Pack | ShiftLeft | ShiftRight | KeepElements):
        return _within_words(step, points, operands[0].elements)
    if isinstance(step, TransposeBlocks):
        return iter([(step.operands[0], _transposed(operands[0], value, points))])
    return _by_words(step, points)


def _renamed(step: Step, renamed: Sequence[Array], points: Points) -> Iterator[tuple[int, Points]]:
    """Points of operands under other register numbers; -1 is an undefined register."""
    missing = np.ones(points.number.size, np.bool_)
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
    place = _, sublane, lane = points.place
    match step:
        case SublaneShuffle():
            which, row = np.divmod(np.array(step.pattern)[sublane], SUBLANES)
            turned = points.moved(sublane=row)
            for number, operand in enumerate(step.operands):
                yield operand, turned.only(which == number)
        case RotateLanes():
            yield first, points.moved(lane=(lane - step.amount) % LANES)
        case Select():
            mask = step.mask.at(*place)
            yield first, points.only(mask)
            yield step.operands[1], points.only(~mask)
        case GatherLanes():
            yield first, points.moved(lane=step.index.at(*place))
        case GatherSublanes():
            yield first, points.moved(sublane=step.index.at(*place))
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
    _, sublane, _ = points.place
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
            sublane, element = np.divmod(step.index * SUBLANES + sublane, packing)
            yield first, points.moved(sublane=sublane, element=element)
        case Pack():
            part = points.element
            if step.format == "compressed":
                part, sublane = np.divmod(sublane * step.elements + part, SUBLANES)
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
