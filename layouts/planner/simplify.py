"""Rewrites index maps to as few steps as possible, so that equal movements have equal plans.

    transpose [0, 2, 1] : 529x1x573 to 529x573x1, reshape : 529x573x1 to 1x3x101039
becomes
    reshape : 529x1x573 to 1x3x101039
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

from pallasite.layouts.move import (
    Broadcast,
    IndexStep,
    Laid,
    Move,
    Repeat,
    Reshape,
    Roll,
    Shape,
    Slice,
    Transpose,
)


def simplified(move: Move) -> Move:
    """The same movement with redundant steps removed and adjacent steps merged where possible."""
    return _joined_steps(_units_first(_in_order(_joined_steps(_with_rows(move)))))


def _joined_steps(move: Move) -> Move:
    steps: list[IndexStep] = []
    shape = move.concatenated
    for step in move.steps:
        before = shape if not steps else steps[-1].shape
        made = step
        while steps and (joined := _joined(steps[-1], made, before)) is not None:
            steps.pop()
            before = shape if not steps else steps[-1].shape
            made = joined
        made = _as_reshape(made, before)
        if not _changes_nothing(made, before):
            steps.append(made)
    return move if tuple(steps) == move.steps else replace(move, steps=tuple(steps))


def _with_rows(move: Move) -> Move:
    """The same movement of matrices of one row, if rows without become columns: those are turned.

    The registers of both are the same, in grids of the same shape.
    """
    (layout, shape), (target, result) = move.sources[0], move.destination
    height, width = target.extents(result)
    if len(move.sources) > 1 or layout.sublane_dim is not None or width > 1 or height == 1:
        return move
    if layout.lane_dim is None or layout.lane_dim != len(shape) - 1:
        return move
    rows = (*shape[:-1], 1, shape[-1])
    source = replace(layout, sublane_dim=len(shape) - 1, lane_dim=len(shape))
    return replace(move, sources=((source, rows),), steps=(Reshape(rows, shape), *move.steps))


def _in_order(move: Move) -> Move:
    """The same reshape of values whose rows and lanes are their last dimensions, if it takes only
    dimensions of extent 1 to change their places for that.

    The registers are the same, in grids of the same shape; most ways of reshaping are of such rows.
    """
    source, steps, target = move.sources[0], move.steps, move.destination
    if len(move.sources) > 1 or not steps:
        return move
    if isinstance(steps[0], Reshape) and (turned := _turned(source)) is not None:
        steps = (Reshape(turned[1], source[1]), *steps)
        source = turned
    if isinstance(steps[-1], Reshape) and (turned := _turned(target)) is not None:
        steps = (*steps, Reshape(target[1], turned[1]))
        target = turned
    return move if steps == move.steps else Move((source,), target, steps)


def _turned(laid: Laid) -> Laid | None:
    """A value with its rows and lanes last; None if they are, or if others are in the way."""
    layout, shape = laid
    inside = [d for d in (layout.sublane_dim, layout.lane_dim) if d is not None]
    order = [*layout.leading_dims(len(shape)), *inside]
    long = [d for d in order if shape[d] > 1]
    if order == sorted(order) or long != sorted(long):
        return None
    sublane, lane = (
        None if d is None else order.index(d) for d in (layout.sublane_dim, layout.lane_dim)
    )
    return replace(layout, sublane_dim=sublane, lane_dim=lane), tuple([shape[d] for d in order])


def _units_first(move: Move) -> Move:
    """The same movement, with dimensions of extent 1 in front of what is transposed and then
    reshaped: where they come last, each row of it has one element."""
    steps = list(move.steps)
    for at, (step, then) in enumerate(pairwise(move.steps)):
        if isinstance(step, Transpose) and isinstance(then, Reshape) and step.shape[-1:] == (1,):
            order = sorted(range(len(step.shape)), key=lambda d: step.shape[d] > 1)
            shape = tuple([step.shape[d] for d in order])
            steps[at] = Transpose(shape, tuple([step.permutation[d] for d in order]))
            steps[at + 1] = Reshape(shape, then.shape)
    return replace(move, steps=tuple(steps))


def _as_reshape(step: IndexStep, before: Shape) -> IndexStep:
    """`step`, or the equal reshape if it is a transpose that moves only dimensions of extent 1."""
    if isinstance(step, Transpose):
        moved = [d for d in step.permutation if before[d] > 1]
        if moved == sorted(moved):
            return Reshape(before, step.shape)
    return step


def _joined(first: IndexStep, second: IndexStep, between: Shape) -> IndexStep | None:
    """Two consecutive steps as one; None unless both are transposes or both are reshapes."""
    if isinstance(first, Transpose) and isinstance(second, Transpose):
        return Transpose(second.shape, tuple([first.permutation[d] for d in second.permutation]))
    second = _as_reshape(second, between)
    if isinstance(first, Reshape) and isinstance(second, Reshape):
        return Reshape(first.source_shape, second.shape)
    return None


def _changes_nothing(step: IndexStep, before: Shape) -> bool:
    match step:
        case Reshape() | Broadcast() | Repeat():
            return step.shape == before
        case Slice():
            return step.shape == before and math.prod(step.shape) > 0
        case Roll():
            return step.amount % step.shape[step.dim] == 0
        case _:
            return False
