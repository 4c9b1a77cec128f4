"""Shape operations: registers are renamed where they stay as they are, else a planned move moves
them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import IntegerAttr, IntegerType, VectorType, i32
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.diagnostics import Unsupported
from pallasite.dialects import arith, grid, tpu, vector
from pallasite.dialects.types import element_of, shape_of, vector_of
from pallasite.dialects.vector_shapes import values_of
from pallasite.layouts.move import IndexStep, Laid, Move, Reshape, Transpose
from pallasite.layouts.planner.planner import plan
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.casts import narrow, widen
from pallasite.lowering.vectors_to_tiles.chains import (
    copies_renamed,
    emit_chain,
    emit_move,
    renamed,
)
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.loading import load_slots
from pallasite.lowering.vectors_to_tiles.pairs import stack_pairs, transpose_pairs
from pallasite.lowering.vectors_to_tiles.relabel import (
    Renaming,
    regrouped,
    renaming,
    transposed,
)
from pallasite.lowering.vectors_to_tiles.tiled import (
    Tiled,
    concrete_layout,
    grid_type,
    is_one_value,
)
from pallasite.passes.check_kernel.vectors import scalar_rule


def regrid(value: SSAValue, layout: VectorLayout, shape: Sequence[int], c: Converter) -> SSAValue:
    """The same registers, numbered as `layout` numbers those of a vector of `shape`."""
    return c.emit(grid.ReshapeOp(value, grid_type(layout, shape, element_of(value))))


def relabel(
    layout: VectorLayout, old_shape: tuple[int, ...], shape: tuple[int, ...]
) -> VectorLayout | None:
    """The layout in which a value of `old_shape`, held in `layout`, is one of `shape`.

    None unless the shapes differ in dimensions of size 1 only, such as 8x128 and 8x1x128.
    """
    old = [d for d, n in enumerate(old_shape) if n != 1]
    new = [d for d, n in enumerate(shape) if n != 1]
    if [old_shape[d] for d in old] != [shape[d] for d in new]:
        return None
    names = dict(zip(old, new, strict=True))
    sublane = names.get(layout.sublane_dim) if layout.sublane_dim is not None else None
    lane = names.get(layout.lane_dim) if layout.lane_dim is not None else None
    # A free axis takes the unit dimension that a native layout would put there.
    rank = len(shape)
    if lane is None and rank and shape[rank - 1] == 1 and sublane != rank - 1:
        lane = rank - 1
    if sublane is None and rank > 1 and shape[rank - 2] == 1 and lane == rank - 1:
        sublane = rank - 2
    return replace(layout, sublane_dim=sublane, lane_dim=lane)


def _served_without_units(
    source: SSAValue, shape: tuple[int, ...], layout: VectorLayout, c: Converter
) -> SSAValue | None:
    """`source` reshaped to `shape` in `layout`, if it is served so without movement.

    The shapes differ in dimensions of size 1 only. It is served if it is there, or offered, in the
    layout that has the same registers.
    """
    old = c.tiled(source).shape
    kept = [d for d, n in enumerate(shape) if n != 1]
    names = dict(zip(kept, [d for d, n in enumerate(old) if n != 1], strict=True))
    if layout.lane_dim not in names:
        return None
    sublane = names.get(layout.sublane_dim) if layout.sublane_dim is not None else None
    if sublane is None and layout.row is not None and c.tiled(source).layout.row is not None:
        return None
    wanted = replace(layout, sublane_dim=sublane, lane_dim=names[layout.lane_dim])
    value = c.served(source, wanted)
    return regrid(value, layout, shape, c) if value is not None else None


def lifted(held: Tiled, rank: int) -> tuple[VectorLayout, tuple[int, ...]]:
    """Layout and shape of `held` with dimensions of size 1 in front, up to `rank` dimensions."""
    added = rank - len(held.shape)
    if not added:
        return held.laid
    shape = (*[1] * added, *held.shape)
    layout = held.layout
    sublane = None if layout.sublane_dim is None else layout.sublane_dim + added
    lane = None if layout.lane_dim is None else layout.lane_dim + added
    if sublane is None and lane == rank - 1 and rank > 1 and shape[rank - 2] == 1:
        sublane = rank - 2
    return replace(layout, sublane_dim=sublane, lane_dim=lane), shape


def with_rank(held: Tiled, rank: int, c: Converter) -> Tiled:
    """`held` with dimensions of size 1 in front, up to `rank` dimensions."""
    layout, shape = lifted(held, rank)
    return Tiled(regrid(held.grid, layout, shape, c), layout, shape)


def move_operand(op: Operation, make: Callable[[Laid], Move], c: Converter) -> None:
    """Emits the move that `make` builds for the vector operand of `op`, from its layout and shape.

    A value that is one number everywhere stays one register. If the planner cannot move a
    replicated value, the move starts from a layout that names a place for it.
    """
    value, result = op.operands[0], op.results[0]
    held, shape = c.tiled(value), shape_of(result.type)
    if is_one_value(held):
        layout = VectorLayout.replicated(len(shape), held.layout.bits)
        one = vector_of(held.element, layout.register_shape())
        register = c.emit(grid.ReshapeOp(held.grid, one))
        kind = grid_type(layout, shape, held.element)
        c.define(result, c.emit(grid.BroadcastOp(register, kind)), layout)
        c.retire(op)
        return
    placed = concrete_layout(held)
    try:
        move = make(held.laid)
        if not emit_chain(op, move, c, plan(move, c.costs)):
            emit_move(op, move, [held.grid], c)
    except Unsupported:
        if placed == held.layout:
            raise
        move = make((placed, held.shape))
        if not emit_chain(op, move, c, plan(move, c.costs)):
            emit_move(op, move, [c.in_layout(value, placed)], c)


@rule(vector.ShapeCastOp, tpu.ReshapeOp)
def lower_shape_cast(op: Operation, c: Converter) -> None:
    """Renames registers if the reshape keeps them whole, else emits a move."""
    source, result = op.operands[0], op.results[0]
    held = c.tiled(source)
    shape = shape_of(result.type)
    layout = relabel(held.layout, held.shape, shape)
    if layout is not None:
        c.define(result, regrid(held.grid, layout, shape, c), layout)
        c.offer(result, lambda other: _served_without_units(source, shape, other, c))
        renamed(op, Reshape(held.shape, shape), (layout, shape), c)
        c.retire(op)
        return
    if rename(op, None, c):
        return
    target = VectorLayout.native(len(shape), held.layout.bits)
    if len(shape) == 1:
        target = VectorLayout(held.layout.bits, None, 0, 0, 0, 1)
    move_operand(op, lambda laid: Move.reshape(laid, target, shape), c)


def rename(op: Operation, permutation: Sequence[int] | None, c: Converter) -> bool:
    """Renames the registers of the operand of `op`, a reshape (`permutation` None) or a transpose,
    if that suffices.

    The operand may be needed in another layout for that, which only counts if it is offered there.
    False if registers would have to change.
    """
    source, result = op.operands[0], op.results[0]
    held, shape = c.tiled(source), shape_of(result.type)

    def forward(layout: VectorLayout) -> VectorLayout | None:
        """The layout of the result if the operand has `layout`."""
        if permutation is None:
            return regrouped(layout, held.shape, shape)
        kept = layout.lane_dim == permutation[-1] and layout.sublane_dim is not None
        return transposed(layout, permutation) if kept else None

    def backward(layout: VectorLayout) -> VectorLayout | None:
        """The layout of the operand with which the result has `layout`."""
        if permutation is None:
            return regrouped(layout, shape, held.shape)
        return transposed(layout, [permutation.index(d) for d in range(len(permutation))])

    def made(layout: VectorLayout) -> SSAValue | None:
        """The result in `layout`, if the operand is served in the layout for it."""
        wanted = backward(layout)
        grid_value = c.served(source, wanted) if wanted is not None else None
        if wanted is None or grid_value is None or forward(wanted) != layout:
            return None
        names = renaming(wanted, held.shape, layout, shape, permutation)
        return _renamed(grid_value, names, held.element, c)

    native = VectorLayout.native(len(shape), held.layout.bits, 0, held.layout.column)
    near = made(native) if _is_turned(op, held, native) else None
    first = backward(native) if near is not None and load_slots(near, c) == 1 else None
    others = [*([] if first is None else [first]), held.layout, *_other_layouts(held)]
    for candidate in others:
        layout = forward(candidate)
        value = made(layout) if layout is not None else None
        if layout is not None and value is not None:
            c.define(result, value, layout)
            c.offer(result, lambda other: made(other) or transpose_pairs(op, permutation, other, c))
            c.offer_form("stacked", result, lambda: stack_pairs(op, permutation, c))
            if candidate == held.layout:
                step = _index_step(held.shape, shape, permutation)
                names = renaming(candidate, held.shape, layout, shape, permutation)
                copies_renamed(op, step, (layout, shape), names, c)
            c.retire(op)
            return True
    return False


def _is_turned(op: Operation, held: Tiled, native: VectorLayout) -> bool:
    """Whether `op` is a transpose of words that puts other rows on the sublanes, and its operand,
    `held`, is needed in no other way.

    They must not fill more registers in the `native` layout of the result.
    """
    shape, uses = shape_of(op.results[0].type), op.operands[0].uses
    if not isinstance(op, tpu.TransposeOp | vector.TransposeOp) or held.layout.bits != 32:
        return False
    if len(shape) < 3 or held.layout.lane_dim != len(shape) - 1:
        return False
    if any(use.operation.properties != op.properties for use in uses):
        return False
    return native.register_count(shape) <= held.layout.register_count(held.shape)


def _index_step(
    source: tuple[int, ...], shape: tuple[int, ...], permutation: Sequence[int] | None
) -> IndexStep:
    """The index map of `op` for the planner."""
    if permutation is None:
        return Reshape(source, shape)
    return Transpose(shape, tuple(permutation))


def _other_layouts(held: Tiled) -> list[VectorLayout]:
    """Layouts in which a load might serve words: with rows replicated, or a leading dimension on
    the sublanes."""
    rank = len(held.shape)
    if held.layout.bits != 32 or rank < 3 or held.layout.lane_dim != rank - 1:
        return []
    base = VectorLayout.native(rank, 32, 0, held.layout.column)
    return [base, *(replace(base, sublane_dim=d) for d in range(rank - 2))]


def _renamed(value: SSAValue, names: Renaming, element: Attribute, c: Converter) -> SSAValue:
    """The registers of `value`, renumbered as `names` says."""
    register = names.layout.register_shape()

    def reshape(operand: SSAValue, shape: Sequence[int]) -> SSAValue:
        return c.emit(grid.ReshapeOp(operand, vector_of(element, (*shape, *register))))

    def permute(operand: SSAValue, order: Sequence[int]) -> SSAValue:
        return c.emit(grid.TransposeOp(operand, order))

    value = reshape(permute(value, names.ordered), names.renamed)
    return permute(value, names.final)


@rule(vector.ExtractStridedSliceOp)
def lower_slice(op: vector.ExtractStridedSliceOp, c: Converter) -> None:
    """Takes a box of registers and gives it new offsets; data moves only if a later operation needs
    it."""
    held, result = c.tiled(op.operands[0]), op.results[0]
    shape = shape_of(result.type)
    # Trailing dimensions that are not named are taken whole.
    others = len(shape) - len(op.offsets)
    offsets = [*values_of(op.offsets), *[0] * others]
    strides = [*values_of(op.strides), *[1] * others]
    if any(s != 1 for s in strides):
        target = VectorLayout.native(len(shape), held.layout.bits)
        move_operand(op, lambda laid: Move.slice(laid, target, offsets, shape, strides), c)
        return
    layout = held.layout
    block = layout.block
    begin = [0] * len(layout.grid_shape(held.shape))
    for position, dim in enumerate(layout.leading_dims(len(shape))):
        begin[position] = offsets[dim]
    row, column = layout.row, layout.column
    if row is not None and layout.sublane_dim is not None:
        begin[-2], row = divmod(row + offsets[layout.sublane_dim], block[0])
    if column is not None and layout.lane_dim is not None:
        begin[-1], column = divmod(column + offsets[layout.lane_dim], block[1])
    moved = layout.with_offsets(row, column)
    sliced = c.box(held.grid, begin, moved.grid_shape(shape))
    c.define(result, sliced, moved)
    c.retire(op)


@rule(tpu.TransposeOp, vector.TransposeOp)
def lower_transpose(op: tpu.TransposeOp | vector.TransposeOp, c: Converter) -> None:
    """Renames registers if only leading dimensions change places, else emits a move."""
    held = c.tiled(op.operands[0])
    permutation = [int(p) for p in op.permutation.get_values()]
    target = VectorLayout.native(len(permutation), held.layout.bits)
    if emit_chain(op, Move.transpose(held.laid, target, permutation), c):
        return
    if rename(op, permutation, c):
        return
    if _is_wider_transpose(held, permutation, c):
        _transpose_halves(op, held, permutation, c)
        return
    move_operand(op, lambda laid: Move.transpose(laid, target, permutation), c)


def _is_wider_transpose(held: Tiled, permutation: Sequence[int], c: Converter) -> bool:
    """Whether `op` swaps rows and lanes of bytes that the cross-lane unit transposes as half words.

    A register holds twice as many half words as words, so that is better than to transpose words.
    """
    rank = len(permutation)
    known = c.target.transpose_bits
    return (
        held.layout.bits == 8 and 8 not in known and 16 in known
        and held.layout == VectorLayout.native(rank, 8)
        and list(permutation) == [*range(rank - 2), rank - 1, rank - 2]
    )  # fmt: skip


def _transpose_halves(op: Operation, held: Tiled, permutation: Sequence[int], c: Converter) -> None:
    """Transposes bytes as half words: widened before, and narrowed afterwards."""
    byte, half, shape = IntegerType(8), IntegerType(16), shape_of(op.results[0].type)
    number = c.bitcast(held.grid, grid_type(held.layout, held.shape, byte))
    wide, layout = widen(Tiled(number, held.layout, held.shape), half, c)
    target = VectorLayout.native(len(permutation), 16)
    moved = c.move(Move.transpose((layout, held.shape), target, permutation), [wide])
    value, layout = narrow(Tiled(moved, target, shape), byte, c)
    c.define(op.results[0], c.bitcast(value, grid_type(layout, shape, held.element)), layout)
    c.retire(op)


@rule(vector.ExtractOp)
def lower_extract(op: vector.ExtractOp, c: Converter) -> None:
    """Extracts a scalar from sublane 0 of lane 0 of its register, to which rotations bring it."""
    scalar_rule(op, c.target)  # as `check-kernel` does: this pass may run alone
    held = c.tiled(op.operands[0])
    position = [int(p) for p in op.static_position.get_values()]
    layout = held.layout
    where = [0] * len(layout.grid_shape(held.shape))
    for number, dim in enumerate(layout.leading_dims(len(held.shape))):
        where[number] = position[dim]
    row = (layout.row or 0) + (
        position[layout.sublane_dim] if layout.sublane_dim is not None else 0
    )
    lane = (layout.column or 0) + (position[layout.lane_dim] if layout.lane_dim is not None else 0)
    where[-2], row = divmod(0 if layout.row is None else row, layout.block[0])
    where[-1], lane = divmod(0 if layout.column is None else lane, layout.block[1])
    rows, lane = divmod(lane, LANES)
    row += rows * layout.tile_rows
    one = c.box(held.grid, where, [1] * len(where))
    one = c.emit(grid.ReshapeOp(one, _register_of(held)))
    for amount, axis in ((-row % SUBLANES, 0), (-lane % LANES, 1)):
        if amount:
            count = c.emit(arith.ConstantOp(IntegerAttr(amount, i32)))
            one = c.rotate(one, count, axis)
    scalar = c.emit(vector.ExtractOp(one, [0, 0], op.results[0].type))
    op.results[0].replace_all_uses_with(scalar)
    c.retire(op)


def _register_of(held: Tiled) -> VectorType[Attribute]:
    """The type of one register of `held`."""
    return vector_of(held.element, held.layout.register_shape())


@rule(tpu.AssumeLayoutOp)
def lower_assume_layout(op: tpu.AssumeLayoutOp, c: Converter) -> None:
    """Drops a hint for the old passes; the value stays as it is."""
    c.rebind(op.results[0], c.tiled(op.operands[0]))
    c.retire(op)
