"""Rows cut anew, whatever their lengths: through the order of the elements without rows.

Reshapes between rows of different lengths repeat late or never, so that plans by patterns of
registers grow with the block. This one does not. Number the elements of all rows consecutively and
call 128 of them, from a multiple of 128 on, a chunk. Row r of length C begins in lane `r * C % 128`
of a chunk; eight rows of a register are turned into the lanes of their chunks by one gather, whose
index is affine in sublane and lane and depends on the register by 128 numbers at most. Then whole
chunks move, row by row: eight rotations along the sublanes, seven selects. The rows of the
destination are made of their chunks in the same way backwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pallasite.layouts.move import Laid, Move, Reshape
from pallasite.layouts.plan import Plan, Value
from pallasite.layouts.planner_costs import Costs
from pallasite.layouts.planner_fields import Field, Mask
from pallasite.layouts.planner_lines import Array, any_along, distinct_values
from pallasite.layouts.planner_program import Program
from pallasite.layouts.registers import LANES, SUBLANES

_SHORTEST = 16
"""Source rows of fewer elements are too many to a chunk."""

_CHECKED = 256
"""Registers that are checked beside those that stand for others."""
_JUDGED = 64
"""Blocks of rows by which the cost of other plans is judged."""

_GOLDEN = (math.sqrt(5) - 1) / 2
_FEW_AMOUNTS = 16
"""So few numbers of lanes by which rows move make few patterns."""

_SUBLANE = np.arange(SUBLANES)
_LANE = np.arange(LANES)


def by_chunks(move: Move, costs: Costs) -> Plan | None:
    """The plan of a reshape of 32-bit elements through chunks; None if it is something else."""
    (laid, *others), steps = move.sources, [type(step) for step in move.steps]
    if move.bits != 32 or others or steps != [Reshape]:
        return None
    source, target = _Rows.of(laid), _Rows.of(move.destination)
    if source is None or target is None or source.length < _SHORTEST:
        return None
    layout, shape = laid
    program = Program([Value(layout.grid_shape(shape), 1)], 32, costs)
    chunks = _merged(program, _chunked(program, program.flat(0), source), source)
    number = target.chunk[:, None, :] + np.arange(target.blocks + 1)[None, :, None]
    wanted = (number <= target.last[:, None, :]) & target.valid[:, None, :]
    # The row in which a chunk begins holds all of it.
    row = np.where(wanted, number * LANES // source.length, 0)
    register = source.register(row, number - row * source.length // LANES)
    register = np.where(wanted, register, -1).reshape(-1, SUBLANES)
    sublane = source.sublane[row].reshape(-1, SUBLANES)
    moved = _move_rows(program, chunks, register, sublane)
    layout, shape = move.destination
    result = program.reshape(_unchunked(program, moved, target), layout.grid_shape(shape))
    return program.plan(result, "chunks")


def registers_to_check(move: Move) -> Array:
    """Registers of the destination that stand for all: those in every place of a chunk.

    The first two blocks in each place, one in the middle and the last one, at both ends; and some
    of all others.
    """
    target = _Rows.of(move.destination)
    assert target is not None, "not a movement through chunks"
    count = target.blocks
    columns = distinct_values(np.array([0, min(1, count - 1), count // 2, count - 1]))
    blocks = [
        members[np.array([0, min(1, members.size - 1), members.size // 2, members.size - 1])]
        for _, members in target.phases()
    ]
    places = distinct_values(blocks)[:, None] * count + columns
    total = len(target.first) * count
    some = np.linspace(0, total - 1, min(_CHECKED, total)).astype(np.int64)
    return distinct_values([places.reshape(-1), some])


def usual_cost(move: Move, costs: Costs) -> float:
    """About what a plan by patterns of registers costs, judged by some registers.

    Nothing, if rows move by few numbers of lanes: such plans are found quickly.

    In each there are layers: the pieces that a row is made of. Each takes a gather and, after the
    first, a select; and its registers are shuffled and selected one by one.
    """
    source, target = _Rows.of(move.sources[0]), _Rows.of(move.destination)
    assert source is not None and target is not None, "not a movement of rows"
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
    if amounts.size <= _FEW_AMOUNTS:
        return 0.0
    tiles = [(p - r * source.length) // LANES for p, r in zip((begin, end), rows, strict=True)]
    layers = ((rows[1] - rows[0]) * source.blocks + tiles[1] - tiles[0] + 1).max(2)
    registers = np.stack(
        [source.block[r] * source.blocks + t for r, t in zip(rows, tiles, strict=True)]
    )
    ordered = np.sort(registers, -1)
    different = 1 + (ordered[..., 1:] != ordered[..., :-1]).sum(-1)
    moves = (2 * different[0] - 1) + (2 * different[1] - 1) * (layers - 1)
    each = layers * (costs.gather(True) + 1) - 1 + moves
    return costs.copies * float(each.mean()) * len(target.first) * target.blocks


@dataclass(frozen=True)
class _Rows:
    """The rows of a value: `first[g]` is the first one in block g of eight sublanes.

    Blocks, one after the other, are so many registers wide.
    """

    length: int
    blocks: int
    first: Array
    valid: Array
    """[blocks, 8]: whether a sublane holds a row."""
    block: Array
    sublane: Array
    """Per row, where it is."""

    @classmethod
    def of(cls, laid: Laid) -> _Rows | None:
        """None if the rows do not lie along the lanes from the first one on, or tiles are small."""
        layout, shape = laid
        rank = len(shape)
        lies = layout.lane_dim == rank - 1 and layout.sublane_dim in (None, rank - 2)
        if not lies or not layout.is_native or layout.column != 0 or layout.row != 0:
            return None
        height, length = layout.extents(shape)
        *lead, high, wide = layout.grid_shape(shape)
        within = np.minimum(height - SUBLANES * np.arange(high), SUBLANES)
        valid = np.tile(_SUBLANE < within[:, None], (math.prod(lead), 1))
        first = np.arange(math.prod(lead))[:, None] * height + SUBLANES * np.arange(high)
        block, sublane = np.nonzero(valid)
        return cls(length, wide, first.reshape(-1), valid, block, sublane)

    @property
    def number(self) -> Array:
        """[blocks, 8]: the row in every sublane, also of those that hold none."""
        return self.first[:, None] + _SUBLANE

    @property
    def chunk(self) -> Array:
        """[blocks, 8]: the first chunk of every row."""
        return self.number * self.length // LANES

    @property
    def last(self) -> Array:
        """[blocks, 8]: the last chunk of every row."""
        return ((self.number + 1) * self.length - 1) // LANES

    def register(self, row: Array, chunk: Array) -> Array:
        """The register of chunks that holds the one so much behind the first one of `row`."""
        return self.block[row] * (self.blocks + 1) + chunk

    def phases(self) -> list[tuple[int, Array]]:
        """In which lane of a chunk blocks begin, and which ones do."""
        lane = self.first * self.length % LANES
        return [(p, np.nonzero(lane == p)[0]) for p in distinct_values(lane).tolist()]

    def begin(self, phase: int, later: int = 0) -> Array:
        """[8]: in which lane each row of a block begins, or the row so much `later`."""
        return (phase + (_SUBLANE + later) * self.length) % LANES

    def turned(self, phase: int, direction: int) -> Field:
        """The index register of a gather that turns rows into the lanes of chunks, or back."""
        step = (direction * self.length + LANES // 2) % LANES - LANES // 2
        return Field((direction * phase % LANES, 0, step, 1), (), LANES)

    def aligned(self, phase: int) -> bool:
        """Whether all rows of a block begin in the first lane of a chunk."""
        return phase == 0 and self.length % LANES == 0


class _Pieces:
    """A flat value that is made in pieces, of registers with given numbers."""

    def __init__(self, program: Program, count: int) -> None:
        self._program = program
        self._place = np.full(count, -1)
        self._pieces: list[int] = []
        self._at = 0

    def add(self, value: int, numbers: Array) -> None:
        numbers = numbers.reshape(-1)
        self._place[numbers] = self._at + np.arange(numbers.size)
        self._at += numbers.size
        self._pieces.append(value)

    def value(self) -> int:
        return self._program.take(self._program.concat(self._pieces), self._place)


def _chunked(program: Program, x: int, rows: _Rows) -> int:
    """Per block the chunks of its rows, one more than registers; their ends hold anything."""
    width = rows.blocks
    made = _Pieces(program, len(rows.first) * (width + 1))
    for phase, members in rows.phases():
        held = members[:, None] * width + np.arange(width)
        value = program.take(x, held.reshape(-1))
        if not rows.aligned(phase):
            value = program.gather_lanes(value, rows.turned(phase, -1))
        turned = np.arange(held.size).reshape(held.shape)
        numbers = members[:, None] * (width + 1) + np.arange(width + 1)
        made.add(program.take(value, turned[:, 0]), numbers[:, 0])
        made.add(program.take(value, turned[:, -1]), numbers[:, -1])
        if width > 1:
            new, old = (program.take(value, t.reshape(-1)) for t in (turned[:, 1:], turned[:, :-1]))
            mask = Mask.of(_LANE >= rows.begin(phase)[:, None])
            made.add(program.select(mask, new, old), numbers[:, 1:-1])
    return made.value()


def _merged(program: Program, chunks: int, rows: _Rows) -> int:
    """`chunks` with those that end in later rows completed by them."""
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
        moved = _move_rows(program, chunks, register, rows.sublane[number])
        for column in distinct_values(behind[there]).tolist():
            made = _Pieces(program, len(rows.first) * (width + 1))
            made.add(value, np.arange(len(rows.first) * (width + 1)))
            for phase, members in rows.phases():
                here = there[members] & (behind[members] == column)
                # All blocks of a phase are alike, but at the end of the rows.
                members = members[any_along(here, 1)]
                if not members.size:
                    continue
                which = here[any_along(here, 1)].any(0)
                mask = Mask.of(which[:, None] & (_LANE >= rows.begin(phase, later)[:, None]))
                place = members * (width + 1) + column
                new, old = program.take(moved, members), program.take(value, place)
                made.add(program.select(mask, new, old), place)
            value = made.value()
        later += 1


def _unchunked(program: Program, chunks: int, rows: _Rows) -> int:
    """The registers of rows from their chunks."""
    width = rows.blocks
    made = _Pieces(program, len(rows.first) * width)
    column = np.arange(width)
    long = np.minimum(rows.length - column * LANES, LANES)
    for phase, members in rows.phases():
        begin = rows.begin(phase)
        # Registers whose rows end in the chunk in which they begin need no other.
        two = any_along(begin[:, None] + long > LANES, 0)
        parts: list[int] = []
        numbers: list[Array] = []
        for columns in (column[two], column[~two]):
            if columns.size:
                held = (members[:, None] * (width + 1) + columns).reshape(-1)
                numbers.append((members[:, None] * width + columns).reshape(-1))
                parts.append(program.take(chunks, held))
                if two[columns[0]]:
                    mask = Mask.of(_LANE >= begin[:, None])
                    later = program.take(chunks, held + 1)
                    parts[-1] = program.select(mask, parts[-1], later)
        value = program.concat(parts)
        if not rows.aligned(phase):
            value = program.gather_lanes(value, rows.turned(phase, 1))
        made.add(value, np.concatenate(numbers))
    return made.value()


def _move_rows(program: Program, x: int, register: Array, sublane: Array) -> int:
    """A flat value whose row (n, s) is row (register, sublane)[n, s] of `x`; -1 does not matter.

    Registers are rotated along the sublanes, each once by every distance, and rows are selected
    where the next one comes from another register: so many steps at most as there are sublanes.
    """
    turn = np.where(register >= 0, (_SUBLANE - sublane) % SUBLANES, -1)
    place = np.full(register.shape, -1)
    pieces: list[int] = []
    at = 0
    for distance in distinct_values(turn[turn >= 0]).tolist():
        here = turn == distance
        used = distinct_values(register[here])
        place[here] = np.searchsorted(used, register[here]) + at
        at += used.size
        taken = program.take(x, used)
        pieces.append(program.shuffle(taken, None, _rotation(distance)))
    source = program.concat(pieces)
    place = _continued(place)
    value = program.take(source, place[:, 0])
    for s in range(1, SUBLANES):
        changed = np.nonzero(place[:, s] != place[:, s - 1])[0]
        if changed.size:
            made = _Pieces(program, len(place))
            made.add(value, np.arange(len(place)))
            new, old = program.take(source, place[changed, s]), program.take(value, changed)
            made.add(program.select(Mask(((s, SUBLANES, 0, LANES),)), new, old), changed)
            value = made.value()
    return value


def _rotation(distance: int) -> Sequence[int]:
    return [(s - distance) % SUBLANES for s in range(SUBLANES)]


def _continued(place: Array) -> Array:
    """Lets rows that do not matter come from where the row before does, or else the next one."""
    place = place.copy()
    for s in (*range(1, SUBLANES), *range(SUBLANES - 2, -1, -1)):
        beside = place[:, s - 1] if s and (place[:, s - 1] >= 0).any() else place[:, s]
        place[:, s] = np.where(place[:, s] < 0, beside, place[:, s])
    for s in range(SUBLANES - 2, -1, -1):
        place[:, s] = np.where(place[:, s] < 0, place[:, s + 1], place[:, s])
    return place
