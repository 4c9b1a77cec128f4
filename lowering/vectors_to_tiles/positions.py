"""Comparisons of row or lane numbers with a constant become masks that are boxes.

    arith.cmpi slt %rows, 5        where %rows is `tpu.iota` along the rows

is true in rows 0 to 4, which `tpu.create_mask` states without counting or comparing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from xdsl.dialects.builtin import IntegerAttr, VectorType, i1
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, grid, tpu, vector
from pallasite.dialects.predicates import MIRRORED
from pallasite.dialects.types import bit_width, element_of, shape_of, vector_of
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.passes.divisibility import constant_of


def _constant(value: SSAValue) -> int | None:
    """The integer that every element of `value` is, None if it is not known."""
    owner = value.owner
    if isinstance(owner, vector.BroadcastOp) and not isinstance(owner.source.type, VectorType):
        return constant_of(owner.source)
    number = arith.splat_number(value)
    return number if isinstance(number, int) else None


def _interval(op: arith.CmpiOp) -> tuple[int, int, int] | None:
    """The dimension and the positions [low, high) that `op` selects; None for other comparisons."""
    predicate = op.predicate_name
    left, right = op.operands
    if isinstance(right.owner, tpu.IotaOp):
        left, right = right, left
        predicate = MIRRORED[predicate]
    bound = _constant(right)
    if bound is None or not isinstance(left.owner, tpu.IotaOp):
        return None
    dims = [int(d) for d in left.owner.dimensions.get_values()]
    if len(dims) != 1:
        return None
    extent = shape_of(left.type)[dims[0]]
    interval = {
        "slt": (0, bound), "sle": (0, bound + 1), "sgt": (bound + 1, extent),
        "sge": (bound, extent), "eq": (bound, bound + 1),
    }.get(predicate)  # fmt: skip
    if interval is None:
        return None
    low, high = interval
    low = min(max(low, 0), extent)
    return dims[0], low, min(max(high, low), extent)


def lower_position_mask(op: arith.CmpiOp, c: Converter) -> bool:
    """Defines the result of `op` by boxes; False if it does not compare row or lane numbers with a
    constant."""
    found = _interval(op)
    if found is None:
        return False
    dim, low, high = found
    shape = shape_of(op.results[0].type)
    rank = len(shape)
    if dim < rank - 2 or rank < 2 or bit_width(element_of(op.operands[0])) != 32:
        return False
    rows = dim == rank - 2
    layout = VectorLayout.native(rank, 32, 0 if rows else None, None if rows else 0)
    mask = _Positions(shape, dim, low, high)
    made = mask.in_layout(layout, c)
    assert made is not None
    c.define(op.results[0], made, layout)
    c.offer_form("mask", op.results[0], partial(mask.in_layout, c=c))
    c.retire(op)
    return True


@dataclass(frozen=True)
class _Positions:
    """The mask of positions [low, high) of a dimension that runs along rows or lanes."""

    shape: tuple[int, ...]
    dim: int
    low: int
    high: int

    def in_layout(self, layout: VectorLayout, c: Converter) -> SSAValue | None:
        """The mask for data in `layout`; None if that has the dimension elsewhere."""
        rank = len(self.shape)
        rows = self.dim == rank - 2
        start = layout.row if rows else layout.column
        if (layout.sublane_dim, layout.lane_dim) != (rank - 2, rank - 1) or not layout.is_native:
            return None
        if start is None:
            return None
        unit = layout.native_rows if rows else LANES
        blocks = layout.grid_shape(self.shape)
        runs: list[tuple[tuple[int, int], int]] = []
        for block in range(blocks[self.dim]):
            ends = [start + n - block * unit for n in (self.low, self.high)]
            first, last = (min(max(n, 0), unit) for n in ends)
            box = (first, last) if first < last else (0, 0)
            if runs and runs[-1][0] == box:
                runs[-1] = (box, runs[-1][1] + 1)
            else:
                runs.append((box, 1))
        pieces: list[SSAValue] = []
        for box, count in runs:
            size = list(blocks)
            size[self.dim] = count
            kind = vector_of(i1, (*size, *layout.register_shape()))
            one = c.emit(_box(box, layout, rows, c))
            pieces.append(c.emit(grid.BroadcastOp(one, kind)))
        return pieces[0] if len(pieces) == 1 else c.emit(grid.ConcatOp(pieces, self.dim))


def _box(box: tuple[int, int], layout: VectorLayout, rows: bool, c: Converter) -> Operation:
    """The mask of a register of `layout` in the rows or lanes [first, last) of `box`."""
    first, last = box
    kind = vector_of(i1, layout.register_shape())
    p = layout.packing
    if rows and (first % p or last % p):
        bounds = {"from": IntegerAttr(first, 32), "to": IntegerAttr(last, 32)}
        return tpu.CreateSubelementMaskOp.create(result_types=[kind], properties=bounds)
    ends = (first // p, 0, last // p, LANES) if rows else (0, first, SUBLANES, last)
    return tpu.CreateMaskOp.create(
        operands=[c.constant_index(n) for n in ends], result_types=[kind]
    )
