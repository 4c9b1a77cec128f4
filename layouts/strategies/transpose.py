"""Lanes that come from sublanes or registers: transposes of 128x128 blocks.

Only the cross-lane unit exchanges lanes with rows. If the lanes of the destination run along
another dimension of the source than the source's lanes, the move is split in three: bring that
dimension onto the sublanes, transpose the matrix of native tiles, plan the rest from the transposed
layout. Elements of a width that the unit does not take are unpacked to 32 bits around the whole
movement (spec/vreg_lowering.md sections 1.8, 7.10).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pallasite.diagnostics import Unsupported
from pallasite.layouts.move import Laid, Move
from pallasite.layouts.plan import Plan, Value
from pallasite.layouts.planner.budget import TooDear
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.trace import Trace
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.layouts.vector_layout import VectorLayout

_TURNED_BITS = 16
"""Elements that the transpose unit takes on every target; others are unpacked around the
movement, which helps to rotate them, too."""
_FEW_REGISTERS = SUBLANES // 2 + 1

Planner = Callable[[Move, Costs], Plan]


def by_transposing(move: Move, found: Trace, costs: Costs, plan: Planner) -> Plan | None:
    """The cheapest plan through transposed sources; None if lanes come from lanes anyway."""
    dims = _walked(move, found)
    if not dims:
        return None
    if move.bits not in costs.transpose_bits:
        return by_widening(move, costs, plan) or _by_native_tiles(move, costs, plan)
    plans = [p for d in dims if (p := _through(move, d, costs, plan)) is not None]
    return min(plans, key=lambda p: p.cost, default=None)


def by_aligning(move: Move, costs: Costs, plan: Planner) -> Plan | None:
    """The plan of a concatenation of sources whose lanes are different dimensions.

    Each source is transposed by itself first, or all of them together after concatenating. None if
    no source has its lanes along another dimension than the destination.
    """
    layout, _ = move.destination
    if len(move.sources) == 1 or move.steps or layout.lane_dim is None:
        return None
    if all(lies_along(source, layout.lane_dim) for source in move.sources):
        return None
    wanted = VectorLayout(layout.bits, layout.sublane_dim, layout.lane_dim)
    ways = [_turned_apart(move, wanted, costs, plan), _turned_together(move, costs, plan)]
    if any(shape[layout.lane_dim] == 1 for _, shape in move.sources):
        # Columns that are in all lanes need not be moved along these.
        spread = wanted.with_offsets(wanted.row, None)
        ways.append(_turned_apart(move, spread, costs, plan))
    return min((p for p in ways if p is not None), key=lambda p: p.cost, default=None)


def _turned_apart(move: Move, wanted: VectorLayout, costs: Costs, plan: Planner) -> Plan | None:
    """Each source is brought to the layout `wanted`, but none of several columns into all lanes."""
    layout, _ = move.destination
    assert layout.lane_dim is not None
    program = Program(_sources(move), move.bits, costs)
    values: list[int] = []
    turned: list[Laid] = []
    try:
        for number, (source, shape) in enumerate(move.sources):
            value = number
            if not lies_along((source, shape), layout.lane_dim):
                column = wanted.column if shape[layout.lane_dim] == 1 else 0
                own = wanted.with_offsets(wanted.row, column)
                first = plan(Move.relayout(source, shape, own), costs)
                value, source = append(program, first, [value]), own
            values.append(value)
            turned.append((source, shape))
        rest = plan(replace(move, sources=tuple(turned)), costs)
    except Unsupported:
        return None
    return program.plan(append(program, rest, values), f"turn sources, {rest.how}")


def _turned_together(move: Move, costs: Costs, plan: Planner) -> Plan | None:
    """Sources are concatenated along the sublanes and then transposed; None if their lanes
    differ."""
    layout, shape = move.destination
    lanes = {source.lane_dim for source, _ in move.sources}
    if len(lanes) > 1 or move.bits not in costs.transpose_bits or not layout.is_native:
        return None
    joined = VectorLayout(move.bits, layout.lane_dim, lanes.pop())
    program = Program(_sources(move), move.bits, costs)
    try:
        first = plan(replace(move, destination=(joined, shape)), costs)
        value = append(program, first, list(range(len(move.sources))))
        value, turned = transpose_value(program, value, joined, shape)
        last = plan(Move.relayout(turned, shape, layout), costs)
    except Unsupported:
        return None
    return program.plan(append(program, last, [value]), f"{first.how}, turn, {last.how}")


def lies_along(source: Laid, dim: int) -> bool:
    """Whether the lanes of a source are dimension `dim`, or could as well be (extent 1)."""
    layout, shape = source
    return layout.lane_dim == dim or (shape[dim] == 1 and layout.extents(shape)[1] == 1)


def _walked(move: Move, found: Trace) -> list[int]:
    """The source dimensions that the lanes of the destination run along, unless these are on lanes.

    Empty, too, if all of them have extent 1: such dimensions are interchangeable.
    """
    walked = [d for d, slope in enumerate(found.walked) if slope]
    (source, shape), (layout, result) = move.sources[0], move.destination
    (rows, lanes), (height, width) = source.extents(shape), layout.extents(result)
    column = len(move.sources) == rows == width == 1 < min(lanes, height)
    if column and all(shape[d] == 1 for d in walked):
        # A row becomes a column: its one lane might as well run along the rows, of which one is.
        return [] if source.sublane_dim is None else [source.sublane_dim]
    if move.bits >= _TURNED_BITS and all(shape[d] == 1 for d in walked) and _keeps_rows(found):
        return []  # What becomes columns of one element each is rotated.
    lying = {layout.lane_dim for layout, _ in move.sources}
    extents = (shape[d] for _, shape in move.sources for d in (*walked, *lying) if d is not None)
    return [] if lying & set(walked) or all(n == 1 for n in extents) else walked


def _keeps_rows(found: Trace) -> bool:
    """Whether what lies in the rows of a register comes from one lane, of few registers."""
    wanted = found.register >= 0
    n = len(found.register)
    first = np.where(wanted, found.lane, LANES).min((1, 2))
    if (wanted & (found.lane != first[:, None, None])).any():
        return False
    ordered = np.sort(found.register.reshape(n, -1), 1)
    different = (ordered[:, 1:] != ordered[:, :-1]) & (ordered[:, :-1] >= 0)
    return int(different.sum(1).max(initial=0)) < _FEW_REGISTERS


def turns_lanes(move: Move, found: Trace) -> bool:
    """Whether lanes of the destination come from rows or registers of a source."""
    return bool(_walked(move, found))


def _sources(move: Move) -> list[Value]:
    return [Value(layout.grid_shape(shape), layout.packing) for layout, shape in move.sources]


def _through(move: Move, dim: int, costs: Costs, plan: Planner) -> Plan | None:
    program = Program(_sources(move), move.bits, costs, costs.most)
    turned: list[Laid] = []
    values: list[int] = []
    try:
        for number, (layout, shape) in enumerate(move.sources):
            value = number
            if layout.sublane_dim != dim or not layout.is_native:
                column = None if layout.column is None else layout.column % LANES
                wanted = VectorLayout(layout.bits, dim, layout.lane_dim, 0, column)
                first = plan(Move.relayout(layout, shape, wanted), _left(costs, program))
                value, layout = append(program, first, [value]), wanted
            value, layout = transpose_value(program, value, layout, shape)
            values.append(value)
            turned.append((layout, shape))
        rest = plan(replace(move, sources=tuple(turned)), _left(costs, program))
        result = append(program, rest, values)
    except (Unsupported, TooDear):
        return None
    return program.plan(result, f"transpose, {rest.how}")


def _left(costs: Costs, program: Program) -> Costs:
    """The cost limits for the plan of a part of `program`."""
    return costs.below(program.limit - program.spent)


def append(program: Program, plan: Plan, operands: list[int]) -> int:
    """Adds the steps of `plan` to `program`, with the values `operands` as its sources."""
    numbers = dict(enumerate(operands))
    for number, step in enumerate(plan.steps, plan.sources):
        moved = step.on(tuple([numbers[o] for o in step.operands]))
        numbers[number] = program.add(moved, plan.values[number])
    return numbers[plan.result]


def transpose_value(
    program: Program, value: int, layout: VectorLayout, shape: tuple[int, ...]
) -> tuple[int, VectorLayout]:
    """Exchanges the roles of sublanes and lanes of a value in a native layout."""
    rows = layout.native_rows
    side = LANES // rows
    *lead, r, c = layout.grid_shape(shape)
    # What is the same in all rows fills as many registers as there are lanes of it then.
    copies = 1 if layout.row is not None else -(-layout.extents(shape)[0] // rows)
    padded = -(-r * copies // side) * side
    table = np.full((int(np.prod(lead)), padded, c), -1)
    held = np.arange(table.shape[0] * r * c).reshape(table.shape[0], r, c)
    table[:, : r * copies] = np.repeat(held, copies, axis=1)
    flat = program.take(program.flat(value), table.reshape(-1))
    skipped, row = (0, None) if layout.column is None else divmod(layout.column, rows)
    result = VectorLayout(layout.bits, layout.lane_dim, layout.sublane_dim, row, layout.row or 0)
    *_, r2, c2 = result.grid_shape(shape)
    used = table.shape[0] * (r * copies * c + r2 * c2) * side / table.size
    made = program.transpose_blocks(program.reshape(flat, (*lead, padded, c)), used)
    whole = np.arange(program.size(made)).reshape(table.shape[0], *program.values[made].grid[-2:])
    kept = whole[:, skipped : skipped + r2, :c2].reshape(-1)
    made = program.take(program.flat(made), kept)
    return program.reshape(made, result.grid_shape(shape)), result


def by_widening(move: Move, costs: Costs, plan: Planner) -> Plan | None:
    """Unpacks all sources to 32 bits, plans the movement there, and packs the result.

    None if there is no such plan, or if not all layouts are native.
    """
    layout, shape = move.destination
    if not layout.is_native or not all(source.is_native for source, _ in move.sources):
        return None
    program = Program(_sources(move), move.bits, costs)
    wide: list[Laid] = []
    values: list[int] = []
    for number, (source, extents) in enumerate(move.sources):
        value, wider = _unpack(program, number, source, extents)
        values.append(value)
        wide.append((wider, extents))
    target, skipped = _wide_layout(layout)
    try:
        inner = plan(replace(move, sources=tuple(wide), destination=(target, shape)), costs)
    except Unsupported:
        return None
    # What the inner plan calls an element is a word of this one.
    words = tuple(replace(v, kind="word") for v in inner.values)
    made = append(program, replace(inner, values=words), values)
    result = _pack(program, made, layout, target, skipped, shape)
    return program.plan(result, f"unpack, {inner.how}, pack")


def _by_native_tiles(move: Move, costs: Costs, plan: Planner) -> Plan | None:
    """Brings all sources to native tiles, plans the movement there, and brings the result to its
    own tiles.

    None if there is no such plan, or if all layouts are native.
    """
    layout, shape = move.destination
    if layout.is_native and all(source.is_native for source, _ in move.sources):
        return None
    program = Program(_sources(move), move.bits, costs, costs.most)
    values: list[int] = []
    sources: list[Laid] = []
    try:
        for number, (source, extents) in enumerate(move.sources):
            wanted = _native(source)
            first = plan(Move.relayout(source, extents, wanted), _left(costs, program))
            values.append(append(program, first, [number]))
            sources.append((wanted, extents))
        wanted = _native(layout)
        turned = replace(move, sources=tuple(sources), destination=(wanted, shape))
        inner = plan(turned, _left(costs, program))
        value = append(program, inner, values)
        last = plan(Move.relayout(wanted, shape, layout), _left(costs, program))
        result = append(program, last, [value])
    except (Unsupported, TooDear):
        return None
    return program.plan(result, f"native tiles, {inner.how}")


def _native(layout: VectorLayout) -> VectorLayout:
    """The layout with native tiles along the same dimensions, at offset 0."""
    if layout.is_native:
        return layout
    row, column = (None if place is None else 0 for place in (layout.row, layout.column))
    return VectorLayout(layout.bits, layout.sublane_dim, layout.lane_dim, row, column)


def _wide_layout(layout: VectorLayout) -> tuple[VectorLayout, int]:
    """The 32-bit layout of the unpacked registers, and how many leading row blocks it omits."""
    skipped, row = (0, None) if layout.row is None else divmod(layout.row, SUBLANES)
    return VectorLayout(32, layout.sublane_dim, layout.lane_dim, row, layout.column), skipped


def _unpack(
    program: Program, value: int, layout: VectorLayout, shape: tuple[int, ...]
) -> tuple[int, VectorLayout]:
    wide, skipped = _wide_layout(layout)
    p = layout.packing
    *_, r, c = layout.grid_shape(shape)
    flat = program.flat(value)
    parts = program.concat([program.unpack(flat, i, "compressed") for i in range(p)])
    # Part i of row block b is row block b * p + i.
    numbers = np.arange(program.size(parts)).reshape(p, -1, r, c)
    blocks = numbers.transpose(1, 2, 0, 3).reshape(-1, r * p, c)
    grid = wide.grid_shape(shape)
    kept = blocks[:, skipped : skipped + grid[-2]].reshape(-1)
    return program.reshape(program.take(parts, kept), grid), wide


def _pack(
    program: Program,
    value: int,
    layout: VectorLayout,
    wide: VectorLayout,
    skipped: int,
    shape: tuple[int, ...],
) -> int:
    p = layout.packing
    *lead, r, c = layout.grid_shape(shape)
    *_, blocks, _ = wide.grid_shape(shape)
    count = int(np.prod(lead))
    table = np.full((count, r * p, c), -1)
    numbers = np.arange(count * blocks * c).reshape(count, blocks, c)
    if layout.row is None:
        table[:] = numbers
    else:
        table[:, skipped : skipped + blocks] = numbers
    flat = program.flat(value)
    parts = table.reshape(count, r, p, c)
    operands = [program.take(flat, parts[:, :, i].reshape(-1)) for i in range(p)]
    return program.reshape(program.pack(operands, "compressed"), layout.grid_shape(shape))
