"""Rewrites movements such that more of their dimensions enumerate copies (`batch.py`).

Either the registers are regrouped into other leading dimensions, or the movement is split in two,
one along the rows and one along the lanes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from pallasite.layouts.move import IndexStep, Laid, Move, Reshape, Roll, Shape, Slice
from pallasite.layouts.planner.batch import Batch, batch
from pallasite.layouts.vector_layout import VectorLayout


@dataclass(frozen=True)
class _Units:
    """A value divided into `count` equal consecutive parts, each of whole registers.

    Grouping the parts into a leading dimension keeps the order of the registers.
    """

    count: int
    tail: Shape
    """The shape of one part; several parts together are longer in its first dimension."""
    laid: Laid

    def grouped(self, groups: int) -> Laid:
        """Layout and shape of the same registers with `groups` groups of parts in front."""
        layout, _ = self.laid
        first, *rest = self.tail
        shape = (groups, self.count // groups * first, *rest)
        rows = None if layout.sublane_dim is None else len(shape) - 2
        return replace(layout, sublane_dim=rows, lane_dim=len(shape) - 1), shape


def _units(laid: Laid, fine: bool) -> _Units | None:
    """Divides a value into parts; None unless its last dimensions lie along sublanes and lanes.

    Parts are matrices, or with `fine` blocks of rows, or of one row, that fill registers.
    """
    layout, shape = laid
    rank = len(shape)
    rows = layout.sublane_dim is not None
    if layout.lane_dim != rank - 1 or (rows and layout.sublane_dim != rank - 2):
        return None
    leading = math.prod(shape[: rank - 1 - rows])
    height, width = layout.extents(shape)
    tile, columns = layout.block
    if fine and height > 1 and layout.row == 0 and height % tile == 0:
        return _Units(leading * height // tile, (tile, width), laid)
    if fine and not rows and layout.column == 0 and width % columns == 0:
        return _Units(leading * width // columns, (columns,), laid)
    return _Units(leading, (1, height, width) if rows else (1, width), laid)


def regrouped(move: Move) -> Move | None:
    """A reshape rewritten with the largest common leading dimension; None if that changes nothing.

    Leading dimensions only enumerate registers, so (24, 33, 5, 16) to (22, 144, 4, 5) is the same
    as (792, 1, 5, 16) to (792, 4, 4, 5): 792 copies of a small movement. Blocks of rows that fill
    registers can be grouped, too: (3, 256, 300) to (230400,) is (24, 32, 300) to (24, 9600).
    """
    laid = (*move.sources, move.destination)
    if len(laid) > 2 or [type(step) for step in move.steps] != [Reshape]:
        return None
    best: Move | None = None
    most = 1
    for fine in product((False, True), repeat=2):
        source, target = (_units(one, f) for one, f in zip(laid, fine, strict=True))
        if source is None or target is None:
            return None
        common = math.gcd(source.count, target.count)
        if common > most:
            groups = [u.grouped(common) for u in (source, target)]
            most, best = common, Move.reshape(groups[0], groups[1][0], groups[1][1])
    return None if best is None or (*best.sources, best.destination) == laid else best


def by_axes(move: Move) -> list[list[tuple[Move, Batch]]]:
    """Splits slices and rolls into a movement along the rows and one along the lanes.

    Returns up to two pairs, one per order. Each half comes with its `Batch`: since it leaves one of
    the two dimensions alone, it consists of copies. Empty if only one dimension moves.
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
    """The part of `steps` that affects the dimensions `dims` of an array of `shape`."""
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
    """A slice of the whole source blocks that are needed along `dim`, and its layout offset."""
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
    """`steps` for an array without its first `offset` elements along `dim`."""
    first = steps[0]
    if not offset or not isinstance(first, Slice):
        return list(steps)
    offsets = tuple(o - offset if d == dim else o for d, o in enumerate(first.offsets))
    return [replace(first, offsets=offsets), *steps[1:]]


def _place(layout: VectorLayout, dim: int) -> tuple[int, int]:
    place = layout.row if dim == layout.sublane_dim else layout.column
    return place or 0, layout.block[dim != layout.sublane_dim]
