"""Reshapes of rows become views of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import arith, tpu, vector
from pallasite.dialects.types import bit_width, shape_of
from pallasite.layouts.registers import SUBLANES
from pallasite.lowering.absorb_moves.memory import (
    Shape,
    insert_before,
    is_whole_buffer,
    registers,
    rows_are_ours,
)
from pallasite.passes.divisibility import constant_of


def _only_rows_change(one: Shape, other: Shape) -> bool:
    """Whether a reshape of 32-bit values regroups rows that do not fill registers."""
    if min(len(one), len(other)) < 2 or one[-1] != other[-1]:
        return False
    alike = [n for n in one if n != 1] == [n for n in other if n != 1]
    return not alike and bool(one[-2] % SUBLANES or other[-2] % SUBLANES)


def _view(memref: SSAValue, indices: Sequence[SSAValue], old: Shape, new: Shape) -> bool:
    """Whether an access of `old` at `indices` is one of all of `memref`, seen as `new`."""
    kind = cast(MemRefType[Attribute], memref.type)
    return (
        bit_width(kind.element_type) == 32
        and _only_rows_change(old, new)
        and tuple(kind.get_shape()) == old
        and all(constant_of(index) == 0 for index in indices)
        and rows_are_ours(memref)
        and is_whole_buffer(memref)
    )


def _reshaped(memref: SSAValue, shape: Shape, place: Operation) -> SSAValue:
    kind = cast(MemRefType[Attribute], memref.type)
    result = MemRefType(kind.element_type, shape, kind.layout, kind.memory_space)
    return insert_before(tpu.MemrefReshapeOp(operands=[memref], result_types=[result]), place)


def _origin(place: Operation, rank: int) -> list[SSAValue]:
    zero = insert_before(arith.ConstantOp(IntegerAttr(0, IndexType())), place)
    return [zero] * rank


def reshape_memory(op: vector.ShapeCastOp | tpu.ReshapeOp) -> None:
    """A reshape between a load and a store: one of the two sees its memory in the other shape."""
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
        view = _reshaped(load.base, new, load)
        value = insert_before(vector.LoadOp(view, _origin(load, len(new)), result.type), load)
        result.replace_all_uses_with(value)
    elif stores:
        assert isinstance(store, tpu.VectorStoreOp)
        view = _reshaped(store.base, old, store)
        stored = tpu.VectorStoreOp.create(
            operands=[source, view, *_origin(store, len(old))],
            properties={
                **store.properties,
                "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 1, len(old), 0]),
            },
            attributes=store.attributes,
        )
        stored.location = store.location
        Rewriter.insert_op(stored, InsertPoint.before(store))
        store.detach()
        store.erase()
    else:
        return
    op.detach()
    op.erase()
