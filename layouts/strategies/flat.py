"""Reshapes between rows of any lengths, through the row-major order of the elements.

Reshapes between rows of different lengths repeat late or never, so that plans by patterns of
registers grow with the block. This one does not. Number the elements of all rows consecutively and
call 128 of them, starting at a multiple of 128, a chunk. Row r of length C begins in lane
`r * C % 128` of a chunk. One gather turns the eight rows of a register into the lanes of their
chunks; its index is affine in sublane and lane and depends on the register by one of at most 128
numbers. Then whole chunks move, row by row (`flat_moves.py`). The rows of the destination are made
from their chunks by the inverse steps.
"""

from __future__ import annotations

import math

import numpy as np

from pallasite.layouts.move import Laid, Move, Reshape, Shape
from pallasite.layouts.plan import Plan, Value
from pallasite.layouts.planner.batch import kept_dims
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.lines import Array, any_along, distinct_values
from pallasite.layouts.planner.program import Program
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.layouts.strategies.flat_moves import move_rows
from pallasite.layouts.strategies.flat_rows import SUBLANE, Pieces, Rows
from pallasite.layouts.strategies.short_rows import REGISTER, packed, unpacked
from pallasite.layouts.vector_layout import VectorLayout

_SHORT = LANES // SUBLANES
"""The rows of a register that are not longer fit into one chunk."""

_CHECKED = 4096
"""Elements that are checked beside those that stand for others."""
_JUDGED = 64
"""Blocks of rows by which the cost of other plans is judged."""

_GOLDEN = (math.sqrt(5) - 1) / 2
_FEW_AMOUNTS = 16
"""If rows move by at most this many different numbers of lanes, a rotated register serves several
others."""
_SHARED = 0.55
"""What is left then of the cost: half of it and more, or less."""


def comes_everywhere(move: Move) -> bool:
    """Whether a reshape of short rows goes through chunks that are replicated over the sublanes."""
    ends = _ends(move)
    return ends is not None and _everywhere(*ends)


def _everywhere(source: Rows, target: Rows) -> bool:
    """The same for rows of 32-bit elements; also for targets with one row in each register, whose
    sublane does not matter then."""
    one = not source.apart or not target.apart or not target.valid[:, 1:].any()
    return source.length <= _SHORT and one and not _is_short(target)


def _is_short(rows: Rows) -> bool:
    """Whether the rows of a register, each in its own sublane, fit into one chunk."""
    return rows.apart > 0 and rows.length <= _SHORT


def stays_in_sublanes(move: Move) -> bool:
    """Whether a reshape goes through chunks in every sublane, of what lies in this one."""
    return bool(move.steps) and _of_one_sublane(move) is not None and _ends(move) is not None


