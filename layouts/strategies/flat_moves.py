"""Moves whole rows of 128 elements from any place to any place, in few steps for any number of
rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pallasite.layouts.planner.classes import ranked
from pallasite.layouts.planner.fields import Mask
from pallasite.layouts.planner.lines import Array, distinct_values
from pallasite.layouts.planner.patterns import IDENTITY, one_source
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.words import unique_rows
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.layouts.strategies.flat_rows import SUBLANE, Pieces

_PATTERNS = 64
"""Shuffles of more kinds are rotations, of which there are eight."""


def move_rows(program: Program, x: int, register: Array, sublane: Array) -> int:
    """A flat value whose row (n, s) is row (register, sublane)[n, s] of `x`; -1 may be anything.

    Each register is shuffled by every pattern that is needed, then rows are selected where the next
    one comes from another register.
    """
    kinds = (_Shuffles.rotations, _Shuffles.spreads, _Shuffles.patterns)
    ways = (way for kind in kinds if (way := kind(register, sublane)) is not None)
    return min(ways, key=lambda way: way.cost(program)).make(program, x)


@dataclass(frozen=True)
class _Shuffles:
    """Shuffled registers, and from which of them every row comes."""

    kinds: list[tuple[int, ...]]
    """Patterns of one source."""
    used: list[Array]
    """Per kind, the registers that are shuffled in this way."""
    place: Array
    """[registers, 8]: the number of the shuffled register that a row comes from."""

    @classmethod
    def of(cls, kinds: list[tuple[int, ...]], kind: Array, register: Array) -> _Shuffles:
        """Row (n, s) comes from `register`, shuffled by the pattern with number `kind`."""
        place = np.full(register.shape, -1)
        used: list[Array] = []
        at = 0
        for number in range(len(kinds)):
            here = (kind == number) & (register >= 0)
            used.append(distinct_values(register[here]))
            place[here] = np.searchsorted(used[-1], register[here]) + at
            at += used[-1].size
        return cls(kinds, used, _continued(place))

    @classmethod
    def rotations(cls, register: Array, sublane: Array) -> _Shuffles:
        kinds = [one_source({(turn + s) % SUBLANES: s for s in (0, 1)}) for turn in range(SUBLANES)]
        return cls.of(kinds, (SUBLANE - sublane) % SUBLANES, register)

    @classmethod
    def spreads(cls, register: Array, sublane: Array) -> _Shuffles:
        """Where several rows come from one source row, it is replicated to all of them."""
        return cls.of([(s,) * SUBLANES for s in range(SUBLANES)], sublane, register)

    @classmethod
    def patterns(cls, register: Array, sublane: Array) -> _Shuffles | None:
        """One shuffle per register makes all rows that come from it; None if patterns differ a
        lot."""
        rank, _ = ranked(register)
        rows = np.where(register >= 0, sublane, -1)
        _, first, inverse = unique_rows(np.concatenate([rank, rows], 1))
        if first.size > _PATTERNS:
            return None
        kinds: dict[tuple[int, ...], int] = {}
        number = np.zeros((first.size, SUBLANES), np.int64)
        for of, ranks, mine in zip(number, rank[first], rows[first], strict=True):
            for one in distinct_values(ranks[ranks >= 0]):
                here = np.nonzero(ranks == one)[0].tolist()
                pattern = one_source({s: int(mine[s]) for s in here})
                of[here] = kinds.setdefault(pattern, len(kinds))
        return cls.of([*kinds], number[inverse], register)

    def cost(self, program: Program) -> float:
        """The cost of all instructions."""
        shuffled = [u.size for k, u in zip(self.kinds, self.used, strict=True) if k != IDENTITY]
        selected = int((self.place[:, 1:] != self.place[:, :-1]).sum())
        costs = program.costs
        return costs.copies * (sum(shuffled) + selected) + costs.grid_instruction * len(shuffled)

    def make(self, program: Program, x: int) -> int:
        place = self.place
        pieces = [
            program.shuffle(program.take(x, used), None, kind)
            for kind, used in zip(self.kinds, self.used, strict=True)
            if used.size
        ]
        source = program.concat(pieces)
        value = program.take(source, place[:, 0])
        for s in range(1, SUBLANES):
            changed = np.nonzero(place[:, s] != place[:, s - 1])[0]
            if changed.size:
                made = Pieces(program, len(place))
                made.add(value, np.arange(len(place)))
                new, old = program.take(source, place[changed, s]), program.take(value, changed)
                made.add(program.select(Mask(((s, SUBLANES, 0, LANES),)), new, old), changed)
                value = made.value()
        return value


def _continued(place: Array) -> Array:
    """Fills places of rows that may be anything from the row before, or else the next one."""
    place = place.copy()
    for s in (*range(1, SUBLANES), *range(SUBLANES - 2, -1, -1)):
        beside = place[:, s - 1] if s and (place[:, s - 1] >= 0).any() else place[:, s]
        place[:, s] = np.where(place[:, s] < 0, beside, place[:, s])
    for s in range(SUBLANES - 2, -1, -1):
        place[:, s] = np.where(place[:, s] < 0, place[:, s + 1], place[:, s])
    return place
