"""Plans the move of a moved value together with the move that made it, where that is cheaper.

A reshape that splits the lanes puts its new dimension on the sublanes, and a transpose that follows
takes it off again. Planned as one move they are rotations, or nothing:

    %a = vector.shape_cast %x : vector<64x256xf32> to vector<64x4x64xf32>      16 rotations of
    %b = tpu.transpose %a, [1, 0, 2] : vector<4x64x64xf32>                 ->  registers of %x
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from pallasite.diagnostics import Unsupported
from pallasite.layouts.move import IndexStep, Laid, Move
from pallasite.layouts.plan import Plan
from pallasite.layouts.planner.distinct import distinct_cost
from pallasite.layouts.planner.lines import Array
from pallasite.layouts.planner.planner import plan
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.relabel import Renaming

_LITTLE = 2
"""Instructions per register of the result that a chain does not try to save."""


@dataclass(frozen=True)
class Copies:
    """Says which of the registers of a broadcast are copies of one."""

    cost: float
    """What it took to make them."""
    numbers: Array
    """Per register, flat, a number that it shares with its copies."""


@dataclass(frozen=True)
class Moved:
    """How a value was made: by the planned move `move` of the grids `sources`."""

    move: Move
    sources: tuple[SSAValue, ...]
    alone: bool = True
    """Whether only this value needs what the move computes."""
    copies: Copies | None = None
    """Of a broadcast, whose registers were not planned as those of `move`: which ones are equal."""

    def then(self, steps: Sequence[IndexStep], destination: Laid) -> Move:
        """The move of the same sources that goes on with `steps` to `destination`."""
        first = self.move
        return Move(first.sources, destination, (*first.steps, *steps), first.concat_dim)


def emit_move(op: Operation, move: Move, sources: Sequence[SSAValue], c: Converter) -> None:
    """Emits `move`, whose destination is the layout of the result of `op`, and records it for
    chains."""
    result = op.results[0]
    c.define(result, c.move(move, sources), move.destination[0])
    c.moves[result] = moved = Moved(move, tuple(sources))
    if result.has_one_use():
        c.offer_smaller(result, _Elsewhere(moved, c))
    c.retire(op)


def renamed(op: Operation, step: IndexStep, destination: Laid, c: Converter) -> None:
    """Records that the result of `op` has the registers of its operand, under other indices."""
    source = op.operands[0]
    before = c.moves.get(source)
    if before is not None:
        move = before.then([step], destination)
        alone = before.alone and source.has_one_use()
        c.moves[op.results[0]] = Moved(move, before.sources, alone, before.copies)


def copies_renamed(
    op: Operation, step: IndexStep, destination: Laid, names: Renaming, c: Converter
) -> None:
    """`renamed` for a broadcast; `names` is the new order of its registers."""
    source = op.operands[0]
    before = c.moves.get(source)
    if before is None or before.copies is None:
        return
    layout, shape = c.tiled(source).laid
    numbers = names.of(before.copies.numbers.reshape(layout.grid_shape(shape))).reshape(-1)
    copies = replace(before.copies, numbers=numbers)
    move = before.then([step], destination)
    c.moves[op.results[0]] = made = Moved(move, before.sources, copies=copies)
    c.offer_smaller(op.results[0], _Anew(made, c))


@dataclass(frozen=True)
class _Redirected:
    """Offers a moved value in other layouts, by a move that goes there directly."""

    moved: Moved
    converter: Converter

    def cost_to(self, layout: VectorLayout) -> float | None:
        """The cost of a move directly to `layout`; None if there is no plan."""
        move = self.moved.move
        try:
            return plan(
                replace(move, destination=(layout, move.destination[1])), self.converter.costs
            ).cost
        except Unsupported:
            return None

    def apart(self, layout: VectorLayout) -> Plan | None:
        """The plan that moves the value from its own layout to `layout`; None if there is none."""
        held, shape = self.moved.move.destination
        try:
            return plan(Move.relayout(held, shape, layout), self.converter.costs)
        except Unsupported:
            return None

    def make(self, layout: VectorLayout) -> SSAValue:
        """The value in `layout`, moved there directly."""
        move = replace(self.moved.move, destination=(layout, self.moved.move.destination[1]))
        return self.converter.move(move, self.moved.sources)


class _Anew(_Redirected):
    """Offers a reordered broadcast in other layouts, moved from the source of the broadcast."""

    def cost(self, layout: VectorLayout) -> float | None:
        """The cost of a direct move to `layout`; None if it is not less than moving the value."""
        held, _ = self.moved.move.destination
        cost = self.cost_to(layout) if layout.bits == held.bits else None
        if cost is None or (apart := self.apart(layout)) is None:
            return cost
        return cost if cost < _cost(apart, held, self.moved, self.converter) else None


class _Elsewhere(_Redirected):
    """Offers a moved value, which has one use, in layouts of fewer registers, by a direct move."""

    def cost(self, layout: VectorLayout) -> float | None:
        """The cost of a direct move to `layout` beyond that of the move it replaces; None if it
        saves nothing."""
        held, shape = self.moved.move.destination
        if layout.bits != held.bits or layout.register_count(shape) >= held.register_count(shape):
            return None
        cost, saved = self.cost_to(layout), self.cost_to(held)
        if cost is None or saved is None:
            return None
        apart = self.apart(layout)
        return cost - saved if apart is None or cost < saved + apart.cost else None


def copied(op: Operation, destination: Laid, copies: Copies, c: Converter) -> None:
    """Records that the result of `op` is a broadcast of its operand, in the layout and shape
    `destination`."""
    source = c.tiled(op.operands[0])
    move = Move.broadcast(source.laid, *destination)
    c.moves[op.results[0]] = Moved(move, (source.grid,), copies=copies)


def emit_chain(op: Operation, move: Move, c: Converter, apart: Plan | None = None) -> bool:
    """Emits `move` of the operand of `op` as one move with the move that made the operand.

    Returns False, and emits nothing, if that costs more than both moves. `apart` is the plan of
    `move` alone, None if that costs nothing.
    """
    source = op.operands[0]
    before = c.moves.get(source)
    if before is None:
        return False
    layout, shape = move.destination
    whole = before.then(move.steps, move.destination)
    try:
        if before.copies is not None:
            saved = before.copies.cost
        else:
            saved = plan(before.move, c.costs).cost
            if saved <= _LITTLE * layout.register_count(shape):
                return False
        cost = plan(whole, c.costs).cost
    except Unsupported:
        return False
    needless = before.alone and source.has_one_use() and _here(before, op)
    alone = 0.0 if apart is None else _cost(apart, move.sources[0][0], before, c)
    if cost > alone + (saved if needless else 0.0):
        return False
    emit_move(op, whole, before.sources, c)
    return True


def _cost(apart: Plan, layout: VectorLayout, before: Moved, c: Converter) -> float:
    """The cost of `apart` on a value in `layout` that `before` describes; equal registers of a
    broadcast count once."""
    if before.copies is None:
        return apart.cost
    held, shape = before.move.destination
    numbers = before.copies.numbers.reshape(held.grid_shape(shape))
    every = np.broadcast_to(numbers, layout.grid_shape(shape))
    return distinct_cost(apart, c.costs, [every.reshape(-1)])


def _here(before: Moved, op: Operation) -> bool:
    """Whether the sources are defined in the block of `op`, so that the move is not repeated by a
    loop."""
    owners = (source.owner for source in before.sources)
    return all((o if isinstance(o, Block) else o.parent) is op.parent for o in owners)