def by_chunks(move: Move, costs: Costs) -> Plan | None:
    """The plan of a reshape of 32-bit elements through chunks; None for any other movement."""
    ends = _ends(move)
    if ends is None:
        return None
    source, target = ends
    layout, shape = move.sources[0]
    program = Program([Value(layout.grid_shape(shape), layout.packing)], move.bits, costs)
    everywhere = _everywhere(source, target)
    short = source.length <= _SHORT
    if short:
        # Short rows come together in all sublanes: where they are wanted there, nothing spreads.
        chunks = packed(program, program.flat(0), source, LANES if everywhere else REGISTER)
        if chunks is None:
            return None
    else:
        chunks = _merged(program, _chunked(program, program.flat(0), source), source)

    def find(number: Array) -> tuple[Array, Array]:
        """The register and the sublane of a chunk."""
        if everywhere:
            return number, np.broadcast_to(SUBLANE, number.shape)
        if short:
            return np.divmod(number, SUBLANES)
        # The row in which a chunk begins holds all of it.
        row = number * LANES // source.length
        register = source.register(row, number - row * source.length // LANES)
        return register, source.sublane_of(row)

    if _is_short(target):
        made = unpacked(program, chunks, target, find)
    else:
        number = target.chunk[:, None, :] + np.arange(target.blocks + 1)[None, :, None]
        wanted = (number <= target.last[:, None, :]) & target.valid[:, None, :]
        register, sublane = find(np.where(wanted, number, 0))
        register = np.where(wanted, register, -1).reshape(-1, SUBLANES)
        moved = move_rows(program, chunks, register, sublane.reshape(-1, SUBLANES))
        made = _unchunked(program, moved, target)
    layout, shape = move.destination
    result = program.reshape(program.elements(made), layout.grid_shape(shape))
    return program.plan(result, "chunks")


def _ends(move: Move) -> tuple[Rows, Rows] | None:
    """The rows of source and destination of a reshape that can go through chunks, else None."""
    move = _of_one_sublane(move) or move
    (laid, *others), steps = move.sources, [type(step) for step in move.steps]
    if move.bits != 32 or others or steps != [Reshape]:
        return None
    source, target = Rows.of(laid), Rows.of(move.destination)
    if source is None or target is None or source.length == 1:
        return None  # Columns become rows by a transpose.
    if not source.apart and _is_short(target):
        return None
    return source, target


def _of_one_sublane(move: Move) -> Move | None:
    """A reshape of what lies in one sublane, if what lies in each stays there: as if all held the
    same. None if it does not, or if some lie in other registers."""
    (laid, *others), target = move.sources, move.destination[0]
    layout, shape = laid
    here, there = layout.sublane_dim, target.sublane_dim
    if others or len(move.steps) != 1 or here is None or there is None:
        return None
    if layout.lane_dim is None or target.lane_dim is None:
        return None
    kept = kept_dims(move.steps[0], {there: (there, 0)})
    height = shape[here]
    if kept != {there: (here, 0)} or not (layout.is_native and target.is_native):
        return None
    if layout.row != 0 or target.row != 0 or not 1 < height <= layout.native_rows:
        return None
    made, rest = _without_rows(*move.destination)
    return Move.reshape(_without_rows(*laid), made, rest)


def _without_rows(layout: VectorLayout, shape: Shape) -> Laid:
    assert layout.lane_dim is not None and layout.sublane_dim is not None
    rest = tuple([n for d, n in enumerate(shape) if d != layout.sublane_dim])
    lane = layout.lane_dim - (layout.sublane_dim < layout.lane_dim)
    return VectorLayout(32, None, lane, None, layout.column), rest


def elements_to_check(move: Move) -> Array:
    """Row-major numbers of destination elements that suffice to check a plan by chunks.

    For blocks of rows in every lane position within a chunk, of source and destination, these are
    the ends of rows and of some of their chunks; and some elements spread over the whole array.
    """
    inner = _of_one_sublane(move)
    if inner is not None:
        # Of the first and of the last sublane those that stand for all of one.
        (_, shape), (_, rest) = move.destination, inner.destination
        rows = move.destination[0].sublane_dim
        assert rows is not None
        index = [np.asarray(a) for a in np.unravel_index(elements_to_check(inner), rest)]
        found = [np.full_like(index[0], row) for row in (0, shape[rows] - 1)]
        return distinct_values(
            [np.ravel_multi_index((*index[:rows], row, *index[rows:]), shape) for row in found]
        )
    step = move.steps[0]
    assert isinstance(step, Reshape), "not a movement through chunks"
    total = math.prod(step.shape)
    found = [(np.arange(_CHECKED) * _GOLDEN % 1 * total).astype(np.int64)]
    for shape in (step.source_shape, step.shape):
        height, length = (1, *shape)[-2:]
        blocks = -(-height // SUBLANES)
        first = np.arange(total // (height * length))[:, None] * height
        first = (first + SUBLANES * np.arange(blocks)).reshape(-1)
        place = first * length % LANES
        _, one = np.unique(place, return_index=True)
        _, other = np.unique(place[::-1], return_index=True)
        some = distinct_values([one, first.size - 1 - other])
        number = first[some, None] + SUBLANE
        within = number < (first[some, None] // height + 1) * height
        begin = number[within] * length
        end = begin + length
        middle = (begin + length // 2) // LANES * LANES
        chunks = [-(-begin // LANES) * LANES, middle, (end - 1) // LANES * LANES]
        for border in (begin, end, *chunks):
            inside = np.clip(border, begin, end - 1)
            found += [inside, np.clip(border - 1, begin, end - 1)]
    return distinct_values(found)


def usual_cost(move: Move, costs: Costs) -> float:
    """An estimate of the cost of a plan by patterns of registers, from some of the registers.

    Every piece that a row of a register is made of forms a layer, which takes a gather and, after
    the first, a select; the source registers of a layer are shuffled and selected one by one.
    """
    ends = _ends(move)
    assert ends is not None, "not a movement of rows"
    source, target = ends
    # Evenly spread, but not at even distances: these may be those of a pattern.
    spread = np.arange(_JUDGED) * _GOLDEN % 1 * len(target.first)
    blocks = distinct_values(spread.astype(np.int64))
    columns = distinct_values(np.linspace(0, target.blocks - 1, 4).astype(np.int64))
    column = columns[None, :, None] * LANES
    begin = target.number[blocks][:, None, :] * target.length + column
    valid = np.broadcast_to(target.valid[blocks][:, None, :], begin.shape)
    begin = np.where(valid, begin, begin[..., :1])
    end = begin + np.minimum(target.length - column, LANES) - 1
    rows = [place // source.length for place in (begin, end)]
    amounts = distinct_values((begin - rows[0] * source.length - column) % LANES)
    tiles = [(p - r * source.length) // LANES for p, r in zip((begin, end), rows, strict=True)]
    layers = ((rows[1] - rows[0]) * source.blocks + tiles[1] - tiles[0] + 1).max(2)
    registers = np.stack(
        [source.block[r] * source.blocks + t for r, t in zip(rows, tiles, strict=True)]
    )
    ordered = np.sort(registers, -1)
    different = 1 + (ordered[..., 1:] != ordered[..., :-1]).sum(-1)
    moves = (2 * different[0] - 1) + (2 * different[1] - 1) * (layers - 1)
    each = layers * (costs.gather(along_lanes=True) + 1) - 1 + moves
    whole = costs.copies * float(each.mean()) * len(target.first) * target.blocks
    return whole if amounts.size > _FEW_AMOUNTS else _SHARED * whole


def _chunked(program: Program, x: int, rows: Rows) -> int:
    """Per block of rows, the chunks of its rows; incomplete chunks at the ends hold anything."""
    width, count = rows.blocks, len(rows.first)
    value = x
    if not rows.aligned:
        value = program.gather_lanes(x, rows.turned(-1, np.repeat(np.arange(count), width)))
    turned = np.arange(count * width).reshape(count, width)
    made = Pieces(program, count * (width + 1))
    numbers = np.arange(count * (width + 1)).reshape(count, width + 1)
    made.add(program.take(value, turned[:, 0]), numbers[:, 0])
    made.add(program.take(value, turned[:, -1]), numbers[:, -1])
    if width > 1:
        new, old = (program.take(value, t.reshape(-1)) for t in (turned[:, 1:], turned[:, :-1]))
        if not rows.aligned:
            blocks = np.repeat(np.arange(count), width - 1)
            new = program.select(rows.lanes_from(blocks), new, old)
        made.add(new, numbers[:, 1:-1])
    return made.value()


def _merged(program: Program, chunks: int, rows: Rows) -> int:
    """`chunks`, with those that continue in later rows completed from these."""
    width, count = rows.blocks, len(rows.block)
    later = 1
    value = chunks
    while True:
        number = np.minimum(rows.number + later, count - 1)
        begins = (rows.number + later) * rows.length
        there = rows.valid & (rows.number + later < count) & (begins % LANES > 0)
        # Which chunk of a row the later one begins in, if that chunk begins with this row.
        behind = begins // LANES - rows.chunk
        there &= (behind <= rows.last - rows.chunk) & (
            (behind > 0) | (rows.number * rows.length % LANES == 0)
        )
        if not there.any():
            return value
        register = np.where(there, rows.register(number, np.zeros_like(number)), -1)
        moved = move_rows(program, chunks, register, rows.sublane_of(number))
        for column in distinct_values(behind[there]).tolist():
            members = np.nonzero(any_along(there & (behind == column), 1))[0]
            made = Pieces(program, len(rows.first) * (width + 1))
            made.add(value, np.arange(len(rows.first) * (width + 1)))
            # Of rows of which the later one begins elsewhere, no lanes but some that nobody needs.
            mask = rows.lanes_from(members, later * rows.length - LANES * column)
            place = members * (width + 1) + column
            new, old = program.take(moved, members), program.take(value, place)
            made.add(program.select(mask, new, old), place)
            value = made.value()
        later += 1


def _unchunked(program: Program, chunks: int, rows: Rows) -> int:
    """The registers of rows, made from their chunks."""
    width, count = rows.blocks, len(rows.first)
    column = np.arange(width)
    long = np.minimum(rows.length - column * LANES, LANES)
    # Registers whose rows end in the chunk in which they begin need no other.
    ends = np.where(rows.valid, rows.begin, 0)[:, None, :] + long[:, None]
    two = any_along(ends > LANES, 2)
    held = np.arange(count)[:, None] * (width + 1) + column
    made = Pieces(program, count * width)
    if not two.all():
        made.add(program.take(chunks, held[~two]), np.nonzero(~two.reshape(-1))[0])
    if two.any():
        new, old = (program.take(chunks, held[two] + more) for more in (0, 1))
        mask = rows.lanes_from(np.nonzero(two)[0])
        made.add(program.select(mask, new, old), np.nonzero(two.reshape(-1))[0])
    value = made.value()
    if rows.aligned:
        return value
    return program.gather_lanes(value, rows.turned(1, np.repeat(np.arange(count), width)))
