"""Splits a movement that is the same for many blocks of registers into copies of a smaller one.

If the index map leaves a dimension of the destination unchanged in every source, and the dimension
has the same role there (leading, sublanes or lanes), then it enumerates independent copies of a
smaller movement: one per index of a leading dimension, one per block of rows or columns otherwise.
Only one copy is planned; `copies.py` adds a leading dimension that counts the copies to its grids.
So planning a large block takes as long as planning a small one (spec/grid_form.md section 0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

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
    groups,
)
from pallasite.layouts.planner.lines import Array, distinct_values
from pallasite.layouts.vector_layout import VectorLayout

_LARGE = 1024
"""A copy of more registers is cut further, into blocks of which the last may be partly empty."""
_MANY_COPIES, _WASTE = 4, 20
"""That needs at least 4 copies, and wastes at most a twentieth of what they compute."""

Kept = dict[int, tuple[int, int]]
"""Per destination dimension: (dimension of an earlier value, offset of the index there)."""


def kept_dims(step: IndexStep, dims: Kept) -> Kept:
    """Maps `dims`, which refer to the result of `step`, to dimensions of its operand.

    Drops dimensions whose index does not appear, up to an offset, as exactly one operand index.
    """
    rank = len(step.shape)
    match step:
        case Transpose():
            there = dict(enumerate(step.permutation))
        case Slice():
            there = {at: at for at in range(rank) if step.strides[at] == 1}
            dims = {d: (at, off + step.offsets[at]) for d, (at, off) in dims.items()}
        case Roll():
            there = {at: at for at in range(rank) if at != step.dim}
        case Repeat():
            there = {at: at for at in range(rank) if step.source_shape[at] == step.shape[at]}
        case Broadcast():
            new = rank - len(step.source_shape)
            there = {
                at + new: at
                for at, extent in enumerate(step.source_shape)
                if step.shape[at + new] == extent
            }
        case Reshape():
            given = step.source_shape
            pairs = [
                ([d for d in inner if step.shape[d] > 1], [d for d in outer if given[d] > 1])
                for outer, inner in groups(given, step.shape)
            ]
            there = {mine[0]: its[0] for mine, its in pairs if len(mine) == len(its) == 1}
        case _:
            return {}
    return {d: (there[at], off) for d, (at, off) in dims.items() if at in there}


def _shrunk(shape: Shape, extents: dict[int, int]) -> Shape:
    return tuple(extents.get(d, n) for d, n in enumerate(shape))


def _step_on(step: IndexStep, result: dict[int, int], operand: dict[int, int]) -> IndexStep:
    """`step` with other extents of some dimensions of its result and of its operand."""
    shape = _shrunk(step.shape, result)
    if isinstance(step, Reshape | Broadcast | Repeat):
        return replace(step, shape=shape, source_shape=_shrunk(step.source_shape, operand))
    if isinstance(step, Slice):
        offsets = tuple(0 if d in result else offset for d, offset in enumerate(step.offsets))
        return replace(step, shape=shape, offsets=offsets)
    if isinstance(step, Transpose | Roll):
        return replace(step, shape=shape)
    raise TypeError(f"no smaller form of {type(step).__name__}")


@dataclass(frozen=True)
class _Axis:
    """A destination dimension along which there are `copies`, each of `extent` elements."""

    dim: int
    copies: int
    extent: int
    first: int
    """Number of source blocks that precede the first copy."""
    places: tuple[int, int] = (1, 1)
    """Grid positions that one copy occupies in the destination and in the sources."""


@dataclass(frozen=True)
class Batch:
    """A movement as `copies` of a smaller one."""

    move: Move
    core: Move
    """The movement of one copy."""
    axes: tuple[_Axis, ...]
    sources: tuple[dict[int, int], ...]
    """Per source, a map from the dimension of an axis to the dimension of the source."""

    @property
    def copies(self) -> int:
        """The number of copies along all axes together."""
        return math.prod(axis.copies for axis in self.axes)

    def sample(self) -> Array:
        """The destination registers of the first, second and last copy along every axis.

        These suffice to check a plan: all copies are moved by the same instructions, and the
        registers of a copy are an affine function of its number.
        """
        layout, shape = self.move.destination
        grid = layout.grid_shape(shape)
        kept = [np.arange(n) for n in grid]
        for axis in self.axes:
            place = place_in_grid(layout, len(shape), axis.dim)
            copies = np.array([[0], [1], [axis.copies - 1]])
            numbers = (copies * axis.places[0] + np.arange(axis.places[0])).reshape(-1)
            kept[place] = distinct_values(np.minimum(numbers, grid[place] - 1))
        return np.arange(math.prod(grid)).reshape(grid)[np.ix_(*kept)].reshape(-1)


def place_in_grid(layout: VectorLayout, rank: int, dim: int) -> int:
    """The dimension of the register grid that enumerates the blocks of logical dimension `dim`."""
    leading = layout.leading_dims(rank)
    if dim in leading:
        return leading.index(dim)
    return len(leading) + (dim == layout.lane_dim)


def batch(move: Move) -> Batch | None:
    """`move` as copies of a smaller movement; None if there is only one copy."""
    _, shape = move.destination
    kept = [{d: (d, 0) for d in range(len(shape))}]
    for step in reversed(move.steps):
        kept.append(kept_dims(step, kept[-1]))
    found = kept[-1]
    if len(move.sources) > 1:
        found = {d: (s, off) for d, (s, off) in found.items() if s != move.concat_dim}
    tried = (_axis(move, d, source, offset) for d, (source, offset) in found.items())
    axes = tuple(axis for axis in tried if axis is not None and axis.copies > 1)
    layout, shape = move.destination
    if layout.register_count(shape) > _LARGE * math.prod(a.copies for a in axes):
        known = {axis.dim for axis in axes}
        others = (_in_blocks(move, d, *found[d]) for d in found if d not in known)
        axes += tuple(axis for axis in others if axis is not None)
    if not axes:
        return None
    levels = [{a.dim: level[a.dim][0] for a in axes} for level in kept]
    extents = [{level[a.dim]: a.extent for a in axes} for level in levels]
    steps: list[IndexStep] = []
    for number, step in enumerate(reversed(move.steps)):
        steps.insert(0, _step_on(step, extents[number], extents[number + 1]))
    sources = tuple(_core(laid, levels[-1], axes) for laid in move.sources)
    target = _core(move.destination, levels[0], axes)
    core = Move(sources, target, tuple(steps), move.concat_dim)
    return Batch(move, core, axes, (levels[-1],) * len(sources))


def _axis(move: Move, dim: int, source: int, offset: int) -> _Axis | None:
    """`dim` as an axis of copies; None if its role or its place in the blocks differs in a source.

    `source` is the corresponding dimension of every source, its index `offset` larger.
    """
    layout, shape = move.destination
    if dim in layout.leading_dims(len(shape)):
        if all(source in la.leading_dims(len(s)) for la, s in move.sources):
            return _Axis(dim, shape[dim], 1, offset)
        return None
    rows = dim == layout.sublane_dim
    place, size = (layout.row, layout.tile_rows) if rows else (layout.column, layout.block[1])
    if place is None:
        return None
    start = -1
    for other, _ in move.sources:
        mine = other.sublane_dim if rows else other.lane_dim
        begin, block = (other.row, other.tile_rows) if rows else (other.column, other.block[1])
        if mine != source or block != size or begin is None:
            return None
        start, rest = divmod(begin + offset, size)
        if rest != place or (len(move.sources) > 1 and start):
            return None
    return _Axis(dim, layout.grid_shape(shape)[-2 if rows else -1], size, start)


def _in_blocks(move: Move, dim: int, source: int, offset: int) -> _Axis | None:
    """`dim` as copies that are whole blocks in all grids, even where its role differs; else None.

    The last copy may lack blocks; the instructions for these are wasted (at most 1 in `_WASTE`).
    """
    roles: list[tuple[int, int]] = []
    for (layout, shape), d in ((move.destination, dim), *((laid, source) for laid in move.sources)):
        if d in layout.leading_dims(len(shape)):
            roles.append((1, 0))
        elif d == layout.sublane_dim and layout.row is not None:
            roles.append((layout.tile_rows, layout.row))
        elif d == layout.lane_dim and layout.column is not None:
            roles.append((layout.block[1], layout.column))
        else:
            return None
    if roles[0][1] or len({*roles[1:]}) != 1:
        return None
    (size, _), (other, begin) = roles[:2]
    extent = math.lcm(size, other)
    total = move.destination[1][dim]
    copies = -(-total // extent)
    first, rest = divmod(begin + offset, other)
    wasted = copies * extent - total
    if (
        rest
        or copies < _MANY_COPIES
        or wasted * _WASTE > total
        or (len(move.sources) > 1 and first)
    ):
        return None
    return _Axis(dim, copies, extent, first, (extent // size, extent // other))


def _core(laid: Laid, dims: dict[int, int], axes: Sequence[_Axis]) -> Laid:
    """Layout and shape of a value within one copy: one extent of each axis, at offset 0."""
    layout, shape = laid
    extents = {dims[a.dim]: a.extent for a in axes}
    if layout.sublane_dim in extents:
        layout = layout.with_offsets(0, layout.column)
    if layout.lane_dim in extents:
        layout = layout.with_offsets(layout.row, 0)
    return layout, _shrunk(shape, extents)
