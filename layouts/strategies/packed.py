"""Elements narrower than a word that change their place within words.

Either whole words move once per displacement within the word and are shifted and merged, or the
registers are unpacked to one element per word, moved, and packed again (spec/grid_form.md
section 2.1, strategies h and i).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pallasite.layouts.move import Move, Reshape
from pallasite.layouts.plan import Format
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.fields import Field, Mask
from pallasite.layouts.planner.least import afford
from pallasite.layouts.planner.lines import Array, any_along, distinct_values
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.solve import solve
from pallasite.layouts.planner.trace import Trace
from pallasite.layouts.planner.words import WordMove, unique_rows
from pallasite.layouts.registers import LANES, SUBLANES, packing

Build = Callable[[Program, int], int | None]
_How = Mask | tuple[Field | None, Field | None]
"""How new words replace old ones: by a mask, or both masked and or-ed."""


@lru_cache(maxsize=2)  # Every strategy asks for it.
def distinct(found: Trace) -> tuple[Trace, Array]:
    """The trace of the distinct destination registers, and each register's number among these."""
    n = len(found.register)
    fields = [f.reshape(n, -1) for f in (found.register, found.row, found.lane)]
    _, first, inverse = unique_rows(np.concatenate(fields, 1))
    register, row, lane = found.register[first], found.row[first], found.lane[first]
    return Trace(found.starts, register, row, lane, found.slopes, found.walked), inverse


def floors(
    found: Trace, packing: int, formats: Sequence[Format]
) -> tuple[int, int, dict[Format, int]]:
    """Lower bounds: instructions of shifts, the number of shift amounts, instructions by unpacking.

    The first counts a shift for every displacement of every register, and combining them; the last,
    per format, an unpack for every part that is read and a pack for every register.
    """
    if found.slopes[:2] != (0, 0):
        return 0, 1, dict.fromkeys(formats, 0)
    found, _ = distinct(found)
    wanted = found.register >= 0
    shift = np.arange(found.row.shape[1])[:, None] % packing - found.row % packing
    amounts = np.zeros(len(found.register), np.int64)
    shifted = amounts.copy()
    different = 0
    for amount in range(1 - packing, packing):
        here = any_along(wanted & (shift == amount), 1, 2)
        amounts += here
        different += bool(here.any())
        shifted += here & (amount != 0)
    parts: dict[Format, int] = {}
    for name in formats:
        part = found.row // SUBLANES if name == "compressed" else found.row % packing
        read = distinct_values((found.register * packing + part)[wanted])
        parts[name] = read.size + len(found.register)
    return int((shifted + np.maximum(amounts - 1, 0)).sum()), different, parts


