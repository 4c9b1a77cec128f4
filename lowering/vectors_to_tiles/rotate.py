"""Rotations: a planned move if the amount is constant, hardware rotates and selects if it is not.

A rotation by a dynamic amount, along rows or lanes, is a rotation within registers by the remainder
of the amount, and a rotation of whole registers. The latter takes one select for each power of two:
by 5 registers is by 4 and by 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, VectorType, i1, i32
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, grid, tpu, vector
from pallasite.dialects.types import bit_width, splat, vector_of
from pallasite.layouts.move import Move
from pallasite.layouts.registers import LANES, SUBLANES, register_shape
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.casts import narrow, widen
from pallasite.lowering.vectors_to_tiles.constants import coordinate
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.gather import gather
from pallasite.lowering.vectors_to_tiles.masks import everywhere
from pallasite.lowering.vectors_to_tiles.tiled import Tiled, grid_type
from pallasite.passes.check_kernel.rotations import rotation_along_lanes
from pallasite.passes.divisibility import constant_of
from pallasite.passes.ranges import range_of


@rule(tpu.DynamicRotateOp, tpu.RotateOp)
def lower_rotate(op: tpu.DynamicRotateOp | tpu.RotateOp, c: Converter) -> None:
    """Rotates towards higher indices; slice k along the stride dimension by `amount + k *
    stride`."""
    value, result = op.operands[0], op.results[0]
    held = c.tiled(value)
    dim = op.dimension.value.data
    # A stride that is a multiple of the extent rotates all slices alike.
    stride = op.stride.value.data % held.shape[dim] if op.stride is not None else 0
    amount = op.amount.value.data if isinstance(op, tpu.RotateOp) else constant_of(op.amount)
    native = VectorLayout.native(len(held.shape), held.layout.bits)
    if _is_replicated(held.layout, dim):
        c.define(result, held.grid, held.layout)
        c.retire(op)
        return
    if amount is not None and not stride:
        grid_value, layout = _by_constant(value, dim, amount % held.shape[dim], c)
        c.define(result, grid_value, layout)
        c.retire(op)
        return
    source = Tiled(c.in_layout(value, native), native, held.shape)
    element = source.element
    if native.bits != 32:
        # As integers: a conversion of floats would not keep the bits of every NaN.
        wide, number = VectorLayout.native(len(held.shape), 32), IntegerType(native.bits)
        words = c.bitcast(source.grid, grid_type(native, held.shape, number))
        grown, _ = widen(Tiled(words, native, held.shape), i32, c)
        turned = _dynamic(op, Tiled(grown, wide, held.shape), dim, amount, stride, c)
        packed, layout = narrow(Tiled(turned, wide, held.shape), number, c)
        c.define(result, c.bitcast(packed, grid_type(layout, held.shape, element)), layout)
    else:
        c.define(result, _dynamic(op, source, dim, amount, stride, c), native)
    c.retire(op)


def _by_constant(
    value: SSAValue, dim: int, amount: int, c: Converter
) -> tuple[SSAValue, VectorLayout]:
    """`value` rotated by a constant: registers are renamed along leading dimensions, elements moved
    along others."""
    held = c.tiled(value)
    layout, rank = held.layout, len(held.shape)
    if not amount:
        return held.grid, layout
    if dim not in (layout.sublane_dim, layout.lane_dim):
        place = layout.leading_dims(rank).index(dim)
        return _roll_registers(held.grid, place, amount, held.shape[dim], c), layout
    native = VectorLayout.native(rank, layout.bits)
    if None in (layout.row, layout.column):
        held = Tiled(c.in_layout(value, native), native, held.shape)
    return c.move(Move.roll(held.laid, native, dim, amount), [held.grid]), native


def _is_replicated(layout: VectorLayout, dim: int) -> bool:
    """Whether all elements along `dim` are known to be equal, so that a rotation changes
    nothing."""
    if dim == layout.lane_dim:
        return layout.column is None
    return dim == layout.sublane_dim and layout.row is None


def _dynamic(
    op: tpu.DynamicRotateOp | tpu.RotateOp,
    held: Tiled,
    dim: int,
    amount: int | None,
    stride: int,
    c: Converter,
) -> SSAValue:
    """`held`, of words, rotated along `dim` by a dynamic amount (`amount` None), or with a
    stride."""
    rank = len(held.shape)
    extent = held.shape[dim]
    if amount is None:
        total = _wrapped(op.operands[1], extent, c)
    else:
        total = c.constant_i32(amount % extent)
    if not stride:
        return _rotate(held, dim, total, c)
    along = op.stride_dimension.value.data if op.stride_dimension is not None else 0
    if isinstance(op, tpu.DynamicRotateOp):
        rotation_along_lanes(op, c.target)
    pieces: list[SSAValue] = []
    if along == rank - 2:
        if dim == rank - 1:
            if amount is not None and _unit_strides(held, amount, stride, c):
                return _turned_rows(held, amount, stride, c)
            return _row_strided(held, total, stride, c)
        return _registers_by_row(held, dim, total, stride, c)
    for k in range(held.shape[along]):
        offsets, sizes = [0] * rank, list(held.layout.grid_shape(held.shape))
        offsets[along], sizes[along] = k, 1
        shape = (*held.shape[:along], 1, *held.shape[along + 1 :])
        part = Tiled(c.box(held.grid, offsets, sizes), held.layout, shape)
        step = c.emit(arith.AddiOp(total, c.constant_i32(stride * k)))
        pieces.append(_rotate(part, dim, _wrapped(step, extent, c), c))
    return pieces[0] if len(pieces) == 1 else c.emit(grid.ConcatOp(pieces, along))


def _wrapped(amount: SSAValue, extent: int, c: Converter) -> SSAValue:
    """`amount` modulo `extent`, in [0, extent), also for negative amounts."""
    if extent & (extent - 1) == 0:
        return c.emit(arith.AndIOp(amount, c.constant_i32(extent - 1)))
    size = c.constant_i32(extent)
    rest = c.emit(arith.RemSIOp(amount, size))
    low = range_of(amount).low
    if low is not None and low >= 0:
        return rest
    sign = c.emit(arith.ShRSIOp(rest, c.constant_i32(31)))
    return c.emit(arith.AddiOp(rest, c.emit(arith.AndIOp(sign, size))))


def _rotate(held: Tiled, dim: int, amount: SSAValue, c: Converter) -> SSAValue:
    """`held` rotated by `amount` in [0, extent).

    Registers rotate with their padding. Elements that come around the end of the data take a second
    rotation, which goes further by as much as there is padding. At positions `i < amount` that one
    gives element `i - amount + extent`; at the others the first one gives element `i - amount`.
    """
    rank = len(held.shape)
    unit = {rank - 1: LANES, rank - 2: SUBLANES}.get(dim, 1)
    padding = -held.shape[dim] % unit
    value = _rotate_whole(held, dim, unit, amount, c)
    if not padding:
        return value
    further = c.emit(arith.AddiOp(amount, c.constant_i32(padding)))
    around = _rotate_whole(held, dim, unit, further, c)
    kind = cast(VectorType[Attribute], value.type)
    counts = vector_of(i32, kind.get_shape())
    position = coordinate(dim, rank, held.layout, counts, c)
    bound = c.emit(vector.BroadcastOp(amount, vector_of(i32, (SUBLANES, LANES))))
    bound = c.emit(grid.BroadcastOp(bound, counts))
    early = c.emit(arith.CmpiOp(position, bound, "slt"))
    return c.emit(arith.SelectOp(early, around, value))


def _rotate_whole(held: Tiled, dim: int, unit: int, amount: SSAValue, c: Converter) -> SSAValue:
    """`held` with its padding rotated by `amount`: within registers by the remainder, then by whole
    registers."""
    count, most = -(-held.shape[dim] // unit), range_of(amount).high
    if most is not None and most < unit:
        return _inside(held, dim, unit, amount, c)
    if count == 2 and unit > 1:
        return _between_two(held, dim, unit, amount, c)
    value = held.grid
    if unit > 1:
        value = _inside(held, dim, unit, amount, c)
    if count == 1:
        return value
    whole = c.emit(arith.DivSIOp(amount, c.constant_i32(unit)))
    shift = 1
    while shift < count:
        bit = c.emit(arith.AndIOp(whole, c.constant_i32(shift)))
        moved = _roll_registers(value, _grid_dim(held, dim), shift, count, c)
        value = c.emit(arith.SelectOp(everywhere(bit, value, c), moved, value))
        shift *= 2
    return value


def _grid_dim(held: Tiled, dim: int) -> int:
    """The grid dimension of `dim`; grids of vectors of rank 1 have a row of registers in front."""
    return dim + len(held.layout.grid_shape(held.shape)) - len(held.shape)


def _roll_registers(value: SSAValue, dim: int, shift: int, count: int, c: Converter) -> SSAValue:
    """The registers of `value` rotated by `shift` positions along grid dimension `dim`, of
    `count`."""
    shift %= count
    if not shift:
        return value
    kind = cast(VectorType[Attribute], value.type)
    register = register_shape(bit_width(kind.element_type))
    shape = list(kind.get_shape()[: -len(register)])
    tail, head = list(shape), list(shape)
    tail[dim], head[dim] = shift, count - shift
    begin = [0] * len(shape)
    begin[dim] = count - shift
    parts = [c.box(value, begin, tail), c.box(value, [0] * len(shape), head)]
    return c.emit(grid.ConcatOp(parts, dim))


def _inside(held: Tiled, dim: int, unit: int, amount: SSAValue, c: Converter) -> SSAValue:
    """`held` rotated by the remainder of `amount` by `unit`, within registers and into their
    neighbours."""
    kind = cast(VectorType[Attribute], held.grid.type)
    axis = len(kind.get_shape()) - (1 if unit == LANES else 2)
    rest = c.emit(arith.RemSIOp(amount, c.constant_i32(unit)))
    turned = c.rotate(held.grid, rest, axis)
    count = -(-held.shape[dim] // unit)
    if count == 1:
        return turned
    before = _roll_registers(turned, _grid_dim(held, dim), 1, count, c)
    return c.emit(arith.SelectOp(_below(axis, rest, kind, c), before, turned))


def _between_two(held: Tiled, dim: int, unit: int, amount: SSAValue, c: Converter) -> SSAValue:
    """`held`, of two registers, rotated by `amount` in [0, 2 * unit).

    After a rotation of both registers by the remainder, each position takes its own or the other
    one: the other where `position - amount` lies an odd number of registers away.
    """
    kind = cast(VectorType[Attribute], held.grid.type)
    axis = len(kind.get_shape()) - (1 if unit == LANES else 2)
    turned = c.rotate(held.grid, c.emit(arith.RemSIOp(amount, c.constant_i32(unit))), axis)
    swapped = _roll_registers(turned, _grid_dim(held, dim), 1, 2, c)
    word = vector_of(i32, (SUBLANES, LANES))
    position = _positions(axis - (len(kind.get_shape()) - 2), c)
    # `position - amount` lies in [-2 * unit, unit), and is odd in [-unit, 0).
    start = c.emit(arith.SubiOp(amount, c.constant_i32(unit)))
    far = c.emit(arith.SubiOp(position, c.emit(vector.BroadcastOp(start, word))))
    mask = c.emit(arith.CmpiOp(far, c.emit(arith.ConstantOp(splat(word, unit))), "ult"))
    mask = c.emit(grid.BroadcastOp(mask, vector_of(i1, kind.get_shape())))
    return c.emit(arith.SelectOp(mask, swapped, turned))


def _positions(axis: int, c: Converter) -> SSAValue:
    """A register in which every word has the number of its sublane (`axis` 0) or lane (1)."""
    made = tpu.IotaOp.create(
        result_types=[VectorType(i32, (SUBLANES, LANES))],
        properties={"dimensions": DenseArrayBase.from_list(i32, [axis])},
    )
    return c.emit(made)


def _below(axis: int, bound: SSAValue, kind: VectorType[Attribute], c: Converter) -> SSAValue:
    """A mask of the positions along register axis `axis` that are less than scalar `bound`."""
    word = vector_of(i32, (SUBLANES, LANES))
    position = _positions(axis - (len(kind.get_shape()) - 2), c)
    mask = c.emit(arith.CmpiOp(position, c.emit(vector.BroadcastOp(bound, word)), "slt"))
    return c.emit(grid.BroadcastOp(mask, vector_of(i1, kind.get_shape())))


def _registers_by_row(
    held: Tiled, dim: int, amount: SSAValue, stride: int, c: Converter
) -> SSAValue:
    """Row r of `held` rotated by `amount + r * stride` along the leading dimension `dim`.

    Registers are renamed by powers of two; each row takes the renamed ones for the bits of its
    amount.
    """
    count = held.shape[dim]
    wanted = c.emit(arith.RemSIOp(*_amounts_of_rows(held, amount, stride, count, c)))
    counts = cast(VectorType[Attribute], wanted.type)
    value, shift = held.grid, 1
    while shift < count:
        bit = c.emit(arith.AndIOp(wanted, c.emit(arith.ConstantOp(splat(counts, shift)))))
        mask = c.emit(arith.CmpiOp(bit, c.emit(arith.ConstantOp(splat(counts, 0))), "ne"))
        moved = _roll_registers(value, _grid_dim(held, dim), shift, count, c)
        value = c.emit(arith.SelectOp(mask, moved, value))
        shift *= 2
    return value


def _amounts_of_rows(
    held: Tiled, amount: SSAValue, stride: int, extent: int, c: Converter
) -> tuple[SSAValue, SSAValue]:
    """Grids of the shape of `held`: `amount + r * stride` in every row r, and `extent`."""
    rank = len(held.shape)
    counts = vector_of(i32, cast(VectorType[Attribute], held.grid.type).get_shape())
    rows = coordinate(rank - 2, rank, held.layout, counts, c)
    factor = c.emit(arith.ConstantOp(splat(counts, stride)))
    start = c.emit(vector.BroadcastOp(amount, vector_of(i32, (SUBLANES, LANES))))
    shift = c.emit(arith.MuliOp(rows, factor))
    shift = c.emit(arith.AddiOp(shift, c.emit(grid.BroadcastOp(start, counts))))
    return shift, c.emit(arith.ConstantOp(splat(counts, extent)))


def _unit_strides(held: Tiled, amount: int, stride: int, c: Converter) -> bool:
    """Whether the cross-lane unit can rotate each sublane of a register by its own amount.

    The target must have that for the width, lanes must be full, and the amounts of the 8 rows of a
    register, modulo 128, must not pass 128.
    """
    rows, columns = held.shape[-2:]
    starts = [(amount + row * stride) % LANES for row in range(0, rows, SUBLANES)]
    fits = max(starts) + (SUBLANES - 1) * stride <= LANES
    return held.layout.bits in c.target.strided_rotate_bits and columns % LANES == 0 and fits


def _turned_rows(held: Tiled, amount: int, stride: int, c: Converter) -> SSAValue:
    """Row r of a matrix rotated by the constant `amount + r * stride` lanes, by the cross-lane
    unit.

    One row of registers is rotated after the other, and what leaves a register enters the next one.
    """
    kind = cast(VectorType[Attribute], held.grid.type)
    sizes = held.layout.grid_shape(held.shape)
    along, across = len(sizes) - 2, len(sizes) - 1
    far = _lanes_of_rows(stride, c)
    blocks: list[SSAValue] = []
    for number in range(sizes[along]):
        first = (amount + number * SUBLANES * stride) % held.shape[-1]
        offsets = [0] * len(sizes)
        offsets[along] = number
        part = c.box(held.grid, offsets, [*sizes[:along], 1, sizes[across]])
        turned = c.rotate(part, c.constant_i32(first % LANES), len(kind.get_shape()) - 1, stride)
        if sizes[across] > 1:
            shape = cast(VectorType[Attribute], turned.type).get_shape()
            near = _roll_registers(turned, across, first // LANES, sizes[across], c)
            entered = _roll_registers(turned, across, first // LANES + 1, sizes[across], c)
            mask = c.emit(grid.BroadcastOp(far(first % LANES), vector_of(i1, shape)))
            turned = c.emit(arith.SelectOp(mask, entered, near))
        blocks.append(turned)
    return blocks[0] if len(blocks) == 1 else c.emit(grid.ConcatOp(blocks, along))


def _lanes_of_rows(stride: int, c: Converter) -> Callable[[int], SSAValue]:
    """A function of n that makes the mask of the lanes below `n + stride * sublane`."""
    word = vector_of(i32, (SUBLANES, LANES))

    def number(value: int) -> SSAValue:
        return c.emit(arith.ConstantOp(splat(word, value)))

    def below(bound: int) -> SSAValue:
        rows, lanes = _positions(0, c), _positions(1, c)
        if stride != 1:
            rows = c.emit(arith.MuliOp(rows, number(stride)))
        if not bound:
            return c.emit(arith.CmpiOp(lanes, rows, "slt"))
        return c.emit(arith.CmpiOp(c.emit(arith.SubiOp(lanes, rows)), number(bound), "slt"))

    return below


def _row_strided(held: Tiled, amount: SSAValue, stride: int, c: Converter) -> SSAValue:
    """Row r of a matrix rotated by `amount + r * stride` lanes: a gather with computed lanes."""
    rank = len(held.shape)
    shift, size = _amounts_of_rows(held, amount, stride, held.shape[rank - 1], c)
    counts = cast(VectorType[Attribute], shift.type)
    lanes = coordinate(rank - 1, rank, held.layout, counts, c)
    # Positive remainder: every row and amount is non-negative, so one more period suffices.
    wrapped = c.emit(arith.RemSIOp(shift, size))
    index = c.emit(arith.AddiOp(c.emit(arith.SubiOp(lanes, wrapped)), size))
    index = c.emit(arith.RemSIOp(index, size))
    return gather(held.grid, index, c, lanes=True)
