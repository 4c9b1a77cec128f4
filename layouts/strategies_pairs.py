"""Elements of one word that come from several registers: packed together before or after they move.

A leading dimension that becomes the rows of narrow elements puts neighbours in a word that lie in
different registers, in words of the same number and there at the same place. Packed together
first, they move as one word from then on, of which there are half as many as elements:

    c0 of rows a0 and a1     = pack words of a0, words of a1            (the upper halves fall off)
    c1 of rows a0 and a1     = pack words of a0 >> 16, words of a1 >> 16

Where few words of each register are wanted, whole words move first, once for all elements that
are packed of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pallasite.layouts.move import Move
from pallasite.layouts.planner_costs import Costs
from pallasite.layouts.planner_lines import Array
from pallasite.layouts.planner_program import Program
from pallasite.layouts.planner_solve import solve
from pallasite.layouts.planner_trace import Trace
from pallasite.layouts.planner_words import WordMove, unique_rows
from pallasite.layouts.strategies_packed import distinct


@dataclass(frozen=True)
class Pairs:
    """Registers that are packed of elements of others, and how their words move."""

    registers: Array
    """[packed registers, elements]: the register that each element comes from, -1 for none."""
    place: Array
    """Per packed register, which element of their words these are."""
    move: WordMove
    inverse: Array
    """Which register of `move` each destination register is."""


def pairs_of(found: Trace, packing: int) -> Pairs | None:
    """How the words of `found` are packed first; None if their elements lie otherwise."""
    if packing == 1 or found.slopes[:2] != (0, 0):
        return None
    found, inverse = distinct(found)
    n, rows, k = found.register.shape
    shape = (n, rows // packing, packing, k)
    register, row, lane = (f.reshape(shape) for f in (found.register, found.row, found.lane))
    wanted = register >= 0
    chosen = wanted.argmax(2)[:, :, None]
    for field in (row, lane):
        if (wanted & (field != np.take_along_axis(field, chosen, 2))).any():
            return None
    some = wanted.any(2)
    row, lane = (np.take_along_axis(f, chosen, 2)[:, :, 0] for f in (row, lane))
    words = np.concatenate([np.moveaxis(register, 2, -1)[some], row[some][:, None] % packing], 1)
    table, which = _completed(words)
    packed = np.full(some.shape, -1)
    packed[some] = which
    sublane, lane = (np.where(some, f, -1) for f in (row // packing, lane))
    move = WordMove(found.starts, packed, sublane, lane, found.slopes[2])
    return Pairs(table[:, :-1], table[:, -1], move, inverse)


def is_paired(move: Move, found: Trace, costs: Costs) -> bool:
    """Whether `by_pairing` may move the elements."""
    return move.bits >= costs.interleaved_bits and pairs_of(found, 32 // move.bits) is not None


def _completed(listed: Array) -> tuple[Array, Array]:
    """The different rows of `listed`, and which of them each one is.

    A row with gaps is one without, if there is one that has the same where it has something.
    """
    table, _, inverse = unique_rows(listed)
    gaps = (table < 0).any(1)
    number = np.arange(len(table))
    whole = np.nonzero(~gaps)[0]
    for g in np.nonzero(gaps)[0].tolist():
        known = table[g] >= 0
        same = whole[(table[whole][:, known] == table[g][known]).all(1)]
        if same.size:
            number[g] = same[0]
    kept, back = np.unique(number, return_inverse=True)
    return table[kept], back.reshape(-1)[inverse]


def by_pairing(program: Program, x: int, pairs: Pairs, costs: Costs) -> int | None:
    """Packs what will be one word, and moves words."""
    packing = pairs.registers.shape[1]
    pieces: list[int] = []
    numbers = np.empty(len(pairs.place), np.int64)
    at = 0
    for place in range(packing):
        members = np.nonzero(pairs.place == place)[0]
        if not members.size:
            continue
        chosen = pairs.registers[members]
        chosen = np.where(chosen >= 0, chosen, chosen.max(1, keepdims=True))
        words = [program.shift(program.take(x, column), -place) for column in chosen.T]
        pieces.append(program.pack(words, "interleaved"))
        numbers[members] = at + np.arange(members.size)
        at += members.size
    move = pairs.move
    register = np.where(move.register >= 0, numbers[move.register], -1)
    move = WordMove(move.starts, register, move.sublane, move.lane, move.slope)
    made = solve(program, program.concat(pieces), move, costs)
    return None if made is None else program.take(made, pairs.inverse)


def parts_of(found: Trace, packing: int) -> Array | None:
    """[registers, elements]: at which place of their words the elements of a register come from.

    -1 where there are none; None if they come from several.
    """
    if packing == 1 or found.slopes[:2] != (0, 0):
        return None
    n, rows, k = found.register.shape
    row = found.row.reshape(n, rows // packing, packing, k)
    wanted = found.register.reshape(row.shape) >= 0
    part = row % packing
    most = np.where(wanted, part, -1).max((1, 3))
    return None if (wanted & (part != most[:, None, :, None])).any() else most


def by_packing(program: Program, x: int, found: Trace, packing: int, costs: Costs) -> int | None:
    """Moves the words that hold each element of a register, and packs the elements."""
    found, inverse = distinct(found)
    parts = parts_of(found, packing)
    if parts is None:
        return None
    n = len(parts)
    register, row, lane = (_by_element(f, packing) for f in (found.register, found.row, found.lane))
    sublane = np.where(register >= 0, row // packing, -1)
    move = WordMove(found.starts, register, sublane, lane, found.slopes[2])
    with program.reserve(costs.copies * n):
        made = solve(program, x, move, costs)
    if made is None:
        return None
    # Elements that nobody wants are those of some word that is there.
    holder = np.where(parts >= 0, np.arange(packing), parts.argmax(1)[:, None])
    kinds, _, kind = unique_rows(parts)
    pieces: list[int] = []
    position = np.empty(n, np.int64)
    at = 0
    for number, places in enumerate(kinds.tolist()):
        members = np.nonzero(kind == number)[0]
        words = [
            program.shift(program.take(made, members * packing + holder[members, e]), -max(part, 0))
            for e, part in enumerate(places)
        ]
        pieces.append(program.pack(words, "interleaved"))
        position[members] = at + np.arange(members.size)
        at += members.size
    return program.take(program.concat(pieces), position[inverse])


def _by_element(field: Array, packing: int) -> Array:
    """[registers, rows, segments] as [registers * elements, words, segments]."""
    n, rows, k = field.shape
    split = field.reshape(n, rows // packing, packing, k)
    return split.swapaxes(1, 2).reshape(n * packing, rows // packing, k)
