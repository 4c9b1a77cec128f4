"""Movements written so that more of their dimensions number copies (`planner_batch.py`).

Either the registers are counted in other groups, or the movement is done in two: along the rows,
and along the lanes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pallasite.layouts.move import IndexStep, Move, Reshape, Roll, Shape, Slice
from pallasite.layouts.planner_batch import Batch, batch
from pallasite.layouts.vector_layout import VectorLayout


def regrouped(move: Move) -> Move | None:
    """A reshape with the registers of source and destination counted in equal groups first.

    Leading dimensions only number registers, so (24, 33, 5, 16) to (22, 144, 4, 5) is the same as
    (792, 1, 5, 16) to (792, 4, 4, 5), of which one copy is easily planned. None if that is so
    already, or if there is no common factor.
    """
    laid = (*move.sources, move.destination)
    if len(laid) > 2 or [type(step) for step in move.steps] != [Reshape]:
        return None
    shapes = [shape for _, shape in laid]
    layouts = [layout for layout, _ in laid]
    for layout, shape in zip(layouts, shapes, strict=True):
        if (layout.sublane_dim, layout.lane_dim) != (len(shape) - 2, len(shape) - 1):
            return None
    leading = [math.prod(shape[:-2]) for shape in shapes]
    common = math.gcd(*leading)
    new = [
        (common, count // common, *shape[-2:]) for count, shape in zip(leading, shapes, strict=True)
    ]
    if common == 1 or new == shapes:
        return None
    source, target = (
        (replace(layout, sublane_dim=2, lane_dim=3), shape)
        for layout, shape in zip(layouts, new, strict=True)
    )
    return Move.reshape(source, target[0], target[1])


def by_axes(move: Move) -> list[list[tuple[Move, Batch]]]:
    """A slice or roll along the rows and along the lanes as two movements, in both orders.

    Each of them leaves one of the two dimensions alone, so that it is one of many copies, with
    which it is returned. Empty if only one dimension moves anyway.
    """
    first, *others = move.sources
    if others or not move.steps:
        return []
    (source, shape), (target, result) = first, move.destination
    rows, lanes = source.sublane_dim, source.lane_dim
    roles = (rows, lanes, source.tile_rows)
    if roles != (target.sublane_dim, target.lane_dim, target.tile_rows):
        return []
    places = (source.row, source.column, target.row, target.column)
    if rows is None or lanes is None or None in places:
        return []
    if not all(isinstance(step, Slice | Roll) for step in move.steps):
        return []
    pairs: list[list[tuple[Move, Batch]]] = []
    for last in (rows, lanes):
        rest = set(range(len(shape))) - {last}
        window, place = _window(move, last)
        before = _only(move.steps, rest, window.shape)
        if window.shape != shape:
            before.insert(0, window)
        middle = before[-1].shape if before else shape
        after = _only(_moved(move.steps, last, window.offsets[last]), {last}, middle)
        between = target.with_offsets(
            place if last == rows else target.row, place if last == lanes else target.column
        )
        if before and after and after[-1].shape == result:
            one = Move(((source, shape),), (between, middle), tuple(before))
            two = Move(((between, middle),), move.destination, tuple(after))
            copies = [(half, batch(half)) for half in (one, two) if half != move]
            pair = [(half, found) for half, found in copies if found is not None]
            if len(pair) == 2:
                pairs.append(pair)
    return pairs


def _only(steps: Sequence[IndexStep], dims: set[int], shape: Shape) -> list[IndexStep]:
    """What `steps` do to the dimensions `dims` of an array of `shape`."""
    done: list[IndexStep] = []
    for step in steps:
        if isinstance(step, Slice):
            mine = [d in dims for d in range(len(shape))]
            made: IndexStep = Slice(
                tuple(n if c else m for c, n, m in zip(mine, step.shape, shape, strict=True)),
                tuple(o if c else 0 for c, o in zip(mine, step.offsets, strict=True)),
                tuple(s if c else 1 for c, s in zip(mine, step.strides, strict=True)),
            )
            if made != Slice(shape, (0,) * len(shape), (1,) * len(shape)):
                done.append(made)
        elif isinstance(step, Roll) and step.dim in dims:
            done.append(Roll(shape, step.dim, step.amount))
        shape = done[-1].shape if done else shape
    return done


def _window(move: Move, dim: int) -> tuple[Slice, int]:
    """The whole blocks of the source that hold what is wanted along `dim`, and where it begins."""
    layout, shape = move.sources[0]
    place, block = _place(layout, dim)
    first = move.steps[0]
    start, end = 0, shape[dim]
    if isinstance(first, Slice):
        begin = first.offsets[dim]
        stop = begin + (first.shape[dim] - 1) * first.strides[dim] + 1
        start = max((place + begin) // block * block - place, 0)
        end = min(-(-(place + stop) // block) * block - place, end)
    offsets = tuple(start if d == dim else 0 for d in range(len(shape)))
    sizes = tuple(end - start if d == dim else n for d, n in enumerate(shape))
    return Slice(sizes, offsets, (1,) * len(shape)), 0 if start else place


def _moved(steps: Sequence[IndexStep], dim: int, offset: int) -> list[IndexStep]:
    """`steps` on an array whose first `offset` elements along `dim` are gone."""
    first = steps[0]
    if not offset or not isinstance(first, Slice):
        return list(steps)
    offsets = tuple(o - offset if d == dim else o for d, o in enumerate(first.offsets))
    return [replace(first, offsets=offsets), *steps[1:]]


def _place(layout: VectorLayout, dim: int) -> tuple[int, int]:
    place = layout.row if dim == layout.sublane_dim else layout.column
    return place or 0, layout.block[dim != layout.sublane_dim]
