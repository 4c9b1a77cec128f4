"""Moves rows to other registers and sublanes, keeping their lanes: shuffles and selects."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from pallasite.layouts.planner.classes import RegisterClass, classes
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.fields import Mask
from pallasite.layouts.planner.layers import Layer, layers_of
from pallasite.layouts.planner.lines import Array, distinct_values
from pallasite.layouts.planner.patterns import (
    IDENTITY,
    is_rotation,
    one_source,
    stacked_rows,
    sublane_mask,
)
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.words import unique_rows
from pallasite.layouts.registers import LANES, SUBLANES

_CLASS = 1
"""To find out how a class of registers is filled counts as this many steps."""


Pattern = tuple[int, ...]


def move_rows(
    program: Program, x: int, register: Array, sublane: Array, starts: Array, costs: Costs
) -> int:
    """A flat value whose word (n, s, lane) is word (register, sublane, lane) of the flat value `x`.

    `register` and `sublane` are [registers, 8, segments], -1 where any word will do.
    """
    n, size = len(register), program.size(x)
    position, pieces, at = np.full(n, -1), list[int](), 0
    same = copies(register, sublane)
    copied = np.nonzero(same >= 0)[0]
    if copied.size:
        pieces.append(program.take(x, same[copied]))
        position[copied], at = np.arange(copied.size), copied.size
    rest = np.nonzero((same < 0) & (register >= 0).any((1, 2)))[0]
    if rest.size:
        shared = _Shared(program, x, costs)
        fills: list[_Fill] = []
        for group in classes(register[rest], sublane[rest]):
            group.table = np.minimum(group.table, size - 1)
            fills.append(_Fill(group, starts, costs))
            fills[-1].announce(shared)
            program.work(_CLASS)
        program.afford(costs.copies * (shared.least() + sum(fill.least() for fill in fills)))
        for fill in fills:
            made = fill.run(program, x, shared)
            pieces.append(made)
            position[rest[fill.group.members]] = fill.inverse + at
            at += program.size(made)
    return program.take(program.concat(pieces), position)


def copies(register: Array, sublane: Array) -> Array:
    """Per destination register, the one source register that is already equal to it, or -1."""
    wanted = register >= 0
    source = register.max((1, 2))
    same = ~wanted | (
        (register == source[:, None, None]) & (sublane == np.arange(SUBLANES)[None, :, None])
    )
    return np.where(same.all((1, 2)), source, -1)


def _together(pattern: Sequence[int], costs: Costs) -> bool:
    """Whether two registers are best combined by two-register shuffles of their own.

    Otherwise each register is shuffled by itself and a select combines them. That pays where
    shuffled registers are shared with neighbours: rotated ones are, others seldom.
    """
    cost = costs.merge(pattern)
    return cost == 1 or (cost == 2 and _is_single(tuple(pattern)))


@lru_cache(maxsize=4096)
def _is_single(pattern: Pattern) -> bool:
    """Whether shuffles of each register by itself would hardly be shared with other registers."""
    alone = [one_source(rows) for rows in stacked_rows(pattern)]
    return IDENTITY not in alone and not all(is_rotation(p) for p in alone)


class _Shared:
    """Shuffles of single registers and merges of pairs, each made once for all that need it.

    Neighbouring destinations need the two halves of the same rotated register, and a destination
    whose lanes come from two columns of registers needs rows that its neighbour needs, too. All
    requests must be announced before `least` and the first use.
    """

    def __init__(self, program: Program, x: int, costs: Costs) -> None:
        self._program, self._x, self._costs = program, x, costs
        self._size = program.size(x)
        self._announced: dict[tuple[Pattern, bool], list[Array]] = {}
        """The registers, or numbers of pairs, that are wanted by a pattern of one, or of two."""
        self._alone: dict[Pattern, Array] = {}
        self._pairs: dict[Pattern, Array] = {}
        self._made: dict[tuple[Pattern, bool], int] = {}

    def announce(self, pattern: Pattern, registers: Array) -> None:
        self._announced.setdefault((pattern, False), []).append(registers)

    def announce_pair(self, pattern: Pattern, first: Array, second: Array) -> None:
        numbers = first * self._size + second
        self._announced.setdefault((pattern, True), []).append(numbers)
        if not _together(pattern, self._costs):
            for rows, registers in zip(stacked_rows(pattern), (first, second), strict=True):
                self.announce(one_source(rows), registers)

    def least(self) -> int:
        """A lower bound of the instructions for all announced requests; ends the announcements."""
        for (pattern, paired), registers in self._announced.items():
            (self._pairs if paired else self._alone)[pattern] = distinct_values(registers)
        alone = sum(union.size for pattern, union in self._alone.items() if pattern != IDENTITY)
        # A register that needs one of the two only may be paired with itself.
        pairs = [union // self._size != union % self._size for union in self._pairs.values()]
        return alone + sum([int(np.count_nonzero(different)) for different in pairs])

    def get(self, pattern: Pattern, registers: Array) -> int:
        """Registers shuffled by a one-register pattern."""
        if pattern == IDENTITY:
            return self._program.take(self._x, registers)
        union = self._alone[pattern]
        if (pattern, False) not in self._made:
            taken = self._program.take(self._x, union)
            self._made[pattern, False] = self._program.shuffle(taken, None, pattern)
        made = self._made[pattern, False]
        return self._program.take(made, np.searchsorted(union, registers))

    def merge(self, pattern: Pattern, first: Array, second: Array) -> int:
        """Pairs of registers combined by a two-register pattern."""
        union = self._pairs[pattern]
        if (pattern, True) not in self._made:
            left, right = np.divmod(union, self._size)
            self._made[pattern, True] = self._merge(pattern, left, right)
        where = np.searchsorted(union, first * self._size + second)
        return self._program.take(self._made[pattern, True], where)

    def _merge(self, pattern: Pattern, first: Array, second: Array) -> int:
        if _together(pattern, self._costs):
            a, b = (self._program.take(self._x, t) for t in (first, second))
            return self._program.merge(a, b, pattern, self._costs)
        rows = stacked_rows(pattern)
        a, b = (self.get(one_source(r), t) for r, t in zip(rows, (first, second), strict=True))
        return self._program.select(sublane_mask(list(rows[1]), list(rows[0])), b, a)


class _Fill:
    """How the distinct registers of a class are filled: by layers, each from pairs of sources."""

    def __init__(self, group: RegisterClass, starts: Array, costs: Costs) -> None:
        self.group, self._starts, self._costs = group, starts, costs
        used = distinct_values(group.rank[group.rank >= 0]).tolist()
        every = len(used) == group.table.shape[1]
        table, _, self.inverse = unique_rows(group.table if every else group.table[:, used])
        self._column = {rank: table[:, i] for i, rank in enumerate(used)}
        self._layers = [(layer, self._pair(layer)) for layer in layers_of(group)]

    def _pair(self, layer: Layer) -> list[tuple[int, ...]]:
        """The sources of a layer, in pairs where combining two directly is best."""
        left = layer.ranks()
        if len(left) == 2:
            return [(left[0], left[1])]
        result: list[tuple[int, ...]] = []
        while left:
            first = left.pop(0)
            patterns = {r: layer.pattern(first, r) for r in left}
            partner = next((r for r in left if _together(patterns[r], self._costs)), None)
            if partner is not None:
                left.remove(partner)
            result.append((first,) if partner is None else (first, partner))
        return result

    def _waits(self, pairs: list[tuple[int, ...]]) -> bool:
        """Whether an odd source is left unshuffled until it is combined: any pattern is allowed
        then."""
        return self._costs.any_shuffle and len(pairs) > 1

    def announce(self, shared: _Shared) -> None:
        for layer, pairs in self._layers:
            for pair in pairs:
                if len(pair) == 2:
                    pattern = tuple(layer.pattern(pair[0], pair[1]))
                    shared.announce_pair(pattern, *(self._column[rank] for rank in pair))
                elif not self._waits(pairs):
                    pattern = one_source(layer.rows_from(pair[0]))
                    shared.announce(pattern, self._column[pair[0]])

    def least(self) -> int:
        """A lower bound of the instructions that combine the pairs and single sources."""
        parts = sum(len(pairs) for _, pairs in self._layers)
        return (parts - 1) * len(next(iter(self._column.values())))

    def run(self, program: Program, x: int, shared: _Shared) -> int:
        """The distinct registers of the class, flat."""
        result: int | None = None
        for layer, pairs in self._layers:
            made = self._layer(program, x, shared, layer, pairs)
            if result is None:
                result = made
            else:
                result = program.select(_mask(layer, self.group, self._starts), made, result)
        assert result is not None
        return result

    def _layer(
        self,
        program: Program,
        x: int,
        shared: _Shared,
        layer: Layer,
        pairs: list[tuple[int, ...]],
    ) -> int:
        nodes: list[tuple[int, dict[int, int]]] = []
        for pair in pairs:
            placed = {s: s for rank in pair for s in layer.rows_from(rank)}
            columns = [self._column[rank] for rank in pair]
            if len(pair) == 2:
                pattern = tuple(layer.pattern(pair[0], pair[1]))
                nodes.append((shared.merge(pattern, columns[0], columns[1]), placed))
            elif self._waits(pairs):
                nodes.append((program.take(x, columns[0]), layer.rows_from(pair[0])))
            else:
                pattern = one_source(layer.rows_from(pair[0]))
                nodes.append((shared.get(pattern, columns[0]), placed))
        while len(nodes) > 1:
            joined = [
                self._join(program, nodes[i], nodes[i + 1]) for i in range(0, len(nodes) - 1, 2)
            ]
            nodes = joined + nodes[len(joined) * 2 :]
        return nodes[0][0]

    def _join(
        self, program: Program, a: tuple[int, dict[int, int]], b: tuple[int, dict[int, int]]
    ) -> tuple[int, dict[int, int]]:
        pattern = [
            a[1][s] if s in a[1] else SUBLANES + b[1][s] if s in b[1] else -1
            for s in range(SUBLANES)
        ]
        made = program.merge(a[0], b[0], pattern, self._costs)
        return made, {s: s for s in (*a[1], *b[1])}


def _mask(layer: Layer, group: RegisterClass, starts: Array) -> Mask:
    mine = np.zeros((SUBLANES, starts.size), np.bool_)
    for s, segments in layer.segments.items():
        mine[s, list(segments)] = True
    lengths = np.diff(np.append(starts, LANES))
    wanted, allowed = (np.repeat(f, lengths, 1) for f in (mine, mine | (group.rank < 0)))
    return Mask.of(wanted, allowed)
