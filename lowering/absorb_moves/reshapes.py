"""Reshapes and rolls of rows that become views of memory.

A reshape that regroups rows which do not fill registers, such as 4x6x128 to 24x128, would move
every row. If its value was just loaded, or is stored next, that access sees its buffer in the other
shape instead (`tpu.memref_reshape`), and nothing moves. Rolls of rows that have several tiles
become rolls of rows of one tile in the same way.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import arith, tpu, vector
from pallasite.dialects.types import bit_width, element_type, shape_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.lowering.absorb_moves.memory import (
    Shape,
    is_whole_buffer,
    registers,
    rows_are_ours,
)
from pallasite.passes.divisibility import constant_of
from pallasite.passes.insertion import alike, insert_before
from pallasite.passes.ranges import Range, range_of

_WIDENING = (
    arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp, arith.SIToFPOp, arith.UIToFPOp, tpu.ExtfOp,
    tpu.SitofpOp,
)  # fmt: skip
"""Elementwise conversions, most of them to wider types."""


def _only_rows_change(one: Shape, other: Shape) -> bool:
    """Whether a reshape keeps the last dimension and regroups rows that do not fill registers of
    words."""
    if min(len(one), len(other)) < 2 or one[-1] != other[-1]:
        return False
    alike = [n for n in one if n != 1] == [n for n in other if n != 1]
    return not alike and bool(one[-2] % SUBLANES or other[-2] % SUBLANES)


def _view(memref: SSAValue, indices: Sequence[SSAValue], old: Shape, new: Shape) -> bool:
    """Whether an access of shape `old` at `indices` takes all of `memref`, which can be seen as
    `new`."""
    return _only_rows_change(old, new) and takes_all(memref, indices, old)


def takes_all(
    memref: SSAValue, indices: Sequence[SSAValue], shape: Shape, widths: Sequence[int] = (32,)
) -> bool:
    """Whether an access of `shape` at `indices` takes all rows of a buffer that we may tile.

    The width of its elements must be in `widths`, in bits.
    """
    kind = cast(MemRefType[Attribute], memref.type)
    return (
        bit_width(kind.element_type) in widths
        and tuple(kind.get_shape()) == shape
        and all(constant_of(index) == 0 for index in indices)
        and rows_are_ours(memref)
        and is_whole_buffer(memref)
    )


def store_again(store: tpu.VectorStoreOp, value: SSAValue, memref: SSAValue) -> None:
    """Replaces `store` by a store of `value` to all of `memref`, with the same attributes."""
    rank = len(shape_of(value.type))
    stored = tpu.VectorStoreOp.create(
        operands=[value, memref, *_origin(store, rank)],
        properties={
            **store.properties,
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 1, rank, 0]),
        },
        attributes=store.attributes,
    )
    stored.location = store.location
    Rewriter.insert_op(stored, InsertPoint.before(store))
    store.detach()
    store.erase()


def reshaped_ref(memref: SSAValue, shape: Shape, anchor: Operation) -> SSAValue:
    """A view of `memref` in `shape`, with the same layout, inserted before `anchor`."""
    kind = cast(MemRefType[Attribute], memref.type)
    result = MemRefType(kind.element_type, shape, kind.layout, kind.memory_space)
    return insert_before(tpu.MemrefReshapeOp(operands=[memref], result_types=[result]), anchor)


def _origin(anchor: Operation, rank: int) -> list[SSAValue]:
    """`rank` indices of 0."""
    zero = insert_before(arith.ConstantOp(IntegerAttr(0, IndexType())), anchor)
    return [zero] * rank


def reshape_memory(op: vector.ShapeCastOp | tpu.ReshapeOp) -> None:
    """Removes a reshape between a load and a store of all of a buffer: one of the two gets a view
    in the other shape.

    If both could, the load does unless its registers would then be more.
    """
    source, result = op.operands[0], op.results[0]
    old, new = shape_of(source.type), shape_of(result.type)
    if not _only_rows_change(old, new) or not source.has_one_use():
        return
    load, use = source.owner, result.first_use
    store = use.operation if use is not None and result.has_one_use() else None
    loads = isinstance(load, vector.LoadOp) and _view(load.base, load.indices, old, new)
    stores = (
        isinstance(store, tpu.VectorStoreOp)
        and store.mask is None
        and _view(store.base, store.indices, new, old)
    )
    if loads and (not stores or registers(new, 32) <= registers(old, 32)):
        assert isinstance(load, vector.LoadOp)
        view = reshaped_ref(load.base, new, load)
        value = insert_before(vector.LoadOp(view, _origin(load, len(new)), result.type), load)
        result.replace_all_uses_with(value)
    elif stores:
        assert isinstance(store, tpu.VectorStoreOp)
        view = reshaped_ref(store.base, old, store)
        store_again(store, source, view)
    else:
        return
    op.detach()
    op.erase()


def widen_before_reshape(op: vector.ShapeCastOp) -> None:
    """Swaps a reshape and the conversion to a wider type that alone uses it.

    It does so where rows fill registers of the wider type only: 32x256 of bf16 as 4x8x256 are half
    registers, those of f32 are whole ones.
    """
    old, new = shape_of(op.source.type), shape_of(op.result.type)
    use = op.result.first_use
    if use is None or not op.result.has_one_use() or min(len(old), len(new)) < 2:
        return
    widening = use.operation
    if not isinstance(widening, _WIDENING) or old[-1] != new[-1]:
        return
    narrow, wide = (SUBLANES * packing(bit_width(v.type)) for v in (op.source, widening.results[0]))
    if any(rows % wide for rows in (old[-2], new[-2])):
        return
    if wide == narrow or not any(rows % narrow for rows in (old[-2], new[-2])):
        return
    kind = VectorType(element_type(widening.results[0].type), old)
    widened = insert_before(alike(widening, [op.source], [kind]), widening)
    reshaped = insert_before(vector.ShapeCastOp(widened, widening.results[0].type), widening)
    widening.results[0].replace_all_uses_with(reshaped)
    for gone in (widening, op):
        gone.detach()
        gone.erase()


def roll_as_column(op: tpu.DynamicRotateOp) -> None:
    """Rolls rows of several tiles as rows of one tile: `factor` times as many rows by `factor`
    times the amount.

        roll of 16x256 by 3 in dimension 0   becomes   roll of 32x128 by 6

    The roll must be between a load and a store of whole buffers, which are seen in the other shape.
    Registers then hold eight rows wherever these begin, which later steps make use of.
    """
    shape, use = shape_of(op.value.type), op.result.first_use
    rank, load, amount = len(shape), op.value.owner, constant_of(op.amount)
    if rank < 2 or op.dimension.value.data != rank - 2 or op.stride is not None or use is None:
        return
    store, factor = use.operation, shape[-1] // LANES
    if factor < 2 or shape[-1] % LANES or (amount is not None and amount % SUBLANES == 0):
        return
    alone = op.value.has_one_use() and op.result.has_one_use()
    if not alone or not isinstance(load, vector.LoadOp) or not isinstance(store, tpu.VectorStoreOp):
        return
    if store.mask is not None or store.add.value.data or use.index != 0:
        return
    if not takes_all(load.base, load.indices, shape) or not takes_all(
        store.base, store.indices, shape
    ):
        return
    rows: Shape = (*shape[:-2], shape[-2] * factor, LANES)
    kind = VectorType(element_type(op.value.type), rows)
    source = reshaped_ref(load.base, rows, load)
    value = insert_before(vector.LoadOp(source, _origin(load, rank), kind), load)
    total = _times(op.amount, shape[-2], factor, op)
    rolled = insert_before(alike(op, [value, total], [kind]), op)
    store_again(store, rolled, reshaped_ref(store.base, rows, store))
    op.detach()
    op.erase()


def _times(amount: SSAValue, rows: int, factor: int, anchor: Operation) -> SSAValue:
    """`factor * (amount mod rows)` as a value, or `factor * amount` if that cannot wrap.

    Only the remainder of the amount by `rows` counts; a product that wraps would lose it.
    """
    known = constant_of(amount)
    if known is not None:
        return insert_before(arith.ConstantOp(IntegerAttr(known % rows * factor, i32)), anchor)
    if range_of(amount).over(Range(factor, factor), operator.mul).low is None:
        # The product might wrap, and 2**32 need not be a multiple of the rows.
        size = insert_before(arith.ConstantOp(IntegerAttr(rows, i32)), anchor)
        amount = insert_before(arith.RemSIOp(amount, size), anchor)
    times = insert_before(arith.ConstantOp(IntegerAttr(factor, i32)), anchor)
    return insert_before(arith.MuliOp(amount, times), anchor)
