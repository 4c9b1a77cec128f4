"""Whole rows change their register and sublane but keep their lanes: shuffles and selects."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pallasite.layouts.planner_classes import RegisterClass, classes
from pallasite.layouts.planner_costs import Costs
from pallasite.layouts.planner_fields import Mask
from pallasite.layouts.planner_lines import Array
from pallasite.layouts.planner_program import IDENTITY, Program
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
        for group in classes(register[rest], sublane[rest]):
            group.table = np.minimum(group.table, size - 1)
            made, where = _fill(program, x, group, starts, costs)
            pieces.append(made)
            position[rest[group.members]] = where + at
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


@dataclass
class _Layer:
    """Per sublane one source row, and the segments of lanes where it is wanted."""

    rows: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    segments: dict[int, list[int]] = field(default_factory=dict[int, list[int]])


def _layers(group: RegisterClass) -> list[_Layer]:
    """Splits a pattern into layers that differ along the sublanes only.

    Sublanes with most sources go first, so that the layers follow the sources.
    """
    wanted: list[tuple[int, dict[tuple[int, int], list[int]]]] = []
    for s in range(SUBLANES):
        sources: dict[tuple[int, int], list[int]] = {}
        for segment, (rank, row) in enumerate(
            zip(group.rank[s].tolist(), group.sublane[s].tolist(), strict=True)
        ):
            if rank >= 0:
                sources.setdefault((rank, row), []).append(segment)
        wanted.append((s, sources))
    layers: list[_Layer] = []
    for s, sources in sorted(wanted, key=lambda item: (-len(item[1]), item[0])):
        for (rank, row), segments in sources.items():
            free = [layer for layer in layers if s not in layer.rows]
            layer = max(free, key=lambda f: _affinity(f, s, rank, row), default=None)
            if layer is None:
                layer = _Layer()
                layers.append(layer)
            layer.rows[s] = (rank, row)
            layer.segments[s] = segments
    return layers


def _affinity(layer: _Layer, sublane: int, rank: int, row: int) -> tuple[int, int]:
    """How well a row fits a layer: shared source registers, then shared displacement."""
    shared = sum(r == rank for r, _ in layer.rows.values())
    moves = sum(t - s == row - sublane for s, (_, t) in layer.rows.items())
    return (shared, moves)


def _fill(
    program: Program, x: int, group: RegisterClass, starts: Array, costs: Costs
) -> tuple[int, Array]:
    """The registers of one class, each distinct one once, and where each member is."""
    used = sorted({r for r in group.rank[group.rank >= 0].tolist()})
    table, _, inverse = unique_rows(np.ascontiguousarray(group.table[:, used]))
    column = {rank: table[:, i] for i, rank in enumerate(used)}
    result: int | None = None
    for layer in _layers(group):
        made = _shuffle_tree(program, x, layer, column, costs)
        if result is None:
            result = made
            continue
        result = program.select(_layer_mask(layer, group, starts), made, result)
    assert result is not None
    return result, inverse


def _layer_mask(layer: _Layer, group: RegisterClass, starts: Array) -> Mask:
    ends = np.append(starts[1:], LANES)
    wanted = np.zeros((SUBLANES, LANES), np.bool_)
    allowed = np.ones((SUBLANES, LANES), np.bool_)
    for s in range(SUBLANES):
        for segment, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            mine = segment in layer.segments.get(s, ())
            wanted[s, start:end] = mine
            allowed[s, start:end] = mine or group.rank[s, segment] < 0
    return Mask.of(wanted, allowed)


def _shuffle_tree(
    program: Program, x: int, layer: _Layer, column: dict[int, Array], costs: Costs
) -> int:
    """Collects the rows of one layer from its sources, two registers at a time."""
    rows = {s: row for s, (_, row) in layer.rows.items()}
    nodes = [
        (ranks, [s for s, (rank, _) in layer.rows.items() if rank == ranks])
        for ranks in sorted({rank for rank, _ in layer.rows.values()})
    ]
    level = [(_operands(program, x, (column[rank],)), sublanes) for rank, sublanes in nodes]
    if len(level) == 1:
        (values, inverse), _ = level[0]
        made = program.shuffle(values[0], None, _pattern(rows, None))
        return program.take(made, inverse)
    pairs: list[tuple[int, list[int]]] = []
    for first in range(0, len(nodes), 2):
        if first + 1 == len(nodes):
            (values, inverse), sublanes = level[first]
            pairs.append((program.take(values[0], inverse), sublanes))
            continue
        (a, left), (b, right) = nodes[first], nodes[first + 1]
        (va, vb), inverse = _operands(program, x, (column[a], column[b]))
        made = _combine(program, va, vb, rows, left, right, costs)
        pairs.append((program.take(made, inverse), left + right))
        rows |= {s: s for s in left + right}
    while len(pairs) > 1:
        joined: list[tuple[int, list[int]]] = []
        for first in range(0, len(pairs), 2):
            if first + 1 == len(pairs):
                joined.append(pairs[first])
                continue
            (va, left), (vb, right) = pairs[first], pairs[first + 1]
            made = _combine(program, va, vb, rows, left, right, costs)
            rows |= {s: s for s in left + right}
            joined.append((made, left + right))
        pairs = joined
    return pairs[0][0]


def _operands(program: Program, x: int, columns: tuple[Array, ...]) -> tuple[list[int], Array]:
    """Operands of one grid instruction: each distinct combination once, and where each went."""
    rows, _, inverse = unique_rows(np.ascontiguousarray(np.stack(columns, 1)))
    return [program.take(x, rows[:, i]) for i in range(len(columns))], inverse


def _combine(
    program: Program,
    a: int,
    b: int,
    rows: dict[int, int],
    left: list[int],
    right: list[int],
    costs: Costs,
) -> int:
    """Rows of `a` to the sublanes `left`, rows of `b` to the sublanes `right`."""
    pattern = [rows[s] if s in left else SUBLANES + rows[s] if s in right else -1 for s in range(8)]
    left_moves = any(rows[s] != s for s in left)
    right_moves = any(rows[s] != s for s in right)
    if 1 + left_moves + right_moves < costs.two_source_shuffle or not (left_moves or right_moves):
        if costs.two_source_shuffle > 1:
            a = program.shuffle(a, None, _pattern({s: rows[s] for s in left}, None))
            b = program.shuffle(b, None, _pattern({s: rows[s] for s in right}, None))
            return program.select(_sublane_mask(right, left), b, a)
    return program.shuffle(a, b, [s if p < 0 else p for s, p in enumerate(pattern)])


def _sublane_mask(wanted: list[int], forbidden: list[int]) -> Mask:
    lines = np.isin(np.arange(SUBLANES), wanted)
    allowed = ~np.isin(np.arange(SUBLANES), forbidden)
    full = np.ones((1, LANES), np.bool_)
    return Mask.of(lines[:, None] & full, allowed[:, None] & full)


def _pattern(rows: dict[int, int], default: int | None) -> tuple[int, ...]:
    """A one-source pattern; sublanes that do not matter follow a rotation or stay."""
    if all(s == row for s, row in rows.items()):
        return IDENTITY
    turns = {(row - s) % SUBLANES for s, row in rows.items()}
    if len(turns) == 1:
        turn = turns.pop()
        return tuple((s + turn) % SUBLANES for s in range(SUBLANES))
    if len(set(rows.values())) == 1:
        return (next(iter(rows.values())),) * SUBLANES
    return tuple(rows.get(s, s) for s in range(SUBLANES))
