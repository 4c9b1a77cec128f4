"""argmax and argmin: the first position of the extremum along one dimension."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, VectorType, i32
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, grid, tpu
from pallasite.dialects.grid_base import grid_of
from pallasite.dialects.integers import greatest
from pallasite.dialects.types import shape_of, splat, vector_of
from pallasite.layouts.registers import LANES, register_shape
from pallasite.lowering.vectors_to_tiles.agreement import spelled_out
from pallasite.lowering.vectors_to_tiles.constants import coordinate
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.extremum import Extremum
from pallasite.lowering.vectors_to_tiles.reduce import (
    all_reduce,
    cut,
    mask_axis,
    native_operand,
    without_dims,
)
from pallasite.lowering.vectors_to_tiles.tiled import Tiled, grid_type
from pallasite.passes.never_nan import never_nan


@rule(tpu.ReduceIndexOp)
def lower_reduce_index(op: tpu.ReduceIndexOp, c: Converter) -> None:
    """Finds the extremum, and then the least coordinate that attains it.

    As in JAX, NaN is more extreme than any number: the first NaN is found if there is one. Raises
    `Unsupported` for elements that are not 32 bits wide.
    """
    result = op.results[0]
    held = native_operand(op.operands[0], c)
    axis = op.axis.value.data
    # Positions differ even where all values are equal, and count from element 0.
    placed = spelled_out(held.layout, held.shape)
    placed = placed.with_offsets(
        0 if axis == placed.sublane_dim else placed.row,
        0 if axis == placed.lane_dim else placed.column,
    )
    held = Tiled(c.in_layout(op.operands[0], placed), placed, held.shape)
    if held.layout.bits != 32:
        raise c.unsupported(
            op, "reduction-kind", f"an arg reduction of {held.element} is not supported",
            "the vector unit compares values and counts indices in 32-bit words",
            "convert to float32 first",
        )  # fmt: skip
    sought = Extremum(c, op.kind.data is tpu.ReductionKind.ARG_MAX, never_nan(op.operands[0]))
    if axis == placed.lane_dim and placed.grid_shape(held.shape)[-1] <= 2:
        _index_by_lane(op, held, sought, c)
        return
    rank = len(held.shape)
    if axis == placed.sublane_dim:
        place, placed = _first_within(held, sought, 0, c), placed.with_offsets(None, placed.column)
    elif axis == placed.lane_dim:
        place, placed = _first_within(held, sought, 1, c), placed.with_offsets(placed.row, None)
    else:
        _, place = sought.first(held.grid, placed.leading_dims(rank).index(axis), 1)
    layout = without_dims(placed, [axis], rank)
    kept = grid_type(layout, shape_of(result.type), i32)
    c.define(result, c.emit(grid.ReshapeOp(place, kept)), layout)
    c.retire(op)


def _first_within(held: Tiled, sought: Extremum, within: int, c: Converter) -> SSAValue:
    """The first coordinate of the extremum along the rows (`within` 0) or the lanes (1).

    For each sublane and lane, the extremum of all registers and the first register that has it are
    found. Then each register is reduced: to its extremum, and to the least of the coordinates that
    attain it.
    """
    layout, rank = held.layout, len(held.shape)
    dim = len(layout.leading_dims(rank)) + within
    value, register = sought.first(_masked(held, sought, within, c), dim, layout.block[within])
    counts = vector_of(i32, cast(VectorType[Attribute], value.type).get_shape())
    other = sought.worse(value, all_reduce(value, within, sought.reduction, value.type, c))
    inside = tpu.IotaOp.create(
        result_types=[VectorType(i32, register_shape(layout.bits))],
        properties={"dimensions": DenseArrayBase.from_list(i32, [within])},
    )
    place = c.emit(grid.BroadcastOp(c.emit(inside), counts))
    if grid_of(held.grid)[dim] > 1:
        place = c.emit(arith.AddiOp(register, place))
    never = c.emit(arith.ConstantOp(splat(counts, greatest(32))))
    place = c.emit(arith.SelectOp(other, never, place))
    return all_reduce(place, within, tpu.ReductionKind.MIN, counts, c)


def _index_by_lane(op: tpu.ReduceIndexOp, held: Tiled, sought: Extremum, c: Converter) -> None:
    """The first lane of the extremum, by the one operation that finds it in a register.

    Of two registers side by side, an element of the second one counts only where it is better than
    every element of the first, so that of equal elements the first is found.
    """
    axis = op.axis.value.data
    rank = len(held.shape)
    value = _masked(held, sought, 1, c)
    shape = cast(VectorType[Attribute], value.type).get_shape()
    second: SSAValue | None = None
    if shape[-3] == 2:
        left, right = (cut(value, len(shape) - 3, n, 1, c) for n in (0, 1))
        best = all_reduce(left, 1, sought.reduction, left.type, c)
        second = sought.worse(best, right)
        value = c.emit(arith.SelectOp(second, right, left))
    counts = vector_of(i32, cast(VectorType[Attribute], value.type).get_shape())
    found = all_reduce(value, 1, op.kind.data, counts, c)
    if second is not None:
        lanes = coordinate(axis, rank, held.layout, counts, c)
        width = c.emit(arith.ConstantOp(splat(counts, LANES)))
        index = c.emit(arith.SelectOp(second, c.emit(arith.AddiOp(lanes, width)), lanes))
        gather = tpu.DynamicGatherOp.create(
            operands=[index, found],
            result_types=[counts],
            properties={"dimensions": DenseArrayBase.from_list(i32, [len(counts.get_shape()) - 1])},
        )
        found = c.emit(gather)
    layout = without_dims(held.layout.with_offsets(held.layout.row, None), [axis], rank)
    kept = grid_type(layout, shape_of(op.results[0].type), i32)
    c.define(op.results[0], c.emit(grid.ReshapeOp(found, kept)), layout)
    c.retire(op)


def _masked(held: Tiled, sought: Extremum, within: int, c: Converter) -> SSAValue:
    """`held` with the neutral number in the padding along its rows (`within` 0) or lanes (1)."""
    layout = held.layout
    offset = (layout.row, layout.column)[within]
    if offset is None:
        return held.grid
    extent = layout.extents(held.shape)[within]
    block = layout.block[within]
    return mask_axis(held.grid, within - 2, offset, extent, block, sought.neutral, c)
