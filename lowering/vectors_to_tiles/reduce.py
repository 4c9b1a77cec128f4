"""Reductions: first over whole registers, then within one; the result stays replicated.

    sum of 16x256 f32 over rows:   2x2 registers --grid.reduce--> 1x2 --tpu.all_reduce--> 1x2,
                                   where every sublane holds the sums of its columns

Padding is masked to the neutral element, in the edge registers only. Over leading dimensions, and
over blocks of rows and columns, the fold is `grid.reduce`, a left fold in grid order. The order of
a floating-point sum therefore does not depend on the form (design note "Form 4", section 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, VectorType, f32, i1, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, grid, tpu, vector
from pallasite.dialects.grid_base import grid_of
from pallasite.dialects.types import (
    bit_width,
    element_of,
    is_float,
    shape_of,
    splat,
    vector_of,
)
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.agreement import agree
from pallasite.lowering.vectors_to_tiles.casts import narrow, side_by_side, widen
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.dense import columns_mask
from pallasite.lowering.vectors_to_tiles.elementwise import only_stored
from pallasite.lowering.vectors_to_tiles.flat_rows import offer_rows
from pallasite.lowering.vectors_to_tiles.folded_rows import with_rows_apart
from pallasite.lowering.vectors_to_tiles.tiled import Tiled, as_native, grid_type
from pallasite.passes.two_values import any_of, choice, kind_of, neutral_value

KINDS: dict[str, tuple[type[Operation], str]] = {
    "add": (arith.AddfOp, "sum"),
    "maximumf": (arith.MaximumfOp, "max"),
    "minimumf": (arith.MinimumfOp, "min"),
    "maxsi": (arith.MaxSIOp, "max"),
    "minsi": (arith.MinSIOp, "min"),
}
"""By kind of `vector.multi_reduction`: the operation that folds two registers, and the kind of the
reduction within a register."""


def combiner(kind: str, *, integer: bool = False) -> type[Operation]:
    """The operation that folds two registers for a reduction of `kind`."""
    return arith.AddiOp if kind == "add" and integer else KINDS[kind][0]


@rule(vector.MultiReductionOp)
def lower_multi_reduction(op: vector.MultiReductionOp, c: Converter) -> None:
    """Reduces any set of dimensions; a reduced sublane or lane axis leaves its result replicated
    there.

    Raises `Unsupported` for kinds and widths that the cross-lane unit does not have. 16-bit floats
    are widened to f32 for maxima and minima within registers.
    """
    kind = kind_of(op)
    dims = [int(d) for d in op.reduction_dims.get_values()]
    held = (
        _folded_choice(op, dims, kind, c)
        or with_rows_apart(op.source, dims, c, only_stored=partial(only_stored, op.results[0]))
        or _reducible(op.source, dims, c)
    )
    element = held.element
    if kind in ("maximumf", "minimumf") and held.layout.bits == 16:
        held = _folded_blocks(held, dims, combiner(kind).name, c)
        if not _numbers_registers(dims, held.layout):
            value, layout = widen(held, f32, c)
            held = Tiled(value, layout, held.shape)
    whole = held.layout.bits == 32 or (held.layout.bits == 16 and kind in ("maximumf", "minimumf"))
    if kind not in KINDS or not whole:
        raise c.unsupported(
            op, "reduction-kind", f"a {kind} reduction of {held.element} is not supported",
            "the cross-lane unit reduces 32-bit sums, maxima and minima",
            "convert to float32 or int32 first",
        )  # fmt: skip
    integer = not is_float(held.element)
    if kind != "add" and held.layout.sublane_dim in dims:
        held = _filled(op.source, held, c)
    reduced = reduce_dims(held, dims, kind, integer, c)
    result = op.results[0]
    if not isinstance(result.type, VectorType):
        raise c.unsupported(
            op, "scalar-reduction", "a reduction to a scalar must keep a unit dimension"
        )
    shape = shape_of(result.type)
    layout = without_dims(reduced.layout, dims, len(held.shape))
    value = c.emit(
        grid.ReshapeOp(
            reduced.grid,
            grid_type(layout, shape, held.element),
        )
    )
    wide = Tiled(value, layout, shape)
    if bit_width(element) < layout.bits:
        value, layout = narrow(wide, element, c)
    before = value
    value, layout = _with_accumulator(op, value, layout, shape, kind, integer, c)
    c.define(result, value, layout)
    if value is before is not wide.grid:
        c.offer(result, partial(side_by_side, wide, element, c))
        offer_rows(result, wide, element, c)
    c.retire(op)


def _numbers_registers(dims: Sequence[int], layout: VectorLayout) -> bool:
    """Whether `dims` all number registers, so that nothing is folded within one."""
    return layout.sublane_dim not in dims and layout.lane_dim not in dims


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
    folded = _folded_blocks(mask, dims, arith.OrIOp.name if one else arith.AndIOp.name, c)
    if folded.shape == mask.shape:
        return None
    numbers = grid_type(folded.layout, folded.shape, element_of(op.source))
    values = [c.emit(arith.ConstantOp(splat(numbers, n))) for n in (found.yes, found.no)]
    return Tiled(c.emit(arith.SelectOp(folded.grid, *values)), folded.layout, folded.shape)


def _folded_blocks(held: Tiled, dims: Sequence[int], fold: str, c: Converter) -> Tiled:
    """`held` with its registers folded onto each other, where none has padding along the
    dimensions."""
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


def _filled(source: SSAValue, held: Tiled, c: Converter) -> Tiled:
    """`held` with rows of data in the padding after its last row, if memory can give `source` so.

    Repeated rows change no maximum and no minimum, so nothing need be masked.
    """
    dim = held.layout.sublane_dim
    if dim is None or held.grid is not c.tiled(source).grid:
        return held
    value = c.form("filled", source, held.layout)
    if value is None:
        return held
    block = held.layout.block[0]
    rows = -(-held.shape[dim] // block) * block
    return Tiled(value, held.layout, (*held.shape[:dim], rows, *held.shape[dim + 1 :]))


def without_dims(layout: VectorLayout, dims: Sequence[int], rank: int) -> VectorLayout:
    """`layout` without the dimensions `dims`, which are replicated or number registers."""
    left = [d for d in range(rank) if d not in dims]

    def renamed(dim: int | None) -> int | None:
        return left.index(dim) if dim in left else None

    return VectorLayout(
        layout.bits, renamed(layout.sublane_dim), renamed(layout.lane_dim), layout.row,
        layout.column, layout.tile_rows,
    )  # fmt: skip


def reduce_dims(held: Tiled, dims: Sequence[int], kind: str, integer: bool, c: Converter) -> Tiled:
    """`held` with each of `dims` folded to extent 1, and replicated where it ran along sublanes or
    lanes."""
    layout, shape = held.layout, list(held.shape)
    fold = combiner(kind, integer=integer)
    value = held.grid
    leading = layout.leading_dims(len(shape))
    for position, dim in enumerate(leading):
        if dim in dims:
            value = c.emit(grid.ReduceOp(value, position, fold.name))
            shape[dim] = 1
    # All registers are folded before any is reduced within.
    within: list[int] = []
    for axis, dim in ((0, layout.sublane_dim), (1, layout.lane_dim)):
        if dim is None or dim not in dims:
            continue
        extent = shape[dim]
        shape[dim] = 1
        offset = layout.row if axis == 0 else layout.column
        if offset is None:
            value = _repeat(value, extent, kind, integer, c)
            continue
        if layout.is_native:
            value = _fold_axis(value, axis, offset, extent, layout.block[axis], kind, integer, c)
        else:
            value = _fold_tiles(value, layout, extent, kind, integer, c)
        within.append(axis)
    for axis in within:
        value = all_reduce(value, axis, tpu.ReductionKind(KINDS[kind][1]), value.type, c)
        layout = layout.with_offsets(*((None, layout.column) if axis == 0 else (layout.row, None)))
    return Tiled(value, layout, tuple(shape))


def _fold_tiles(
    value: SSAValue, layout: VectorLayout, extent: int, kind: str, integer: bool, c: Converter
) -> SSAValue:
    """Folds registers of small tiles: all registers of a row, then the tiles of the register onto
    each other.

    The latter takes a sublane shuffle for each power of two of tiles; every tile then has the
    result.
    """
    assert layout.column is not None
    size, (*lead, blocks) = layout.block[1], grid_of(value)
    ends = [(layout.column, size)] + [(0, size)] * (blocks - 1)
    ends[-1] = (ends[-1][0], layout.column + extent - (blocks - 1) * size)
    place = len(lead)
    for number in {0, blocks - 1}:
        if ends[number] == (0, size):
            continue
        part = cut(value, place, number, 1, c)
        inside = columns_mask(layout, ends[number], grid_of(part), c)
        other = c.emit(arith.ConstantOp(splat(part.type, neutral_value(kind))))
        part = c.emit(arith.SelectOp(inside, part, other))
        pieces = [part]
        if number:
            pieces.insert(0, cut(value, place, 0, number, c))
        if number < blocks - 1:
            pieces.append(cut(value, place, number + 1, blocks - 1 - number, c))
        value = c.emit(grid.ConcatOp(pieces, place)) if len(pieces) > 1 else part
    fold = combiner(kind, integer=integer)
    value = c.emit(grid.ReduceOp(value, place, fold.name))
    distance = layout.tile_rows
    while distance < SUBLANES:
        pattern = [(s + distance) % SUBLANES for s in range(SUBLANES)]
        turned = tpu.SublaneShuffleOp(
            operands=[value, value],
            result_types=[value.type],
            properties={"pattern": DenseArrayBase.from_list(i32, pattern)},
        )
        value = c.emit(fold(*[value, c.emit(turned)]))
        distance *= 2
    return value


def _fold_axis(
    value: SSAValue, axis: int, offset: int, extent: int, block: int, kind: str, integer: bool,
    c: Converter,
) -> SSAValue:  # fmt: skip
    """Folds the blocks of rows (`axis` 0) or lanes (1) onto the first, and takes care of
    padding."""
    shape = cast(VectorType[Attribute], value.type).get_shape()
    dim, fold = len(shape) - 4 + axis, combiner(kind, integer=integer)
    blocks, end = shape[dim], offset + extent - (shape[dim] - 1) * block
    if kind == "add" or offset or blocks == 1 or end == block:
        value = mask_axis(value, axis - 2, offset, extent, block, neutral_value(kind), c)
        return c.emit(grid.ReduceOp(value, dim, fold.name))
    # Only the last block has padding: fold the others, then that one where it has data. A sum of
    # negative zeros would keep their sign so, hence the mask for sums above.
    whole = c.emit(grid.ReduceOp(cut(value, dim, 0, blocks - 1, c), dim, fold.name))
    parts = [whole, cut(value, dim, blocks - 1, 1, c)]
    both = c.emit(fold(*parts))
    return c.emit(arith.SelectOp(_axis_mask(both, axis - 2, 0, end, c), both, whole))


def _repeat(value: SSAValue, extent: int, kind: str, integer: bool, c: Converter) -> SSAValue:
    """The fold of `extent` equal elements: a product for a sum, the element itself for maxima and
    minima."""
    if kind != "add" or extent == 1:
        return value
    times = c.emit(arith.ConstantOp(splat(cast(VectorType[Attribute], value.type), extent)))
    return c.emit((arith.MuliOp if integer else arith.MulfOp)(value, times))


def mask_axis(
    value: SSAValue, axis: int, offset: int, extent: int, block: int, neutral: float | int,
    c: Converter,
) -> SSAValue:  # fmt: skip
    """`value` with `neutral` in its first and last blocks along `axis`, wherever there is no
    data."""
    blocks = -(-(offset + extent) // block)
    end = offset + extent - (blocks - 1) * block
    if blocks == 1:
        if offset == 0 and end == block:
            return value
        return _masked(value, axis, offset, end, neutral, c)
    pieces: list[SSAValue] = []
    inner_first, inner_last = 0, blocks
    kind = cast(VectorType[Attribute], value.type)
    rank = len(kind.get_shape()) - 2
    if offset:
        inner_first = 1
        pieces.append(_masked(cut(value, rank + axis, 0, 1, c), axis, offset, block, neutral, c))
    tail: list[SSAValue] = []
    if end < block:
        inner_last = blocks - 1
        last = cut(value, rank + axis, blocks - 1, 1, c)
        tail.append(_masked(last, axis, 0, end, neutral, c))
    if inner_first == 0 and inner_last == blocks:
        return value
    if inner_last > inner_first:
        pieces.append(cut(value, rank + axis, inner_first, inner_last - inner_first, c))
    pieces += tail
    return pieces[0] if len(pieces) == 1 else c.emit(grid.ConcatOp(pieces, rank + axis))


def cut(value: SSAValue, dim: int, first: int, count: int, c: Converter) -> SSAValue:
    """`count` registers, from number `first` on, along grid dimension `dim`."""
    shape = cast(VectorType[Attribute], value.type).get_shape()[:-2]
    offsets, sizes = [0] * len(shape), list(shape)
    offsets[dim], sizes[dim] = first, count
    return c.box(value, offsets, sizes)


def _masked(
    value: SSAValue, axis: int, low: int, high: int, neutral: float | int, c: Converter
) -> SSAValue:
    """`value` with `neutral` outside of [low, high) along `axis` of every register."""
    other = c.emit(arith.ConstantOp(splat(cast(VectorType[Attribute], value.type), neutral)))
    return c.emit(arith.SelectOp(_axis_mask(value, axis, low, high, c), value, other))


def _axis_mask(value: SSAValue, axis: int, low: int, high: int, c: Converter) -> SSAValue:
    """A mask for grid `value` of rows (`axis` -2) or lanes (-1) in [low, high)."""
    kind = cast(VectorType[Attribute], value.type)
    box = (low, high, 0, LANES) if axis == -2 else (0, SUBLANES, low, high)
    bounds = [c.constant_index(n) for n in (box[0], box[2], box[1], box[3])]
    made = tpu.CreateMaskOp.create(
        operands=bounds, result_types=[VectorType(i1, (SUBLANES, LANES))]
    )
    return c.emit(grid.BroadcastOp(c.emit(made), vector_of(i1, kind.get_shape())))


def _with_accumulator(
    op: vector.MultiReductionOp, value: SSAValue, layout: VectorLayout, shape: tuple[int, ...],
    kind: str, integer: bool, c: Converter,
) -> tuple[SSAValue, VectorLayout]:  # fmt: skip
    """`value` folded with the initial value of `op`, and the layout; unchanged if that is
    neutral."""
    initial = arith.splat_number(op.acc)
    if initial is not None and initial == neutral_value(kind):
        return value, layout
    reduced = Tiled(value, layout, shape)
    common = agree([reduced, c.tiled(op.acc)], layout.bits)
    operands = [c.relayout(reduced, common).grid, c.in_layout(op.acc, common)]
    return c.emit(combiner(kind, integer=integer)(*operands)), common


def all_reduce(
    value: SSAValue, axis: int, kind: tpu.ReductionKind, result: Attribute, c: Converter
) -> SSAValue:
    """Reduces every register along its sublanes (`axis` 0) or lanes (1); all of them hold the
    result."""
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


def _reducible(value: SSAValue, dims: Sequence[int], c: Converter) -> Tiled:
    """`value` in tiles that can be reduced along `dims`: small tiles only if rows are not
    reduced."""
    held = as_native(c.tiled(value))
    layout = held.layout
    if layout.is_native:
        return held
    lanes_only = layout.sublane_dim is not None and layout.sublane_dim not in dims
    if lanes_only and layout.row is not None and layout.column is not None and layout.bits >= 16:
        return held
    return native_operand(value, c)


def native_operand(value: SSAValue, c: Converter) -> Tiled:
    """`value` in native tiles, to which other layouts are changed."""
    held = c.tiled(value)
    if held.layout.is_native:
        return held
    native = VectorLayout.native(len(held.shape), held.layout.bits)
    return Tiled(c.in_layout(value, native), native, held.shape)
