"""Groups destination registers that are filled by the same pattern into classes.

A pattern refers to the source registers of its destination register only by rank (0 for the lowest
number), so one grid instruction serves a whole class. Patterns that differ only in words that one
of them does not need are merged (spec/grid_form.md section 2.1, step 5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pallasite.layouts.planner.lines import Array, first_places
from pallasite.layouts.planner.words import unique_rows


@dataclass
class RegisterClass:
    """Destination registers `members` that are filled by the same pattern.

    `rank` and `sublane` are [8, segments]: the source of each part of a register, -1 for none.
    """

    members: Array
    rank: Array
    sublane: Array
    table: Array
    """[members, ranks]: the number of the source register of each rank."""


def ranked(register: Array) -> tuple[Array, Array]:
    """Replaces source numbers by their rank among the sources of the same destination register.

    Returns the ranks (shaped as `register`) and the table [registers, ranks] of source numbers.
    """
    n = len(register)
    flat = register.reshape(n, -1)
    big = int(flat.max(initial=-1)) + 2
    numbered = (flat + 1 + np.arange(n)[:, None] * big).reshape(-1)
    first, inverse = first_places(numbered)
    keys = numbered[first]
    owner, source = keys // big, keys % big - 1
    real = source >= 0
    count = np.bincount(owner[real], minlength=n)
    position = np.cumsum(real) - 1 - (np.cumsum(count) - count)[owner]
    rank = np.where(real, position, -1)[inverse.reshape(flat.shape)]
    table = np.full((n, max(int(count.max(initial=0)), 1)), -1)
    table[owner[real], position[real]] = source[real]
    return rank.reshape(register.shape), table


def classes(register: Array, sublane: Array) -> list[RegisterClass]:
    """Groups destination registers into few classes.

    `register` and `sublane` are [registers, 8, segments]: the source of each part, -1 for none.
    """
    n = len(register)
    rank, table = ranked(register)
    sublane = np.where(rank >= 0, sublane, -1)
    key = np.stack([rank, sublane], 1).reshape(n, -1).astype(np.int16)
    _, first, inverse = unique_rows(key)
    rank, sublane = rank[first], sublane[first]
    support = (rank >= 0).sum((1, 2))
    ends = np.bincount(inverse).cumsum().tolist()
    ordered = np.argsort(inverse, kind="stable")
    groups = [ordered[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    merged: list[_Merging] = []
    # The sublanes of all classes so far, to exclude those that cannot fit by one comparison.
    flat = sublane.reshape(len(first), -1).astype(np.int8)
    places = np.full(flat.shape, -1, np.int8)
    for pattern in np.argsort(-support, kind="stable").tolist():
        if not support[pattern]:
            continue
        ranks, sublanes, mine = rank[pattern], sublane[pattern], flat[pattern]
        there = places[: len(merged)]
        # The bitwise or is negative if either is -1, which fits anything.
        fitting = ((there == mine) | ((there | mine) < 0)).all(1)
        for number in np.nonzero(fitting)[0].tolist():
            if merged[number].accept(ranks, sublanes, groups[pattern]):
                np.maximum(places[number], mine, out=places[number])
                break
        else:
            places[len(merged)] = mine
            merged.append(_Merging(ranks, sublanes, groups[pattern]))
    return [m.finish(table) for m in merged]


class _Merging:
    """A class under construction: a pattern, and per group of members a map of ranks to it."""

    def __init__(self, rank: Array, sublane: Array, members: Array) -> None:
        self.rank, self.sublane = rank, sublane
        self._ranks = int(rank.max()) + 1
        self._groups = [(members, np.arange(self._ranks))]

    def accept(self, rank: Array, sublane: Array, members: Array) -> bool:
        """Merges a pattern with this class if a one-to-one renaming makes their ranks agree.

        The caller has compared the sublanes. Returns whether the pattern was merged.
        """
        both = (self.rank >= 0) & (rank >= 0)
        pairs = {*zip(self.rank[both].tolist(), rank[both].tolist(), strict=True)}
        renamed = {theirs: mine for mine, theirs in pairs}
        if len(renamed) < len(pairs) or len({*renamed.values()}) < len(pairs):
            return False
        mapping: list[int] = []
        for theirs in range(int(rank.max()) + 1):
            if theirs not in renamed:
                renamed[theirs], self._ranks = self._ranks, self._ranks + 1
            mapping.append(renamed[theirs])
        names = np.array(mapping)
        new = (self.rank < 0) & (rank >= 0)
        self.rank = np.where(new, names[rank], self.rank)
        self.sublane = np.where(new, sublane, self.sublane)
        self._groups.append((members, names))
        return True

    def finish(self, table: Array) -> RegisterClass:
        if len(self._groups) == 1:
            members, names = self._groups[0]
            few = table[members][:, : names.size]
            return RegisterClass(members, self.rank, self.sublane, _continued(few))
        members = np.concatenate([m for m, _ in self._groups])
        result = np.full((members.size, self._ranks), -1)
        at = 0
        for group, mapping in self._groups:
            result[at : at + group.size, mapping] = table[group][:, : mapping.size]
            at += group.size
        order = np.argsort(members)
        return RegisterClass(members[order], self.rank, self.sublane, _continued(result[order]))


def _continued(table: Array) -> Array:
    """Fills the -1 entries of the table so that each column is an arithmetic progression.

    Any register may stand there; in a regular table the operand is a slice of the grid.
    """
    if (table >= 0).all():
        return table
    for column in table.T:
        good = np.nonzero(column >= 0)[0]
        bad = column < 0
        if not bad.any():
            continue
        step = (column[good[1]] - column[good[0]]) // (good[1] - good[0]) if good.size > 1 else 0
        filled = column[good[0]] + step * (np.arange(column.size) - good[0])
        column[bad] = np.maximum(filled[bad], 0)
    return table
