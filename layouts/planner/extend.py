"""Extends the plan of some registers of a destination to all that repeat them (`periods.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pallasite.layouts.plan import (
    RENAMING,
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
)
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.demand import origins
from pallasite.layouts.planner.lines import Array, first_places
from pallasite.layouts.planner.periods import Periods
from pallasite.layouts.planner.program import Program

_LARGEST_KEY = 1 << 62
"""Largest integer key that distinguishes rows of several columns."""


def extend(plan: Plan, periods: Periods, grid: Sequence[int], costs: Costs) -> Plan | None:
    """The plan for all destination registers of `grid` from that of the chosen ones.

    Every register is made as its model is, from source registers at a constant distance; values
    that several registers need are made once. None if the plan has a step that does not treat each
    register by itself, or whose mask or index differs between registers.
    """
    if any(_counts_registers(step) for step in plan.steps):
        return None
    return _Extension(plan, periods, costs).run(grid)


def _counts_registers(step: Step) -> bool:
    match step:
        case TransposeBlocks():
            return True
        case GatherLanes() | GatherSublanes():
            return step.index.registers > 1
        case KeepElements():
            return step.mask.registers > 1
        case Select():
            return step.mask.field is not None and step.mask.field.registers > 1
        case _:
            return False


@dataclass(frozen=True)
class _Within:
    """Enumerates the members of several kinds, one kind after the other."""

    count: Array
    """Per listed kind, the number of its members."""
    number: Array
    """Per member, its number within its kind."""

    @classmethod
    def of(cls, count: Array) -> _Within:
        total = int(count.sum())
        return cls(count, np.arange(total) - np.repeat(np.cumsum(count) - count, count))

    def added_to(self, begin: Array) -> Array:
        """Per member, its number within its kind plus the entry of `begin` for the kind."""
        return np.repeat(begin, self.count) + self.number


class _Extension:
    """Builds the extended plan.

    The registers that it makes are numbered consecutively over all its values. For a register of a
    value of the original plan and a kind, `_numbers` lists the registers that replace it, one per
    member of the kind, from position `_begin[value][register, kind]` on (-1: undefined).
    """

    def __init__(self, plan: Plan, periods: Periods, costs: Costs) -> None:
        self._plan, self._periods, self._costs = plan, periods, costs
        self._program = Program(plan.values[: plan.sources], plan.bits, costs)
        self._order = np.argsort(periods.kind, kind="stable")
        self._members = np.bincount(periods.kind)
        self._first = np.cumsum(self._members) - self._members
        self._numbers = np.empty(0, np.int64)
        self._length = 0
        self._made: list[int] = []
        self._starts: list[int] = [0]
        self._begin: list[Array] = []

    def run(self, grid: Sequence[int]) -> Plan:
        plan, program = self._plan, self._program
        came = [
            origins(step, [plan.values[o] for o in step.operands], plan.values[number])
            for number, step in enumerate(plan.steps, plan.sources)
        ]
        wanted = self._wanted(came)
        for number in range(plan.sources):
            self._source(number, wanted[number])
        for number, (step, origin) in enumerate(zip(plan.steps, came, strict=True)):
            made = plan.sources + number
            if isinstance(step, RENAMING):
                self._begin.append(self._renamed(step, origin))
            else:
                self._step(step, wanted[made])
        kinds = np.arange(self._members.size)
        last = self._all(
            self._begin[plan.result][self._periods.model, kinds], _Within.of(self._members)
        )
        numbers = np.empty_like(last)
        numbers[self._order] = last
        result = program.elements(self._registers(numbers, plan.values[plan.result].elements))
        return program.plan(program.reshape(result, grid), plan.how)

    def _wanted(self, came: list[list[Array] | None]) -> list[Array]:
        """Per value [registers, kinds]: whether the members of the kind need the register."""
        plan, kinds = self._plan, self._members.size
        wanted = [np.zeros((value.registers, kinds), np.bool_) for value in plan.values]
        wanted[plan.result][self._periods.model, np.arange(kinds)] = True
        for number in range(len(plan.steps) - 1, -1, -1):
            step, mine = plan.steps[number], wanted[plan.sources + number]
            found = came[number]
            for place, operand in enumerate(step.operands):
                if found is None:
                    wanted[operand] |= mine
                else:
                    there = found[place] >= 0
                    np.logical_or.at(wanted[operand], found[place][there], mine[there])
        return wanted

    def _source(self, number: int, wanted: Array) -> None:
        program, periods = self._program, self._periods
        register, kind = np.nonzero(wanted)
        shift = periods.shift[number][self._order]
        everyone = _Within.of(self._members[kind])
        places = everyone.added_to(self._first[kind])
        moved = np.repeat(register, everyone.count) + shift[places]
        # Numbers outside of the source belong to words that do not matter.
        moved = np.clip(moved, 0, program.size(number) - 1)
        self._record(program.flat(number), moved, wanted)

    def _all(self, begin: Array, everyone: _Within) -> Array:
        """The entries of `_numbers` from `begin` on, for all members of the kinds."""
        numbers = self._numbers
        if (begin >= 0).all():
            return numbers[everyone.added_to(begin)]
        every = np.repeat(begin, everyone.count)
        return np.where(every < 0, -1, numbers[np.maximum(every, 0) + everyone.number])

    def _record(self, made: int, places: Array, wanted: Array) -> None:
        """Records that registers `places` of flat value `made` replace those `wanted`, in order."""
        begin = np.full(wanted.shape, -1)
        count = self._members[np.nonzero(wanted)[1]]
        begin[wanted] = self._length + np.cumsum(count) - count
        self._begin.append(begin)
        before, self._length = self._length, self._length + places.size
        if self._length > self._numbers.size:
            # The size doubles, so that copying takes linear time in total.
            grown = np.empty(2 * self._length, np.int64)
            grown[:before] = self._numbers[:before]
            self._numbers = grown
        np.add(places, self._starts[-1], out=self._numbers[before : self._length])
        self._made.append(made)
        self._starts.append(self._starts[-1] + self._program.size(made))

    def _renamed(self, step: Step, origin: list[Array] | None) -> Array:
        operands = [self._begin[o] for o in step.operands]
        if origin is None:
            return operands[0]
        result = np.full((origin[0].size, self._members.size), -1)
        for operand, places in zip(operands, origin, strict=True):
            there = places >= 0
            result[there] = operand[places[there]]
        return result

    def _registers(self, numbers: Array, elements: int) -> int:
        """A flat value of the registers `numbers`, whose words hold `elements` elements."""
        program = self._program
        starts = np.array(self._starts)
        piece = np.searchsorted(starts, numbers, side="right") - 1
        used = np.nonzero(np.bincount(piece + 1, minlength=1)[1:])[0].tolist()
        if len(used) == 1 and (piece >= 0).all():
            return program.take(self._made[used[0]], numbers - starts[used[0]])
        # If all are undefined, any value with the same elements per word serves.
        alike = (m for m, v in enumerate(self._made) if program.values[v].elements == elements)
        used = used or [next(alike)]
        at, table = 0, np.full(numbers.size, -1)
        for number in used:
            mine = piece == number
            table[mine] = numbers[mine] - starts[number] + at
            at += program.size(self._made[number])
        return program.take(program.concat([self._made[number] for number in used]), table)

    def _step(self, step: Step, wanted: Array) -> None:
        if not wanted.any():
            self._begin.append(np.full(wanted.shape, -1))
            return
        everyone = _Within.of(self._members[np.nonzero(wanted)[1]])
        columns = [self._all(self._begin[o][wanted], everyone) for o in step.operands]
        places, first = _distinct(columns)
        operands = [
            self._registers(c[first], self._plan.values[o].elements)
            for o, c in zip(step.operands, columns, strict=True)
        ]
        self._record(_made(self._program, step, operands), places, wanted)


def _distinct(columns: list[Array]) -> tuple[Array, Array]:
    """Per row of the columns the number of its distinct row, and where each of these is first."""
    key, extent = columns[0], int(columns[0].max()) + 2
    for column in columns[1:]:
        more = int(column.max()) + 2
        if extent * more > _LARGEST_KEY:
            key, extent = first_places(key)[1], key.size
        key, extent = key * more + column + 1, extent * more
    first, places = first_places(key)
    return places, first


def _made(program: Program, step: Step, operands: list[int]) -> int:  # noqa: C901  a case per step
    first = operands[0]
    match step:
        case SublaneShuffle():
            second = operands[1] if len(operands) > 1 else None
            return program.shuffle(first, second, step.pattern)
        case RotateLanes():
            return program.rotate_lanes(first, step.amount)
        case Select():
            return program.select(step.mask, first, operands[1])
        case GatherLanes():
            return program.gather_lanes(first, step.index)
        case GatherSublanes():
            return program.gather_sublanes(first, step.index)
        case ShiftLeft():
            return program.shift(first, step.amount)
        case ShiftRight():
            return program.shift(first, -step.amount)
        case KeepElements():
            return program.keep(first, step.mask)
        case Or():
            return program.either(first, operands[1])
        case Interleave():
            return program.interleave(first, operands[1], step.width, step.odd, step.way)
        case Unpack():
            return program.unpack(first, step.index, step.format)
        case Pack():
            return program.pack(operands, step.format)
        case _:
            raise TypeError(f"no repetition of {type(step).__name__}")
