"""Reductions: first over whole registers, then inside one; the result stays replicated.

Padding is masked to the neutral element in the edge registers only. Over leading dimensions and
over blocks of rows and columns the fold is `grid.reduce`, a left fold in grid order, so the order
of a floating-point sum does not depend on the form (design note "Form 4", section 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, VectorType, f32, i1, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, grid, tpu, vector
from pallasite.dialects.types import bit_width, splat, splat_value
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.casts import narrow, widen
from pallasite.lowering.vectors_to_tiles.constants import coordinate
from pallasite.lowering.vectors_to_tiles.converter import (
    Converter,
    Tiled,
    element_of,
    grid_type,
    is_float,
    rule,
    shape_of,
)
from pallasite.lowering.vectors_to_tiles.elementwise import agree, spelled_out
from pallasite.passes.two_values import any_of, choice, kind_of

KINDS: dict[str, tuple[type[Operation], str]] = {
    "add": (arith.AddfOp, "sum"),
    "maximumf": (arith.MaximumfOp, "max"),
    "minimumf": (arith.MinimumfOp, "min"),
    "maxsi": (arith.MaxSIOp, "max"),
    "minsi": (arith.MinSIOp, "min"),
}


def neutral_value(kind: str, element: Attribute) -> float | int:
    """The element that changes nothing: 0, -inf or the least integer, +inf or the greatest."""
    low, high = -(1 << 31), (1 << 31) - 1
    return {"add": 0, "maximumf": -math.inf, "minimumf": math.inf, "maxsi": low, "minsi": high}[
        kind
    ]


def combiner(kind: str, integer: bool) -> type[Operation]:
    """The operation that folds two registers."""
    return arith.AddiOp if kind == "add" and integer else KINDS[kind][0]


@rule(vector.MultiReductionOp)
def lower_multi_reduction(op: vector.MultiReductionOp, c: Converter) -> None:
    """Any set of dimensions; a reduced sublane or lane axis leaves its result replicated there."""
    kind = kind_of(op)
    dims = [int(d) for d in op.reduction_dims.get_values()]
    held = _folded_choice(op, dims, kind, c) or native_operand(c, op.source)
    element = held.element
    if kind in ("maximumf", "minimumf") and held.layout.bits == 16:
        folded = _folded_blocks(c, held, dims, combiner(kind, False).name)
        value, layout = widen(c, folded, f32)
        held = Tiled(value, layout, folded.shape)
    if kind not in KINDS or held.layout.bits != 32:
        raise c.unsupported(
            op, "reduction-kind", f"a {kind} reduction of {held.element} is not supported",
            "the cross-lane unit reduces 32-bit sums, maxima and minima",
            "convert to float32 or int32 first",
        )  # fmt: skip
    integer = not is_float(held.element)
    reduced = reduce_dims(c, held, dims, kind, integer)
    result = op.results[0]
    if not isinstance(result.type, VectorType):
        raise c.unsupported(
            op, "scalar-reduction", "a reduction to a scalar must keep a unit dimension"
        )
    shape = shape_of(result)
    layout = without_dims(reduced.layout, dims, len(held.shape))
    value = c.emit(
        grid.ReshapeOp(
            reduced.grid,
            grid_type(layout, shape, held.element),
        )
    )
    if bit_width(element) < 32:
        value, layout = narrow(c, Tiled(value, layout, shape), element)
    value, layout = _with_accumulator(op, value, layout, shape, kind, integer, c)
    c.define(result, value, layout)
    c.retire(op)


def _folded_choice(
    op: vector.MultiReductionOp, dims: Sequence[int], kind: str, c: Converter
) -> Tiled | None:
    """Of a choice between two constants, the mask is folded before values are chosen by it."""
    found = choice(op.source)
    if found is None or (one := any_of(kind, found)) is None:
        return None
    mask = c.tiled(found.mask)
    if mask.layout.bits != 32 or not mask.layout.is_native:
        return None
    folded = _folded_blocks(c, mask, dims, arith.OrIOp.name if one else arith.AndIOp.name)
    if folded.shape == mask.shape:
        return None
    numbers = cast(
        VectorType[Attribute], grid_type(folded.layout, folded.shape, element_of(op.source))
    )
    values = [c.emit(arith.ConstantOp(splat(numbers, n))) for n in (found.yes, found.no)]
    return Tiled(c.emit(arith.SelectOp(folded.grid, *values)), folded.layout, folded.shape)


def _folded_blocks(c: Converter, held: Tiled, dims: Sequence[int], fold: str) -> Tiled:
    """Registers folded onto each other, where none has padding along the dimensions."""
    layout, shape, value = held.layout, list(held.shape), held.grid
    for position, dim in enumerate(layout.leading_dims(len(shape))):
        if dim in dims:
            value = c.emit(grid.ReduceOp(value, position, fold))
            shape[dim] = 1
    leading = len(layout.leading_dims(len(shape)))
    offsets = (layout.row, layout.column)
    for axis, dim in enumerate((layout.sublane_dim, layout.lane_dim)):
        if dim in dims and dim is not None and offsets[axis] == 0:
            if shape[dim] % layout.block[axis] == 0:
                value = c.emit(grid.ReduceOp(value, leading + axis, fold))
                shape[dim] = layout.block[axis]
    return Tiled(value, layout, tuple(shape))


def without_dims(layout: VectorLayout, dims: Sequence[int], rank: int) -> VectorLayout:
    """`layout` after the (replicated or leading) dimensions `dims` are gone."""
    left = [d for d in range(rank) if d not in dims]

    def renamed(dim: int | None) -> int | None:
        return left.index(dim) if dim in left else None

    return VectorLayout(
        layout.bits, renamed(layout.sublane_dim), renamed(layout.lane_dim), layout.row,
        layout.column, layout.tile_rows,
    )  # fmt: skip


def reduce_dims(c: Converter, held: Tiled, dims: Sequence[int], kind: str, integer: bool) -> Tiled:
    """`held` with every dimension of `dims` folded to extent 1, replicated where it was tiled."""
    layout, shape = held.layout, list(held.shape)
    fold = combiner(kind, integer)
    value = mask_padding(c, held, dims, neutral_value(kind, held.element))
    leading = layout.leading_dims(len(shape))
    for position, dim in enumerate(leading):
        if dim in dims:
            value = c.emit(grid.ReduceOp(value, position, fold.name))
            shape[dim] = 1
    for axis, dim in ((0, layout.sublane_dim), (1, layout.lane_dim)):
        if dim is None or dim not in dims:
            continue
        extent = shape[dim]
        shape[dim] = 1
        offset = layout.row if axis == 0 else layout.column
        if offset is None:
            value = _repeat(c, value, extent, kind, integer)
            continue
        value = c.emit(grid.ReduceOp(value, len(leading) + axis, fold.name))
        value = _all_reduce(c, value, axis, tpu.ReductionKind(KINDS[kind][1]), value.type)
        layout = layout.with_offsets(*((None, layout.column) if axis == 0 else (layout.row, None)))
    return Tiled(value, layout, tuple(shape))


def _repeat(c: Converter, value: SSAValue, extent: int, kind: str, integer: bool) -> SSAValue:
    """Folding `extent` equal elements: a product for a sum, nothing for maxima and minima."""
    if kind != "add" or extent == 1:
        return value
    times = c.emit(arith.ConstantOp(splat(cast(VectorType[Attribute], value.type), extent)))
    return c.emit((arith.MuliOp if integer else arith.MulfOp)(value, times))


def mask_padding(c: Converter, held: Tiled, dims: Sequence[int], neutral: float | int) -> SSAValue:
    """`held` with `neutral` in the padding along the tiled dimensions of `dims`."""
    layout = held.layout
    value = held.grid
    rows, columns = layout.extents(held.shape)
    if layout.sublane_dim in dims and layout.row is not None:
        value = mask_axis(c, value, -2, layout.row, rows, layout.block[0], neutral)
    if layout.lane_dim in dims and layout.column is not None:
        value = mask_axis(c, value, -1, layout.column, columns, layout.block[1], neutral)
    return value


def mask_axis(
    c: Converter, value: SSAValue, axis: int, offset: int, extent: int, block: int,
    neutral: float | int,
) -> SSAValue:  # fmt: skip
    """`neutral` in the first and last blocks along `axis` wherever there is no data."""
    blocks = -(-(offset + extent) // block)
    end = offset + extent - (blocks - 1) * block
    if blocks == 1:
        if offset == 0 and end == block:
            return value
        return _masked(c, value, axis, offset, end, neutral)
    pieces: list[SSAValue] = []
    inner_first, inner_last = 0, blocks
    kind = cast(VectorType[Attribute], value.type)
    rank = len(kind.get_shape()) - 2
    if offset:
        inner_first = 1
        pieces.append(_masked(c, _cut(c, value, rank + axis, 0, 1), axis, offset, block, neutral))
    tail: list[SSAValue] = []
    if end < block:
        inner_last = blocks - 1
        last = _cut(c, value, rank + axis, blocks - 1, 1)
        tail.append(_masked(c, last, axis, 0, end, neutral))
    if inner_first == 0 and inner_last == blocks:
        return value
    if inner_last > inner_first:
        pieces.append(_cut(c, value, rank + axis, inner_first, inner_last - inner_first))
    pieces += tail
    return pieces[0] if len(pieces) == 1 else c.emit(grid.ConcatOp(pieces, rank + axis))


def _cut(c: Converter, value: SSAValue, dim: int, first: int, count: int) -> SSAValue:
    shape = cast(VectorType[Attribute], value.type).get_shape()[:-2]
    offsets, sizes = [0] * len(shape), list(shape)
    offsets[dim], sizes[dim] = first, count
    return c.box(value, offsets, sizes)


def _masked(
    c: Converter, value: SSAValue, axis: int, low: int, high: int, neutral: float | int
) -> SSAValue:
    kind = cast(VectorType[Attribute], value.type)
    box = (low, high, 0, LANES) if axis == -2 else (0, SUBLANES, low, high)
    bounds = [c.constant_index(n) for n in (box[0], box[2], box[1], box[3])]
    made = tpu.CreateMaskOp.create(
        operands=bounds, result_types=[VectorType(i1, (SUBLANES, LANES))]
    )
    mask = c.emit(grid.BroadcastOp(c.emit(made), VectorType(i1, kind.get_shape())))
    other = c.emit(arith.ConstantOp(splat(kind, neutral)))
    return c.emit(arith.SelectOp(mask, value, other))


def _with_accumulator(
    op: vector.MultiReductionOp, value: SSAValue, layout: VectorLayout, shape: tuple[int, ...],
    kind: str, integer: bool, c: Converter,
) -> tuple[SSAValue, VectorLayout]:  # fmt: skip
    owner = op.acc.owner
    initial = splat_value(owner.value) if isinstance(owner, arith.ConstantOp) else None
    if initial is not None and initial == neutral_value(kind, element_of(op.acc)):
        return value, layout
    reduced = Tiled(value, layout, shape)
    common = agree([reduced, c.tiled(op.acc)], layout.bits)
    operands = [c.relayout(reduced, common).grid, c.in_layout(op.acc, common)]
    return c.emit(combiner(kind, integer)(*operands)), common


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
    maximum = "max" in str(op.kind)
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
    counts = VectorType(i32, kind.get_shape())
    position = coordinate(c, axis, len(held.shape), held.layout, counts)
    never = c.emit(arith.ConstantOp(splat(counts, (1 << 31) - 1)))
    index = Tiled(c.emit(arith.SelectOp(other, never, position)), held.layout, held.shape)
    least = reduce_dims(c, index, [axis], "minsi", True)
    shape = shape_of(result)
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
    value = mask_padding(c, held, [axis], neutral_value(fold, held.element))
    shape = cast(VectorType[Attribute], value.type).get_shape()
    second: SSAValue | None = None
    if shape[-3] == 2:
        left, right = (_cut(c, value, len(shape) - 3, n, 1) for n in (0, 1))
        best = _all_reduce(c, left, 1, tpu.ReductionKind(KINDS[fold][1]), left.type)
        number = c.emit(arith.CmpfOp(best, best, "oeq"))
        first = c.emit(arith.CmpfOp(best, right, "oge" if maximum else "ole"))
        second = c.emit(arith.XOrIOp(number, first))
        value = c.emit(arith.SelectOp(second, right, left))
    counts = VectorType(i32, cast(VectorType[Attribute], value.type).get_shape())
    found = _all_reduce(c, value, 1, kind, counts)
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
    kept = grid_type(layout, shape_of(op.results[0]), i32)
    c.define(op.results[0], c.emit(grid.ReshapeOp(found, kept)), layout)
    c.retire(op)


def _all_reduce(
    c: Converter, value: SSAValue, axis: int, kind: tpu.ReductionKind, result: Attribute
) -> SSAValue:
    """Every register reduced along its sublanes (`axis` 0) or lanes (1), in all of them."""
    full = len(cast(VectorType[Attribute], value.type).get_shape())
    made = tpu.AllReduceOp.create(
        operands=[value],
        result_types=[result],
        properties={
            "dim": IntegerAttr(full - 2 + axis, i64),
            "kind": tpu.ReductionKindAttr(kind),
        },
    )
    return c.emit(made)


def native_operand(c: Converter, value: SSAValue) -> Tiled:
    """`value` in native tiles; layouts of other tiles are brought there first."""
    held = c.tiled(value)
    if held.layout.is_native:
        return held
    native = VectorLayout.native(len(held.shape), held.layout.bits)
    return Tiled(c.in_layout(value, native), native, held.shape)
