"""Whole rows change their register and sublane but keep their lanes: shuffles and selects."""

from __future__ import annotations

import numpy as np

from pallasite.layouts.planner_classes import RegisterClass, classes
from pallasite.layouts.planner_costs import Costs
from pallasite.layouts.planner_fields import Mask
from pallasite.layouts.planner_layers import Layer, layers_of
from pallasite.layouts.planner_lines import Array
from pallasite.layouts.planner_program import IDENTITY, Program, is_rotation, one_source
from pallasite.layouts.planner_words import unique_rows
from pallasite.layouts.registers import LANES, SUBLANES


def move_rows(
    program: Program, x: int, register: Array, sublane: Array, starts: Array, costs: Costs
) -> int:
    """A flat value whose word (n, s, lane) is word (register, sublane, lane) of the flat value `x`.

    `register` and `sublane` are [registers, 8, segments], -1 where nothing matters.
    """
    n, size = len(register), program.size(x)
    position, pieces, at = np.full(n, -1), list[int](), 0
    copies = _copies(register, sublane)
    copied = np.nonzero(copies >= 0)[0]
    if copied.size:
        pieces.append(program.take(x, copies[copied]))
        position[copied], at = np.arange(copied.size), copied.size
    rest = np.nonzero((copies < 0) & (register >= 0).any((1, 2)))[0]
    if rest.size:
        shared = _Shared(program, x)
        fills: list[_Fill] = []
        for group in classes(register[rest], sublane[rest]):
            group.table = np.minimum(group.table, size - 1)
            fills.append(_Fill(group, starts, costs))
            fills[-1].announce(shared)
        for fill in fills:
            made = fill.run(program, x, shared)
            pieces.append(made)
            position[rest[fill.group.members]] = fill.inverse + at
            at += program.size(made)
    return program.take(program.concat(pieces), position)


def _copies(register: Array, sublane: Array) -> Array:
    """Per destination register the one source register that already is what it should be, or -1."""
    wanted = register >= 0
    source = register.max((1, 2))
    same = ~wanted | (
        (register == source[:, None, None]) & (sublane == np.arange(SUBLANES)[None, :, None])
    )
    return np.where(same.all((1, 2)), source, -1)


class _Shared:
    """Shuffles of single registers, each (register, pattern) once for all that need it.

    Neighbouring destinations want the two halves of the same rotated register.
    """

    def __init__(self, program: Program, x: int) -> None:
        self._program, self._x = program, x
        self._wanted: dict[tuple[int, ...], Array] = {}
        self._made: dict[tuple[int, ...], int] = {}

    def announce(self, pattern: tuple[int, ...], registers: Array) -> None:
        """To be called for everything that `get` will be asked for, before the first `get`."""
        known = self._wanted.get(pattern, registers)
        self._wanted[pattern] = np.union1d(known, registers)

    def get(self, pattern: tuple[int, ...], registers: Array) -> int:
        if pattern == IDENTITY:
            return self._program.take(self._x, registers)
        union = self._wanted[pattern]
        if pattern not in self._made:
            taken = self._program.take(self._x, union)
            self._made[pattern] = self._program.shuffle(taken, None, pattern)
        return self._program.take(self._made[pattern], np.searchsorted(union, registers))


class _Fill:
    """How the distinct registers of one class are filled: layers, each from pairs of sources."""

    def __init__(self, group: RegisterClass, starts: Array, costs: Costs) -> None:
        self.group, self._starts, self._costs = group, starts, costs
        used = sorted(set(group.rank[group.rank >= 0].tolist()))
        table, _, self.inverse = unique_rows(np.ascontiguousarray(group.table[:, used]))
        self._column = {rank: table[:, i] for i, rank in enumerate(used)}
        self._layers = layers_of(group)
        self._pairs = [self._pair(layer) for layer in self._layers]

    def _pair(self, layer: Layer) -> list[tuple[int, ...]]:
        """The sources of a layer, two together where one shuffle takes both."""
        left = layer.ranks()
        result: list[tuple[int, ...]] = []
        while left:
            first = left.pop(0)
            partner = next((r for r in left if self._together(layer, first, r)), None)
            if partner is not None:
                left.remove(partner)
            result.append((first,) if partner is None else (first, partner))
        return result

    def _together(self, layer: Layer, first: int, second: int) -> bool:
        """Whether two sources are best taken by instructions of their own."""
        cost = self._costs.merge(layer.pattern(first, second))
        if cost != 2:
            return cost == 1
        patterns = [one_source(layer.rows_from(rank)) for rank in (first, second)]
        # Rotated registers are shared with the neighbours, other shuffles seldom are.
        return IDENTITY not in patterns and not all(is_rotation(p) for p in patterns)

    def _alone(self, pairs: list[tuple[int, ...]]) -> list[int]:
        """The ranks that are shuffled by themselves."""
        # Where any pattern goes, an odd source waits for its merge with the others.
        if self._costs.any_shuffle and len(pairs) > 1:
            return []
        return [pair[0] for pair in pairs if len(pair) == 1]

    def announce(self, shared: _Shared) -> None:
        for layer, pairs in zip(self._layers, self._pairs, strict=True):
            for rank in self._alone(pairs):
                shared.announce(one_source(layer.rows_from(rank)), self._column[rank])

    def run(self, program: Program, x: int, shared: _Shared) -> int:
        """The distinct registers of the class, flat."""
        result: int | None = None
        for layer, pairs in zip(self._layers, self._pairs, strict=True):
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
        alone = self._alone(pairs)
        nodes: list[tuple[int, dict[int, int]]] = []
        for pair in pairs:
            placed = {s: s for rank in pair for s in layer.rows_from(rank)}
            if len(pair) == 2:
                nodes.append((self._both(program, x, layer, pair), placed))
            elif pair[0] in alone:
                pattern = one_source(layer.rows_from(pair[0]))
                nodes.append((shared.get(pattern, self._column[pair[0]]), placed))
            else:
                raw = program.take(x, self._column[pair[0]])
                nodes.append((raw, layer.rows_from(pair[0])))
        while len(nodes) > 1:
            joined = [
                self._join(program, nodes[i], nodes[i + 1]) for i in range(0, len(nodes) - 1, 2)
            ]
            nodes = joined + nodes[len(joined) * 2 :]
        return nodes[0][0]

    def _both(self, program: Program, x: int, layer: Layer, pair: tuple[int, ...]) -> int:
        columns = np.stack([self._column[rank] for rank in pair], 1)
        rows, _, inverse = unique_rows(np.ascontiguousarray(columns))
        a, b = program.take(x, rows[:, 0]), program.take(x, rows[:, 1])
        made = program.merge(a, b, layer.pattern(pair[0], pair[1]), self._costs)
        return program.take(made, inverse)

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
    ends = np.append(starts[1:], LANES)
    wanted = np.zeros((SUBLANES, LANES), np.bool_)
    allowed = np.ones((SUBLANES, LANES), np.bool_)
    for s in range(SUBLANES):
        for segment, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            mine = segment in layer.segments.get(s, ())
            wanted[s, start:end] = mine
            allowed[s, start:end] = mine or group.rank[s, segment] < 0
    return Mask.of(wanted, allowed)
