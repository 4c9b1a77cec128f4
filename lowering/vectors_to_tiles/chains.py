"""Moves of what has been moved: one plan for the whole chain, where that is cheaper.

A reshape that splits the lanes puts its new dimension on the sublanes, and a transpose that follows
takes it off again. Planned together they are rotations, or nothing:

    %a = vector.shape_cast %x : vector<64x256xf32> to vector<64x4x64xf32>      16 rotations of
    %b = tpu.transpose %a, [1, 0, 2] : vector<4x64x64xf32>                 ->  registers of %x
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from pallasite.diagnostics import Unsupported
from pallasite.layouts.move import IndexStep, Laid, Move
from pallasite.layouts.planner import plan
from pallasite.lowering.vectors_to_tiles.converter import Converter

_LITTLE = 2
"""Instructions per register of the result that a chain does not try to save."""


@dataclass(frozen=True)
class Moved:
    """How a value came about: a planned move of the grids `sources`."""

    move: Move
    sources: tuple[SSAValue, ...]
    alone: bool = True
    """Nothing but this value needs what the move made."""

    def then(self, steps: Sequence[IndexStep], destination: Laid) -> Move:
        """The move and what follows, as one."""
        first = self.move
        return Move(first.sources, destination, (*first.steps, *steps), first.concat_dim)


def emit_move(op: Operation, move: Move, sources: Sequence[SSAValue], c: Converter) -> None:
    """Emits `move`, whose destination is the layout of the result of `op`."""
    result = op.results[0]
    c.define(result, c.move(move, sources), move.destination[0])
    c.moves[result] = Moved(move, tuple(sources))
    c.retire(op)


def renamed(op: Operation, step: IndexStep, destination: Laid, c: Converter) -> None:
    """Says that the result of `op` has the registers of its operand, under other indices."""
    source = op.operands[0]
    before = c.moves.get(source)
    if before is not None:
        move = before.then([step], destination)
        alone = before.alone and source.has_one_use()
        c.moves[op.results[0]] = Moved(move, before.sources, alone)


def emit_chain(op: Operation, move: Move, c: Converter, apart: float = 0.0) -> bool:
    """Emits `move` of the operand of `op` together with the move that made the operand.

    Unless that costs more than both apart; `apart` is what `move` costs at least by itself.
    """
    source = op.operands[0]
    before = c.moves.get(source)
    if before is None:
        return False
    layout, shape = move.destination
    whole = before.then(move.steps, move.destination)
    try:
        saved = plan(before.move, c.costs).cost
        if saved <= _LITTLE * layout.register_count(shape):
            return False
        cost = plan(whole, c.costs).cost
    except Unsupported:
        return False
    needless = before.alone and source.has_one_use() and _here(before, op)
    if cost > apart + (saved if needless else 0.0):
        return False
    emit_move(op, whole, before.sources, c)
    return True


def _here(before: Moved, op: Operation) -> bool:
    """Whether the sources come from the block of `op`: a loop repeats no more than it did."""
    owners = (source.owner for source in before.sources)
    return all((o if isinstance(o, Block) else o.parent) is op.parent for o in owners)
