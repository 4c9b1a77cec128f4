"""argmax and argmin: where the extremum is along one dimension, and the first place of several."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, VectorType, i32
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, grid, tpu
from pallasite.dialects.types import shape_of, splat, vector_of
from pallasite.layouts.registers import LANES
from pallasite.lowering.vectors_to_tiles.agreement import spelled_out
from pallasite.lowering.vectors_to_tiles.constants import coordinate
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.reduce import (
    KINDS,
    all_reduce,
    cut,
    mask_axis,
    native_operand,
    reduce_dims,
    without_dims,
)
from pallasite.lowering.vectors_to_tiles.tiled import Tiled, grid_type
from pallasite.passes.two_values import neutral_value


@rule(tpu.ReduceIndexOp)
def lower_reduce_index(op: tpu.ReduceIndexOp, c: Converter) -> None:
    """argmax and argmin: the extremum, then the least coordinate that attains it.

    As in JAX, NaN is more extreme than any number: `best` is NaN as soon as an element is.
    """
    result = op.results[0]
    held = native_operand(c, op.operands[0])
    axis = op.axis.value.data
    # Positions vary even where all values are equal, and count from element 0.
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
    maximum = op.kind.data is tpu.ReductionKind.ARG_MAX
    if axis == placed.lane_dim and placed.grid_shape(held.shape)[-1] <= 2:
        _index_by_lane(op, held, maximum, c)
        return
    best = reduce_dims(c, held, [axis], "maximumf" if maximum else "minimumf", False)
    kind = cast(VectorType[Attribute], held.grid.type)
    everywhere = c.emit(grid.BroadcastOp(best.grid, kind))
    # Where the best is a number nothing is NaN; where it is NaN nothing equals it, and the
    # elements sought are those that differ from themselves.
    equal = c.emit(arith.CmpfOp(held.grid, everywhere, "oeq"))
    number = c.emit(arith.CmpfOp(held.grid, held.grid, "oeq"))
    other = c.emit(arith.XOrIOp(equal, number))
    counts = vector_of(i32, kind.get_shape())
    position = coordinate(c, axis, len(held.shape), held.layout, counts)
    never = c.emit(arith.ConstantOp(splat(counts, (1 << 31) - 1)))
    index = Tiled(c.emit(arith.SelectOp(other, never, position)), held.layout, held.shape)
    least = reduce_dims(c, index, [axis], "minsi", True)
    shape = shape_of(result.type)
    layout = without_dims(least.layout, [axis], len(held.shape))
    c.define(result, c.emit(grid.ReshapeOp(least.grid, grid_type(layout, shape, i32))), layout)
    c.retire(op)


def _index_by_lane(op: tpu.ReduceIndexOp, held: Tiled, maximum: bool, c: Converter) -> None:
    """The first lane of the extremum in one operation per register.

    Of two registers side by side the second one only counts where it beats every lane of the
    first, so that of equal values the first is found. A NaN beats every number and nothing beats
    a NaN, so the second one counts where the best of the first is a number (equals itself) and
    is not at least as good: one comparison without the other, as the second implies the first.
    """
    kind = tpu.ReductionKind.ARG_MAX if maximum else tpu.ReductionKind.ARG_MIN
    fold = "maximumf" if maximum else "minimumf"
    axis = op.axis.value.data
    rank = len(held.shape)
    value = _mask_lanes(c, held, neutral_value(fold))
    shape = cast(VectorType[Attribute], value.type).get_shape()
    second: SSAValue | None = None
    if shape[-3] == 2:
        left, right = (cut(c, value, len(shape) - 3, n, 1) for n in (0, 1))
        best = all_reduce(c, left, 1, tpu.ReductionKind(KINDS[fold][1]), left.type)
        number = c.emit(arith.CmpfOp(best, best, "oeq"))
        first = c.emit(arith.CmpfOp(best, right, "oge" if maximum else "ole"))
        second = c.emit(arith.XOrIOp(number, first))
        value = c.emit(arith.SelectOp(second, right, left))
    counts = vector_of(i32, cast(VectorType[Attribute], value.type).get_shape())
    found = all_reduce(c, value, 1, kind, counts)
    if second is not None:
        lanes = coordinate(c, axis, rank, held.layout, counts)
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


def _mask_lanes(c: Converter, held: Tiled, neutral: float | int) -> SSAValue:
    """`held` with `neutral` in the padding along its lanes."""
    layout, value = held.layout, held.grid
    if layout.column is None:
        return value
    columns = layout.extents(held.shape)[1]
    return mask_axis(c, value, -1, layout.column, columns, layout.block[1], neutral)
