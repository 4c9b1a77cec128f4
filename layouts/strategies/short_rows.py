"""Concatenates rows of at most 16 elements into chunks of 128 elements (`flat.py`).

A gather rotates the eight rows of a register into consecutive lanes; another gather, or three
selects, brings them together in every sublane. So they can be selected into any row of the chunks,
once they are rotated into the lanes in which they begin there. Conversely, registers of such rows
are made of one or two chunks, replicated over all sublanes, by one gather.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.fields import Field, Mask
from pallasite.layouts.planner.lines import Array, distinct_values
from pallasite.layouts.planner.overlay import apply_index
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.words import unique_rows
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.layouts.strategies.flat_rows import SUBLANE, Pieces, Rows

REGISTER = SUBLANES * LANES
"""Elements of a register of eight chunks."""
_MOST = 160
"""Source registers that are put together in one register of chunks."""
_KINDS = 128
"""Kinds of registers that have instructions of their own at most: each takes time to plan. Where
it takes several instructions to spread rows, half as many."""
_PREPARED = 9.0
"""What index registers or masks of eight rows cost, for each instruction that has them."""


def packed(program: Program, x: int, rows: Rows, size: int = REGISTER) -> int | None:
    """Registers of all elements, eight chunks each; None if too many registers make one of them.

    If `size` is that of one chunk, a register has one chunk instead, replicated over the sublanes.
    """
    begin = rows.first * rows.length
    end = begin + (rows.valid.sum(1) if rows.apart else 1) * rows.length
    count = -(-int(end[-1]) // size)
    start = np.arange(count) * size
    # The blocks that a register begins and ends with.
    first = np.searchsorted(end, start, side="right")
    last = np.searchsorted(begin, start + size) - 1
    most = int((last - first).max())
    if most > _MOST:
        return None
    way = _cheapest(program.costs, rows, size, count)
    blocks = way.blocks(program, x)
    value = program.take(blocks, first)
    for later in range(1, most + 1):
        members = np.nonzero(first + later <= last)[0]
        block = first[members] + later
        place = begin[block] - start[members]
        table = np.full(count, -1)
        table[members] = np.arange(members.size)
        new, old = program.take(blocks, block), program.take(value, members)
        made = program.select(_from(place, size), new, old)
        if members.size < count:
            rest = np.nonzero(table < 0)[0]
            table[rest] = members.size + np.arange(rest.size)
            made = program.take(program.concat([made, program.take(value, rest)]), table)
        value = made
    return way.chunks(program, value)


def _from(place: Array, size: int) -> Mask:
    """All words of registers from so many on, counted row by row, or in every row."""
    unit = int(np.gcd.reduce(place, initial=size))
    across = -LANES if size == REGISTER else 0
    return Mask((), Field.by_table((0, unit, across, 0), 0, place // unit), 0, 0)


def _cheapest(costs: Costs, rows: Rows, size: int, count: int) -> _Way:
    """The cheapest method for `count` registers, each made into `size` elements."""
    if not rows.apart:
        return _InPlace(rows)
    ways: list[_Way] = [_Turned(rows), _Phases(rows)]
    if size == LANES:
        ways.append(_Late(rows, count))
    few = [way for way in ways if way.kinds <= (_KINDS if costs.sublane_gather else _KINDS // 2)]
    return min(few, key=lambda way: way.cost(costs))


class _Way(Protocol):
    """A method that brings the rows of blocks into consecutive lanes, and into all sublanes."""

    @property
    def kinds(self) -> int:
        """The number of kinds of registers; each kind takes instructions of its own."""
        ...

    def cost(self, costs: Costs) -> float:
        """The cost of what differs between the methods."""
        ...

    def blocks(self, program: Program, x: int) -> int:
        """The blocks, rotated into the lanes where they are needed, to be selected from."""
        ...

    def chunks(self, program: Program, value: int) -> int:
        """The selected registers, replicated over all sublanes."""
        ...


@dataclass(frozen=True)
class _InPlace:
    """For rows that are in all sublanes, or for one row per sublane that stays there: a gather
    rotates each row to the lane where it begins."""

    rows: Rows
    kinds: int = 1

    def cost(self, costs: Costs) -> float:
        return costs.copies * costs.gather(along_lanes=True) * len(self.rows.first)

    def blocks(self, program: Program, x: int) -> int:
        return program.gather_lanes(x, self.rows.turned(-1, np.arange(len(self.rows.first))))

    def chunks(self, program: Program, value: int) -> int:
        return value


@dataclass(frozen=True)
class _Turned:
    """The same instructions for every block bring eight rows together in the first lanes; another
    gather rotates them to where they begin."""

    rows: Rows
    kinds: int = 1

    def cost(self, costs: Costs) -> float:
        gathers = 2 - (not self.rows.phase.any())
        each = gathers * costs.gather(along_lanes=True) + _spreading(costs)
        return costs.copies * each * len(self.rows.first)

    def blocks(self, program: Program, x: int) -> int:
        length, phase = self.rows.length, self.rows.phase
        turned = program.gather_lanes(x, Field((0, 0, -length, 1), (), LANES))
        together = _spread(program, turned, length, 0)
        unit = int(np.gcd.reduce(phase, initial=LANES))
        index = Field.by_table((0, -unit, 0, 1), LANES, phase // unit)
        return program.gather_lanes(together, index)

    def chunks(self, program: Program, value: int) -> int:
        return value


@dataclass(frozen=True)
class _Phases:
    """A gather rotates the rows to where they begin; the blocks that begin in the same lane are
    brought together by instructions of their own."""

    rows: Rows

    @property
    def kinds(self) -> int:
        return distinct_values(self.rows.phase).size

    def cost(self, costs: Costs) -> float:
        each = costs.gather(along_lanes=True) + _spreading(costs)
        return (
            costs.copies * each * len(self.rows.first) + _PREPARED * _spreading(costs) * self.kinds
        )

    def blocks(self, program: Program, x: int) -> int:
        rows = self.rows
        turned = program.gather_lanes(x, rows.turned(-1, np.arange(len(rows.first))))
        made = Pieces(program, len(rows.first))
        for phase in distinct_values(rows.phase).tolist():
            members = np.nonzero(rows.phase == phase)[0]
            taken = program.take(turned, members)
            made.add(_spread(program, taken, rows.length, phase), members)
        return made.value()

    def chunks(self, program: Program, value: int) -> int:
        return value


@dataclass(frozen=True)
class _Late:
    """A gather rotates the rows to where they begin. All rows of a chunk are selected, each in its
    own sublane; then every lane is replicated over the sublanes."""

    rows: Rows
    count: int
    """Chunks."""

    @cached_property
    def patterns(self) -> tuple[Array, Array]:
        """The sublanes of the elements, [different, 128], and which of them each chunk has."""
        rows = self.rows
        row = np.arange(self.count * LANES) // rows.length
        there = row < len(rows.sublane)
        sublane = np.where(there, rows.sublane[np.where(there, row, 0)], -1)
        found, _, which = unique_rows(sublane.reshape(self.count, LANES))
        return found, which

    @property
    def kinds(self) -> int:
        return len(self.patterns[0])

    def cost(self, costs: Costs) -> float:
        pieces = self.kinds * (LANES / self.rows.length)
        each = costs.gather(along_lanes=True) * len(self.rows.first)
        return costs.copies * (each + _spreading(costs) * self.count) + pieces

    def blocks(self, program: Program, x: int) -> int:
        return program.gather_lanes(x, self.rows.turned(-1, np.arange(len(self.rows.first))))

    def chunks(self, program: Program, value: int) -> int:
        found, which = self.patterns
        if program.costs.sublane_gather:
            every = np.repeat(found[:, None], SUBLANES, 1)
            return apply_index(program, value, every, which, SUBLANES, program.gather_sublanes)
        # Rows that are some sublanes further on come by steps of so many, one after the other.
        behind = np.where(found[:, None] >= 0, (found[:, None] - SUBLANE[:, None]) % SUBLANES, -1)
        index = [Field.of(each[None], SUBLANES) for each in behind]
        members = [np.nonzero(which == number)[0] for number in range(len(found))]
        for bit in range(3):
            turned = program.shuffle(value, None, _rotation(1 << bit))
            made = Pieces(program, self.count)
            for field, mine in zip(index, members, strict=True):
                new, old = program.take(turned, mine), program.take(value, mine)
                made.add(program.select(Mask((), field, bit), new, old), mine)
            value = made.value()
        return value


def _rotation(distance: int) -> list[int]:
    """The sublane pattern of a rotation by `distance`."""
    return [(s + distance) % SUBLANES for s in range(SUBLANES)]


def _spreading(costs: Costs) -> float:
    """What `_spread` costs per register."""
    return 1.0 if costs.sublane_gather else 6.0


def _spread(program: Program, value: int, length: int, phase: int) -> int:
    """Registers of eight rows one after another, the first one from lane `phase` on, in every
    sublane."""
    lane = (np.arange(LANES) - phase) % LANES
    row = np.where(lane < SUBLANES * length, lane // length, -1)
    if program.costs.sublane_gather:
        index = Field.of(np.broadcast_to(row, (1, SUBLANES, LANES)), SUBLANES)
        assert index is not None, "a single register always has a description"
        return program.gather_sublanes(value, index)
    for distance in (1, 2, 4):
        turned = program.shuffle(value, None, _rotation(distance))
        behind = (row - SUBLANE[:, None]) % SUBLANES
        wanted = (row >= 0) & (behind >= distance) & (behind < 2 * distance)
        value = program.select(Mask.of(wanted, wanted | (row < 0)), turned, value)
    return value


def unpacked(
    program: Program, chunks: int, rows: Rows, find: Callable[[Array], tuple[Array, Array]]
) -> int:
    """The registers of rows, made from chunks; `find` gives the register and sublane of a chunk."""
    begin = rows.first * rows.length
    end = begin + rows.valid.sum(1) * rows.length
    number = distinct_values([begin // LANES, (end - 1) // LANES])
    register, sublane = find(number)
    spread = Pieces(program, number.size)
    for row in distinct_values(sublane).tolist():
        members = np.nonzero(sublane == row)[0]
        taken = program.take(chunks, register[members])
        spread.add(program.shuffle(taken, None, (row,) * SUBLANES), members)
    every = spread.value()
    value = program.take(every, np.searchsorted(number, begin // LANES))
    crosses = np.nonzero((end - 1) // LANES > begin // LANES)[0]
    if crosses.size:
        made = Pieces(program, begin.size)
        made.add(value, np.arange(begin.size))
        phase = begin[crosses] % LANES
        unit = int(np.gcd.reduce(phase, initial=LANES))
        mask = Mask((), Field.by_table((0, unit, 0, 0), 0, phase // unit), 0, 0)
        later = program.take(every, np.searchsorted(number, begin[crosses] // LANES + 1))
        made.add(program.select(mask, program.take(value, crosses), later), crosses)
        value = made.value()
    return program.gather_lanes(value, rows.turned(1, np.arange(begin.size)))
