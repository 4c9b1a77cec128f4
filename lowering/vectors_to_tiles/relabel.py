"""Shape changes that only rename registers: the layout of a value afterwards, and the order of its
grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pallasite.layouts.move import groups
from pallasite.layouts.planner.lines import Array
from pallasite.layouts.registers import LANES
from pallasite.layouts.vector_layout import VectorLayout

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Renaming:
    """How a grid becomes that of another layout: by a permutation, a reshape, and a permutation."""

    layout: VectorLayout
    ordered: tuple[int, ...]
    """Permutation of the source's grid dimensions, one for each logical dimension."""
    renamed: Shape
    """The shape of the grid with one dimension for each logical dimension of the result."""
    final: tuple[int, ...]
    """Permutation of these dimensions into the order of the result's layout."""

    def of(self, numbers: Array) -> Array:
        """`numbers`, a grid with one number for each register of the source, in the grid of the
        result."""
        return numbers.transpose(self.ordered).reshape(self.renamed).transpose(self.final)


def blocks_of(layout: VectorLayout, shape: Shape) -> Shape:
    """How many registers a value has along each logical dimension."""
    sizes = list(shape)
    grid = layout.grid_shape(shape)
    if layout.sublane_dim is not None:
        sizes[layout.sublane_dim] = grid[-2]
    if layout.lane_dim is not None:
        sizes[layout.lane_dim] = grid[-1]
    return tuple(sizes)


def grid_order(layout: VectorLayout, rank: int) -> list[int]:
    """The logical dimension of each grid dimension; -1 where there is none."""
    sublane = -1 if layout.sublane_dim is None else layout.sublane_dim
    lane = -1 if layout.lane_dim is None else layout.lane_dim
    return [*layout.leading_dims(rank), sublane, lane]


def transposed(layout: VectorLayout, permutation: Sequence[int]) -> VectorLayout:
    """The layout of a value that is transposed without changing a register."""

    def moved(dim: int | None) -> int | None:
        """The number of dimension `dim` after the transpose."""
        return None if dim is None else list(permutation).index(dim)

    return replace(layout, sublane_dim=moved(layout.sublane_dim), lane_dim=moved(layout.lane_dim))


def regrouped(layout: VectorLayout, shape: Shape, result: Shape) -> VectorLayout | None:
    """The layout after a reshape from `shape` to `result` that keeps registers whole.

    None if elements would have to move.
    """
    if layout.sublane_dim is None or layout.lane_dim is None or not layout.is_native:
        return None
    if 0 in shape:
        return None
    sublane = lane = None
    for left, right in groups(shape, result):
        tiled = [d for d in left if d in (layout.sublane_dim, layout.lane_dim)]
        if not tiled:
            continue
        if len(tiled) == 2 or not right:
            return None
        dim = tiled[0]
        offset = layout.row if dim == layout.sublane_dim else layout.column
        unit = layout.block[0] if dim == layout.sublane_dim else LANES
        alone = len(left) == 1 and len(right) == 1
        whole = dim == left[-1] and shape[dim] % unit == 0 and result[right[-1]] % unit == 0
        if not alone and (offset != 0 or not whole):
            return None
        if dim == layout.sublane_dim:
            sublane = right[-1]
        else:
            lane = right[-1]
    if sublane is None or lane is None:
        return None
    return replace(layout, sublane_dim=sublane, lane_dim=lane)


def renaming(
    old: VectorLayout,
    shape: Shape,
    new: VectorLayout,
    result: Shape,
    permutation: Sequence[int] | None,
) -> Renaming:
    """The renaming from layout `old` to `new`: by a `permutation` of logical dimensions, or by a
    reshape."""
    rank = len(shape)
    order = grid_order(old, rank)
    ordered = tuple(order.index(d) for d in range(rank))
    if permutation is not None:
        ordered = tuple(ordered[d] for d in permutation)
    final = tuple(grid_order(new, len(result)))
    return Renaming(new, ordered, blocks_of(new, result), final)
