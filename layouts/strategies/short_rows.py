"""Rows of at most 16 elements laid on in chunks of 128 (`flat.py`).

A gather turns the eight rows of a register into lanes one after another, and another one, or three
selects, brings them together: in every sublane. So they can be selected into any row of the chunks,
once they are turned into the lanes in which they begin there. Registers of such rows are made of
one chunk or two, each spread over all sublanes, by one gather.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pallasite.layouts.planner.fields import Field, Mask
from pallasite.layouts.planner.lines import Array, distinct_values
from pallasite.layouts.planner.program import Program
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.layouts.strategies.flat_rows import SUBLANE, Pieces, Rows

_REGISTER = SUBLANES * LANES
_MOST = 160
"""Source registers that are put together in one register of chunks."""


def packed(program: Program, x: int, rows: Rows) -> int | None:
    """Registers of eight chunks each, of all elements; None if too many make one of them."""
    together = _together(program, x, rows.length)
    begin = rows.first * rows.length
    end = begin + rows.valid.sum(1) * rows.length
    count = -(-int(end[-1]) // _REGISTER)
    start = np.arange(count) * _REGISTER
    # The blocks that a register begins and ends with.
    first = np.searchsorted(end, start, side="right")
    last = np.searchsorted(begin, start + _REGISTER) - 1
    most = int((last - first).max())
    if most > _MOST:
        return None
    phase = begin % LANES
    unit = int(np.gcd.reduce(phase, initial=LANES))
    if unit < LANES:
        index = Field.by_table((0, -unit, 0, 1), LANES, phase // unit)
        together = program.gather_lanes(together, index)
    value = program.take(together, first)
    for later in range(1, most + 1):
        members = np.nonzero(first + later <= last)[0]
        block = first[members] + later
        place = begin[block] - start[members]
        table = np.full(count, -1)
        table[members] = np.arange(members.size)
        new, old = program.take(together, block), program.take(value, members)
        made = program.select(_from(place), new, old)
        if members.size < count:
            rest = np.nonzero(table < 0)[0]
            table[rest] = members.size + np.arange(rest.size)
            made = program.take(program.concat([made, program.take(value, rest)]), table)
        value = made
    return value


def _from(place: Array) -> Mask:
    """All words of registers from so many on, counted row by row."""
    unit = int(np.gcd.reduce(place, initial=_REGISTER))
    return Mask((), Field.by_table((0, unit, -LANES, 0), 0, place // unit), 0, 0)


def _together(program: Program, x: int, length: int) -> int:
    """The eight rows of every register one after another, in every sublane."""
    lane = np.arange(LANES)
    value = program.gather_lanes(x, Field((0, 0, -length, 1), (), LANES))
    row = np.where(lane < SUBLANES * length, lane // length, -1)
    if program.costs.sublane_gather:
        index = Field.of(np.broadcast_to(row, (1, SUBLANES, LANES)), SUBLANES)
        assert index is not None, "a single register always has a description"
        return program.gather_sublanes(value, index)
    for distance in (1, 2, 4):
        turned = program.shuffle(value, None, [(s + distance) % SUBLANES for s in range(SUBLANES)])
        behind = (row - SUBLANE[:, None]) % SUBLANES
        wanted = (row >= 0) & (behind >= distance) & (behind < 2 * distance)
        value = program.select(Mask.of(wanted, wanted | (row < 0)), turned, value)
    return value


def unpacked(
    program: Program, chunks: int, rows: Rows, find: Callable[[Array], tuple[Array, Array]]
) -> int:
    """The registers of rows from chunks, whose register and sublane `find` tells."""
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
