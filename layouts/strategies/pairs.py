"""Elements of one word that come from several registers: packed before or after they move.

If a leading dimension becomes the rows of narrow elements, the elements of a destination word come
from different registers, from words at the same place in these and from the same place within the
words. Packed together first, they move as one word from then on, of which there are half as many:

    c0 of rows a0 and a1     = pack words of a0, words of a1            (the upper halves fall off)
    c1 of rows a0 and a1     = pack words of a0 >> 16, words of a1 >> 16

If lanes are split into rows, the elements of a word come from one row, a few lanes apart: registers
are rotated by that distance before they are packed.

Where few words of each register are needed, whole words move first, once for each of the elements
that are packed into a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pallasite.layouts.move import Move
from pallasite.layouts.plan import Way
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.least import afford
from pallasite.layouts.planner.lines import Array, distinct_values
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.solve import solve
from pallasite.layouts.planner.trace import Trace
from pallasite.layouts.planner.words import WordMove, unique_rows
from pallasite.layouts.registers import LANES
from pallasite.layouts.strategies.packed import distinct


@dataclass(frozen=True)
class Pairs:
    """Registers that are packed from elements of others, and how their words move afterwards."""

    registers: Array
    """[packed registers, elements]: the register that each element comes from, -1 for none."""
    shifts: Array
    """[packed registers, elements]: by how many lanes further up each element is than the first."""
    place: Array
    """Per packed register, which element of their words these are."""
    move: WordMove
    inverse: Array
    """Which register of `move` each destination register is."""

    @property
    def shifted(self) -> bool:
        """Whether elements change their lanes before they are packed."""
        return bool((self.shifts > 0).any())


@lru_cache(maxsize=2)
def pairs_of(found: Trace, packing: int) -> Pairs | None:
    """How the words of `found` can be packed first; None if their elements lie differently."""
    if packing == 1 or found.slopes[:2] != (0, 0):
        return None
    found, inverse = distinct(found)
    n, rows, k = found.register.shape
    shape = (n, rows // packing, packing, k)
    register, row, lane = (f.reshape(shape) for f in (found.register, found.row, found.lane))
    wanted = register >= 0
    chosen = wanted.argmax(2)[:, :, None]
    if (wanted & (row != np.take_along_axis(row, chosen, 2))).any():
        return None
    first = np.take_along_axis(lane, chosen, 2)
    shift = np.where(wanted, (lane - first) % LANES, -1)
    some = wanted.any(2)
    row, lane = np.take_along_axis(row, chosen, 2)[:, :, 0], first[:, :, 0]
    parts = [np.moveaxis(f, 2, -1)[some] for f in (register, shift)]
    table, which = _completed(np.concatenate([*parts, row[some][:, None] % packing], 1))
    if len(table) > n and (shift > 0).any():
        return None
    packed = np.full(some.shape, -1)
    packed[some] = which
    sublane, lane = (np.where(some, f, -1) for f in (row // packing, lane))
    move = WordMove(found.starts, packed, sublane, lane, found.slopes[2])
    registers, shifts = table[:, :packing], table[:, packing:-1]
    return Pairs(registers, np.where(shifts > 0, shifts, 0), table[:, -1], move, inverse)


def is_paired(move: Move, found: Trace) -> bool:
    """Whether `by_pairing` can do the move."""
    return move.bits < 32 and pairs_of(found, 32 // move.bits) is not None


def _completed(listed: Array) -> tuple[Array, Array]:
    """The distinct rows of `listed`, and the number of each row among these.

    A row with gaps counts as equal to one without gaps that agrees with it elsewhere.
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
    """Packs the elements that will form one word, and then moves words."""
    packing = pairs.registers.shape[1]
    places = np.where(pairs.registers >= 0, pairs.place[:, None], -1)
    x, registers = _rotated(program, x, pairs)
    packed = _packed(program, x, registers, places, packing, costs)
    if packed is None:
        return None
    afford(program, [pairs.move], costs)
    made = solve(program, packed, pairs.move, costs)
    return None if made is None else program.take(made, pairs.inverse)


def _rotated(program: Program, x: int, pairs: Pairs) -> tuple[int, Array]:
    """`x` with rotated registers appended, and which registers the elements are packed from."""
    registers, pieces, at = pairs.registers.copy(), [x], program.size(x)
    for amount in distinct_values(pairs.shifts[pairs.shifts > 0]).tolist():
        here = pairs.shifts == amount
        sources = distinct_values(pairs.registers[here])
        pieces.append(program.rotate_lanes(program.take(x, sources), -amount))
        registers[here] = np.searchsorted(sources, pairs.registers[here]) + at
        at += sources.size
    return program.concat(pieces), registers