def scattered(move: Move, found: Trace) -> bool:
    """Whether rows become leading dimensions, so that the elements of a word are separated.

    Then every strategy ends up moving elements one by one, as words of their own.
    """
    bits = move.bits
    reshaped = any(isinstance(step, Reshape) for step in move.steps)
    if bits == 32 or reshaped or found.slopes[:2] != (0, 0):
        return False
    n, rows, k = found.register.shape
    pairs = found.register.reshape(n, rows // packing(bits), packing(bits), k)
    first, second = np.moveaxis(pairs, 2, 0)[:2]
    both = (first >= 0) & (second >= 0)
    return 2 * int((both & (first != second)).sum()) > int(both.sum())


# Shifts.


def by_shifts(program: Program, x: int, found: Trace, costs: Costs) -> int | None:
    """Moves words once per displacement within the word, then shifts and merges the results."""
    if found.slopes[:2] != (0, 0):
        found = found.words()
    found, inverse = distinct(found)
    packing = program.values[x].elements
    n, rows, k = found.register.shape
    register, row, lane = (
        f.reshape(n, rows // packing, packing, k) for f in (found.register, found.row, found.lane)
    )
    wanted = register >= 0
    element = np.arange(packing)[None, None, :, None]
    shift = np.where(wanted, element - row % packing, packing)
    parts: list[_Part] = []
    for amount in sorted(distinct_values(shift[wanted]).tolist(), key=abs):
        rest = shift == amount
        while rest.any():  # every turn takes the first element of each word that is left
            chosen = rest.argmax(2)[:, :, None]
            first = [np.take_along_axis(f, chosen, 2) for f in (register, row // packing, lane)]
            same = [f == g for f, g in zip((register, row // packing, lane), first, strict=True)]
            here = rest & same[0] & same[1] & same[2]
            rest = rest & ~here
            members = np.nonzero(here.any((1, 2, 3)))[0]
            fields = [np.where(any_along(here, 2), f[:, :, 0], -1)[members] for f in first]
            move = WordMove(found.starts, fields[0], fields[1], fields[2], found.slopes[2])
            parts.append(_Part(amount, members, here[members], move))
    # What it takes to shift and to merge is known before anything is moved.
    later, filled = 0, np.zeros(n, np.bool_)
    for part in parts:
        later += int(part.amount != 0) * part.members.size
        later += int(np.count_nonzero(filled[part.members]))
        filled[part.members] = True
    merge = _Merge(program, found.starts, n, packing)
    with program.reserve(costs.copies * later):
        afford(program, [part.move for part in parts], costs)
        made = solve(program, x, parts[0].move, costs) if parts else None
    for number, part in enumerate(parts):
        # Later parts may find moved what they need, so that only the first has a budget of its own.
        if number:
            made = solve(program, x, part.move, costs, first=False)
        if made is None:
            return None
        merge.add(program.shift(made, part.amount), part.members, part.wanted, part.amount)
    return program.take(merge.value, inverse)


@dataclass(frozen=True)
class _Part:
    """Words that are moved, shifted by `amount` elements, and merged into those of `members`."""

    amount: int
    members: Array
    wanted: Array
    """The elements that are taken of them: [members, 8, elements, segments]."""
    move: WordMove


class _Merge:
    """Words filled element by element; `wanted` and `dirty` are [registers, 8, elements, segments].

    `dirty` elements hold something; the shifts leave zeros in the others.
    """

    def __init__(self, program: Program, starts: Array, n: int, packing: int) -> None:
        self._program, self._starts, self._packing = program, starts, packing
        self._filled = np.zeros((n, SUBLANES, packing, starts.size), np.bool_)
        self._dirty = self._filled.copy()
        self.value = -1

    def add(self, value: int, members: Array, wanted: Array, amount: int) -> None:
        program = self._program
        dirty = np.ones(self._packing, np.bool_)
        dirty[: max(amount, 0)] = False
        if amount < 0:
            dirty[amount:] = False
        n = len(self._filled)
        filled, old_dirty = self._filled[members], self._dirty[members]
        position = np.arange(n) if self.value >= 0 else np.full(n, -1)
        pieces, at = ([self.value], n) if self.value >= 0 else (list[int](), 0)
        for kind, group, parameter in self._groups(wanted, filled, old_dirty, dirty):
            new = program.take(value, group)
            if kind != "fresh":
                old = program.take(self.value, members[group])
                new = self._combine(kind, new, old, parameter)
            pieces.append(new)
            position[members[group]] = at + np.arange(group.size)
            at += group.size
        self.value = program.take(program.concat(pieces), position)
        self._filled[members] = filled | wanted
        self._dirty[members] = old_dirty | dirty[None, None, :, None]

    def _combine(self, kind: str, new: int, old: int, parameter: _How | None) -> int:
        program = self._program
        if kind == "or":
            return program.either(old, new)
        if isinstance(parameter, Mask):
            return program.select(parameter, new, old)
        assert parameter is not None
        keep_new, keep_old = parameter
        if keep_new is not None:
            new = program.keep(new, keep_new)
        if keep_old is not None:
            old = program.keep(old, keep_old)
        return program.either(new, old)

    def _groups(
        self, wanted: Array, filled: Array, old_dirty: Array, dirty: Array
    ) -> list[tuple[str, Array, _How | None]]:
        """Groups registers by how they take the new elements: fresh, or, select, keep."""
        fresh = ~any_along(filled, 1, 2, 3)
        new_dirty = np.broadcast_to(dirty[None, None, :, None], wanted.shape)
        unclean = (wanted & old_dirty) | (filled & new_dirty)
        clean = ~any_along(unclean, 1, 2, 3)
        mixed = any_along(any_along(wanted, 2) & any_along(filled, 2), 1, 2)
        groups: list[tuple[str, Array, _How | None]] = []
        for kind, which in (("fresh", fresh), ("or", ~fresh & clean)):
            if which.any():
                groups.append((kind, np.nonzero(which)[0], None))
        rest = np.nonzero(~fresh & ~clean)[0]
        if not rest.size:
            return groups
        state = np.concatenate([wanted[rest], filled[rest], old_dirty[rest]], 1)
        _, first, inverse = unique_rows(state.reshape(rest.size, -1))
        for pattern, number in enumerate(rest[first].tolist()):
            members = rest[inverse == pattern]
            want, spare = wanted[number], filled[number]
            if mixed[number]:
                dirt = old_dirty[number] & want, new_dirty[number] & spare
                parameter: _How = self._keep(want, spare, dirt)
            else:
                parameter = self._mask(want, spare)
            for other, (kind, group, known) in enumerate(groups):
                if kind == "choose" and known == parameter:
                    groups[other] = (kind, np.sort(np.append(group, members)), known)
                    break
            else:
                groups.append(("choose", members, parameter))
        return groups

    def _lanes(self, segments: Array) -> Array:
        return np.repeat(segments, np.diff(np.append(self._starts, LANES)), axis=-1)

    def _mask(self, want: Array, spare: Array) -> Mask:
        return Mask.of(self._lanes(any_along(want, 1)), ~self._lanes(any_along(spare, 1)))

    def _keep(
        self, want: Array, spare: Array, dirt: tuple[Array, Array]
    ) -> tuple[Field | None, Field | None]:
        """Word masks to clear elements of the new and of the old words; None where none has to
        be."""
        ones = (1 << 32 // self._packing) - 1
        weights = ones << np.arange(self._packing) * (32 // self._packing)
        kept = (want * weights[None, :, None]).sum(1)
        every = np.where(want.any(1) | spare.any(1), kept, -1)
        other = np.where(every >= 0, (1 << 32) - 1 - kept, -1)
        new = Field.of(self._lanes(every)[None]) if dirt[1].any() else None
        old = Field.of(self._lanes(other)[None]) if dirt[0].any() else None
        return new, old


# Unpacking.


def formats_of(bits: int, costs: Costs) -> tuple[Format, ...]:
    """The formats in which the target packs elements of `bits` bits."""
    return ("compressed",) if bits < costs.interleaved_bits else ("compressed", "interleaved")


def by_unpacking(found: Trace, packing: int, costs: Costs, unpack: Format, pack: Format) -> Build:
    """A strategy that unpacks to 32 bits, moves words, and packs again."""

    def run(program: Program, x: int) -> int | None:
        trace, inverse = distinct(found.words() if found.slopes[:2] != (0, 0) else found)
        made = _unpack_move_pack(program, x, trace, packing, unpack, pack, costs)
        return None if made is None else program.take(made, inverse)

    return run


def _unpack_move_pack(
    program: Program,
    x: int,
    found: Trace,
    packing: int,
    unpack: Format,
    pack: Format,
    costs: Costs,
) -> int | None:
    wanted = found.register >= 0
    if unpack == "compressed":
        part, row = found.row // SUBLANES, found.row % SUBLANES
    else:
        part, row = found.row % packing, found.row // packing
    parts: list[int] = []
    renumber = np.zeros(program.size(x) * packing, np.int64)
    at = 0
    for index in range(packing):
        used = distinct_values(found.register[wanted & (part == index)])
        if used.size:
            parts.append(program.unpack(program.take(x, used), index, unpack))
            renumber[used * packing + index] = at + np.arange(used.size)
            at += used.size
    register = np.where(wanted, renumber[np.maximum(found.register * packing + part, 0)], -1)
    fields = [_parts(f, packing, pack) for f in (register, row, found.lane)]
    fields[1] = np.where(fields[0] >= 0, fields[1], -1)
    move = WordMove(found.starts, fields[0], fields[1], fields[2], found.slopes[2])
    with program.reserve(costs.copies * len(found.register)):
        afford(program, [move], costs)
        made = solve(program, program.concat(parts), move, costs)
    if made is None:
        return None
    numbers = np.arange(len(found.register)) * packing
    return program.pack([program.take(made, numbers + i) for i in range(packing)], pack)


def _parts(field: Array, packing: int, pack: Format) -> Array:
    """[registers, rows, segments] as the parts that are packed: [registers * parts, 8,
    segments]."""
    n, rows, k = field.shape
    if pack == "compressed":
        return field.reshape(n * packing, SUBLANES, k)
    split = field.reshape(n, rows // packing, packing, k)
    return np.swapaxes(split, 1, 2).reshape(n * packing, SUBLANES, k)
