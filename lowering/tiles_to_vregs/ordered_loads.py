"""Loaded rows that are only wanted in another order are loaded in that order.

    %x = tpu.load %a[%c0, %c0] sublanes [true, true, false, ...]
    %y = tpu.sublane_shuffle %x, %x, [0, 1, 0, 1, 0, 1, 0, 1]
becomes
    %y = tpu.shuffled_load %a[%c0, %c0] {sublane_offsets = [0, 1, 0, 1, 0, 1, 0, 1], ...}

So do rows of several registers that shuffles, rotations and selects of whole rows put together, if
they lie in one memory less than 16 rows of words after the first. A shuffled load replaces the
operations before it only if nothing else wants their registers, so a load is chosen only if at
least one of them becomes dead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, i1, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import arith, func, memref, tpu
from pallasite.dialects.arith import known_integer
from pallasite.dialects.registers import BOX
from pallasite.dialects.types import bit_width, integers_in, tiling_of
from pallasite.dialects.walking import of_kind, operations, operations_of
from pallasite.layouts.registers import LANES, REACH, SUBLANES
from pallasite.lowering.creation import made
from pallasite.lowering.tiles_to_vregs.row_masks import Sublanes, row_masks
from pallasite.passes.dead_code import remove_dead_code
from pallasite.passes.effects import is_pure

Row = tuple[tpu.LoadOp, int]
"""A sublane of a loaded register: the load and the number of the sublane."""
Time = tuple[Block, int, int]
"""When a load happens: its block, the number of earlier operations there that may write memory (the
epoch), and its own number in the block."""
Rows = tuple[Row | None, ...]
"""What each sublane of a register holds; None for a sublane that was not loaded."""

_MOVES = (tpu.SublaneShuffleOp, tpu.DynamicRotateOp, arith.SelectOp)


@dataclass
class _Registers:
    """Where the sublanes of registers come from; `masks` are those of whole sublanes."""

    masks: Mapping[SSAValue, Sublanes]
    known: dict[SSAValue, Rows | None] = field(default_factory=dict[SSAValue, "Rows | None"])

    def rows(self, value: SSAValue) -> Rows | None:
        """The loaded rows that `value` is put together from; None if it is computed otherwise."""
        if value not in self.known:
            self.known[value] = self._found(value)
        return self.known[value]

    def _found(self, value: SSAValue) -> Rows | None:
        op = value.owner
        if type(op) is tpu.LoadOp:
            return _loaded(op)
        if type(op) is tpu.SublaneShuffleOp:
            one, other = self.rows(op.lhs), self.rows(op.rhs)
            both = None if one is None or other is None else (*one, *other)
            return None if both is None else tuple([both[n] for n in _integers(op.pattern)])
        if type(op) is tpu.DynamicRotateOp and op.dimension.value.data == 0 and op.stride is None:
            amount, rows = known_integer(op.amount), self.rows(op.value)
            if amount is None or rows is None:
                return None
            return tuple([rows[(n - amount) % SUBLANES] for n in range(SUBLANES)])
        if type(op) is arith.SelectOp and op.cond in self.masks:
            one, other = self.rows(op.lhs), self.rows(op.rhs)
            chosen = self.masks[op.cond]
            if one is None or other is None:
                return None
            return tuple([(one if n in chosen else other)[n] for n in range(SUBLANES)])
        return None


def load_rows_in_order(function: func.FuncOp) -> None:
    """Replaces moves of loaded rows in the unrolled `function` by shuffled loads, where that saves
    operations."""
    registers = _Registers(row_masks(function))
    moved = {
        op: rows for op in of_kind(function, *_MOVES) if (rows := registers.rows(op.results[0]))
    }
    if not moved:
        return
    epochs = times_of_loads(function)
    wanted = {
        op: place for op, rows in moved.items()
        if any(use.operation not in moved for use in op.results[0].uses)
        and (place := _place(rows, epochs)) is not None
    }  # fmt: skip
    while wanted:
        gone = _gone(wanted, moved)
        kept = {op: place for op, place in wanted.items() if _spares(op, gone)}
        if len(kept) == len(wanted):
            break
        wanted = kept
    for op, place in wanted.items():
        op.results[0].replace_all_uses_with(place.load())
    if wanted:
        for block in function.body.blocks:
            remove_dead_code(block)


@dataclass(frozen=True)
class _Place:
    """Rows of one memory: the load that begins at the first of them, and the last load in the
    block.

    `offsets` has, for each sublane, how many rows of words after the first it lies.
    """

    first: tpu.LoadOp
    last: tpu.LoadOp
    offsets: tuple[int, ...]

    def load(self) -> SSAValue:
        """Inserts the shuffled load after the last load, and returns its register."""
        every = DenseArrayBase.from_list(i1, [True] * SUBLANES)
        offsets = DenseArrayBase.from_list(i32, self.offsets)
        load = made(
            tpu.ShuffledLoadOp, self.first.operands, [self.first.result.type],
            {"sublane_mask": every, "sublane_offsets": offsets}, self.first.attributes,
            self.first.location,
        )  # fmt: skip
        Rewriter.insert_op(load, InsertPoint.after(self.last))
        return load.results[0]


def _place(rows: Rows, epochs: Mapping[tpu.LoadOp, Time]) -> _Place | None:
    """Where `rows` can be loaded from at once; None if they are too far apart or loaded at
    different times."""
    loads = list(dict.fromkeys(row[0] for row in rows if row is not None))
    if not loads or len({epochs[load][:2] for load in loads}) > 1:
        return None
    if len(loads) > 1 and any(BOX in load.attributes for load in loads):
        return None
    behind = {load: distance(loads[0], load) for load in loads}
    if None in behind.values():
        return None
    starts = cast("dict[tpu.LoadOp, int]", behind)
    first = min(loads, key=starts.__getitem__)
    if any((known_integer(index) or 0) < 0 for index in first.indices):
        # A shuffled load accesses all sublanes, so none may lie before the memory.
        return None
    places = [
        None if row is None
        else starts[row[0]] - starts[first] + row[1] * row[0].sublane_stride.value.data
        for row in rows
    ]  # fmt: skip
    known = [place for place in places if place is not None]
    if max(known) >= REACH:
        return None
    offsets = tuple([known[0] if place is None else place for place in places])
    return _Place(first, max(loads, key=lambda load: epochs[load][2]), offsets)


@dataclass(frozen=True)
class Position:
    """Where a load begins, in memory tiled by single rows."""

    unknown: tuple[SSAValue | None, ...]
    """For each dimension, the index if it is not constant, else None."""
    elements: int
    """The element offset that the constant indices add up to."""

    @staticmethod
    def of(load: tpu.LoadOp) -> Position | None:
        """The position of `load`; None if its memory has tiles of several rows, which rows may
        leave."""
        tiling = tiling_of(load.base.type)
        if tiling is None or tiling.first != (1, LANES):
            return None
        known = [known_integer(index) for index in load.indices]
        unknown = [a if n is None else None for a, n in zip(load.indices, known, strict=True)]
        places = [tiling.dim_offset(dim, n) for dim, n in enumerate(known) if n is not None]
        return Position(tuple(unknown), sum(places))


def distance(one: tpu.LoadOp, other: tpu.LoadOp) -> int | None:
    """How many rows of words after `one` the load `other` begins.

    None if that is not known, or if there are tiles of several rows, which rows may leave.
    """
    if other is one:
        return 0
    here, there = Position.of(one), Position.of(other)
    if other.base is not one.base or here is None or there is None:
        return None
    if here.unknown != there.unknown or (there.elements - here.elements) % LANES:
        return None
    return (there.elements - here.elements) // LANES


def _loaded(op: tpu.LoadOp) -> Rows | None:
    """The rows that `op` loads; None unless its elements are 32-bit words of an array of rows."""
    kind = op.result.type
    if kind.get_shape() != (SUBLANES, LANES) or bit_width(kind.element_type) != 32:
        return None
    if len(op.base.type.get_shape()) < 2:
        return None
    return tuple([(op, n) if flag else None for n, flag in enumerate(_integers(op.sublane_mask))])


def times_of_loads(function: func.FuncOp) -> dict[tpu.LoadOp, Time]:
    """When each load of `function` happens."""
    found: dict[tpu.LoadOp, Time] = {}
    blocks = [b for op in operations(function) for region in op.regions for b in region.blocks]
    for block in blocks:
        epoch = 0
        for number, op in enumerate(operations_of(block)):
            if type(op) is tpu.LoadOp:
                found[op] = (block, epoch, number)
            elif type(op) not in (tpu.ShuffledLoadOp, memref.LoadOp) and not is_pure(type(op)):
                epoch += 1
    return found


def _gone(wanted: Collection[Operation], moved: Collection[Operation]) -> set[Operation]:
    """The moves and loads that become dead once `wanted` are shuffled loads."""
    gone: set[Operation] = set(wanted)
    for op in reversed(list(moved)):
        if all(use.operation in gone for use in op.results[0].uses):
            gone.add(op)
    for op in list(gone):
        for value in op.operands:
            load = value.owner
            if type(load) is tpu.LoadOp and all(use.operation in gone for use in value.uses):
                gone.add(load)
    return gone


def _spares(op: Operation, gone: Collection[Operation]) -> bool:
    """Whether some operation that the register of `op` is made from becomes dead with it."""
    return any(
        maker in gone or (isinstance(maker, _MOVES) and _spares(maker, gone))
        for maker in _makers(op)
    )


def _makers(op: Operation) -> Iterable[Operation]:
    """The moves and loads that define the operands of `op`."""
    values = [v for v in op.operands if isinstance(v.owner, (*_MOVES, tpu.LoadOp))]
    return [cast(Operation, value.owner) for value in values]


def _integers(attribute: Attribute) -> tuple[int, ...]:
    return integers_in(cast("DenseArrayBase[Any]", attribute))