def parts_of(found: Trace, packing: int) -> Array | None:
    """[registers, elements]: the place within the source words that each element comes from.

    -1 where an element is not needed; None if one comes from several places.
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
    places = parts_of(found, packing)
    if places is None or not _packs(places, packing, costs):
        return None
    register, sublane, lane = (
        _by_element(f, packing) for f in (found.register, found.row // packing, found.lane)
    )
    sublane = np.where(register >= 0, sublane, -1)
    move, back = WordMove(found.starts, register, sublane, lane, found.slopes[2]).distinct()
    with program.reserve(costs.copies * len(places)):
        afford(program, [move], costs)
        made = solve(program, x, move, costs)
    packed = None
    if made is not None:
        registers = np.where(places >= 0, back.reshape(places.shape), -1)
        packed = _packed(program, made, registers, places, packing, costs)
    return None if packed is None else program.take(packed, inverse)


def _by_element(field: Array, packing: int) -> Array:
    """[registers, rows, segments] as [registers * elements, words, segments]."""
    n, rows, k = field.shape
    split = field.reshape(n, rows // packing, packing, k)
    return split.swapaxes(1, 2).reshape(n * packing, rows // packing, k)


# Packing.


def _packs(places: Array, packing: int, costs: Costs) -> bool:
    """Whether `_packed` can pack elements from these `places`."""
    same = (places < 0) | (places == places.max(1, keepdims=True))
    return 32 // packing >= costs.interleaved_bits or bool(same.all())


def _packed(
    program: Program, x: int, registers: Array, places: Array, packing: int, costs: Costs
) -> int | None:
    """Flat registers whose element e is the one at `places[:, e]` of `registers[:, e]` of `x`.

    Negative entries may be anything.
    """
    if not _packs(places, packing, costs):
        return None
    registers = np.where(registers >= 0, registers, registers.max(1, keepdims=True))
    position, pieces, at = np.empty(len(registers), np.int64), list[int](), 0
    if 32 // packing >= costs.interleaved_bits:
        kinds, _, kind = unique_rows(np.maximum(places, 0))
        for number, parts in enumerate(kinds.tolist()):
            members = np.nonzero(kind == number)[0]
            taken = [program.take(x, column) for column in registers[members].T]
            words = [program.shift(w, -part) for w, part in zip(taken, parts, strict=True)]
            pieces.append(program.pack(words, "interleaved"))
            position[members] = at + np.arange(members.size)
            at += members.size
        return program.take(program.concat(pieces), position)
    different, _, which = unique_rows(registers)
    words = [program.take(x, column) for column in different.T]
    place = places.max(1)
    exchanged = _exchanged(program, words, distinct_values(place).tolist(), costs)
    for part, value in exchanged.items():
        members = place == part
        position[members] = at + which[members]
        pieces.append(value)
        at += program.size(value)
    return program.take(program.concat(pieces), position)


def _exchanged(
    program: Program, words: list[int], wanted: list[int], costs: Costs
) -> dict[int, int]:
    """Element e of value number p is element p of `words[e]`, for the numbers that are `wanted`."""
    packing = len(words)
    numbers = np.arange(packing)
    values = [program.words(w) for w in words]
    distance = 1
    while distance < packing:
        # The numbers have bits of places already, from the lowest to this one.
        reached = 2 * distance - 1
        some = {part & reached for part in wanted}
        after = list(values)
        for low in numbers[(numbers & distance) == 0].tolist():
            pair = low, low + distance
            chosen = [odd for odd, part in enumerate(pair) if part & reached in some]
            a, b = (values[part] for part in pair)
            for odd in chosen:
                way = _way(distance, packing, bool(odd), len(chosen), costs)
                after[pair[odd]] = program.interleave(a, b, distance, bool(odd), way)
        values, distance = after, 2 * distance
    return {part: values[part] for part in wanted}


def _way(width: int, packing: int, odd: bool, results: int, costs: Costs) -> Way:
    """How groups of `width` elements are interleaved for so many results of two registers."""
    bits = width * 32 // packing
    if 2 * width == packing:
        # Packing half words drops the upper ones, and those are the odd ones.
        return "masks" if odd or costs.interleaved_bits > bits else "pack"
    return "differences" if results == 2 and bits < costs.masked_bits else "masks"
