"""A roll of loaded rows by a dynamic amount: loads that begin at other rows.

    %x = vector.load %a[%z, %z] : vector<16x128xf32>
    %y = tpu.dynamic_rotate %x by %n dim 0
becomes, where `%b` is the buffer `%a` with eight more rows after it
    %top = vector.load %b[%z, %z] : vector<8x128xf32>
    tpu.vector_store %b[%c16, %z], %top
    %p = vector.load %b[(16 - %n) mod 16, %z] : vector<8x128xf32>
    %q = vector.load %b[(24 - %n) mod 16, %z] : vector<8x128xf32>
    %y = tpu.concatenate %p, %q in 0

A load that passes the last row finds copies of the first ones there. In registers, each block of 8
rows would take a rotation and one or more selects.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
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
from pallasite.dialects import memref as memref_dialect
from pallasite.dialects.types import bit_width, memory_space, shape_of, tiling_of
from pallasite.layouts.registers import SUBLANES
from pallasite.lowering.absorb_moves.memory import VIEWS, buffer_of
from pallasite.passes.divisibility import constant_of
from pallasite.passes.effects import has_no_effects
from pallasite.passes.insertion import alike, insert_before

_MOST_BLOCKS = 16
"""Blocks of 8 rows that get a load each, so that the size of the result stays bounded."""

_MOST_BYTES = 1 << 16
"""Bytes by which a buffer may grow, as a kernel that just fits must not be refused for that."""


@dataclass
class Deepened:
    """What the rolls of a function have changed.

    `buffers` maps enlarged allocations to the rows that were added; `heads` are the stores that
    fill those rows.
    """

    buffers: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    heads: set[Operation] = field(default_factory=set[Operation])


def roll_in_memory(op: tpu.DynamicRotateOp, deepened: Deepened) -> None:
    """Replaces `op` by loads, if it rolls all rows of a buffer.

    Elements have 32 bits, and there are more than 8 and at most 128 rows. Nothing may write the
    memory between the load and `op`, and the buffer must be one that may grow.
    """
    load, rank = op.value.owner, len(shape_of(op.value.type))
    if not isinstance(load, vector.LoadOp) or op.stride is not None or rank < 2:
        return
    if op.dimension.value.data != rank - 2 or constant_of(op.amount) is not None:
        return
    kind = cast(MemRefType[Attribute], load.base.type)
    rows = shape_of(op.value.type)[-2]
    whole = kind.get_shape()[-2] == rows and constant_of(load.indices[-2]) == 0
    if not whole or bit_width(kind.element_type) != 32 or len(load.indices) != rank:
        return
    if not SUBLANES < rows <= SUBLANES * _MOST_BLOCKS or not memory_is_kept(load, op, deepened):
        return
    memory = _deeper(load.base, SUBLANES, deepened)
    if memory is None:
        return
    head = _load(load, memory, load.indices[-2], SUBLANES, op)
    top = _store(head, memory, [*load.indices[:-2], _index(rows, op), load.indices[-1]], op)
    deepened.heads.add(top)
    parts = [
        _load(load, memory, start, min(SUBLANES, rows - block * SUBLANES), op)
        for block, start in enumerate(_starts(op, rows))
    ]
    joined = tpu.ConcatenateOp.create(
        operands=parts,
        result_types=[op.result.type],
        properties={"dimension": IntegerAttr(rank - 2, i32)},
    )
    op.result.replace_all_uses_with(insert_before(joined, op))
    op.detach()
    op.erase()


def memory_is_kept(load: vector.LoadOp, op: Operation, deepened: Deepened) -> bool:
    """Whether `op` follows `load` in its block, and nothing between them may write what was loaded.

    Stores of `deepened.heads` write added rows only.
    """
    buffer = buffer_of(load.base)
    between = load.next_op
    while between is not None and between is not op:
        stores = isinstance(between, tpu.VectorStoreOp) and (
            between in deepened.heads or buffer_of(between.base) not in (None, buffer)
        )
        loads = isinstance(between, vector.LoadOp | memref_dialect.LoadOp)
        if not (stores or loads) and (between.regions or not has_no_effects(between)):
            return False
        between = between.next_op
    return between is op


def _deeper(memref: SSAValue, added: int, deepened: Deepened) -> SSAValue | None:
    """`memref` with at least `added` more rows after it; None if its buffer may not grow.

    `memref` must have all rows of a buffer or of one of its slots. Views between it and the buffer
    are made again.
    """
    owner, kind = memref.owner, cast(MemRefType[Attribute], memref.type)
    if isinstance(owner, memref_dialect.AllocaOp):
        return _deeper_buffer(memref, added, deepened)
    if not isinstance(owner, tpu.MemrefSliceOp | tpu.MemrefSqueezeOp | tpu.MemrefReshapeOp):
        return None
    *lead, rows, columns = kind.get_shape()
    source = cast(MemRefType[Attribute], owner.operands[0].type).get_shape()
    factor = source[-1] // columns if isinstance(owner, tpu.MemrefReshapeOp) else 1
    if (source[-2] - deepened.buffers.get(owner.operands[0], 0)) * factor != rows:
        return None
    if isinstance(owner, tpu.MemrefSliceOp) and constant_of(owner.base_idx[-2]) != 0:
        return None
    inner = _deeper(owner.operands[0], -(-added // factor), deepened)
    if inner is None:
        return None
    rows += -(-added // factor) * factor
    again = alike(
        owner,
        [inner, *owner.operands[1:]],
        [MemRefType(kind.element_type, [*lead, rows, columns], kind.layout, kind.memory_space)],
    )
    again.location = owner.location
    Rewriter.insert_op(again, InsertPoint.after(owner))
    return again.results[0]


def _deeper_buffer(buffer: SSAValue, added: int, deepened: Deepened) -> SSAValue | None:
    """The allocation `buffer` with `added` more rows.

    None if it is tiled, not in VMEM or would grow too much, or if a view joins its matrices.
    """
    if buffer in deepened.buffers:
        return buffer if deepened.buffers[buffer] >= added else None
    kind = cast(MemRefType[Attribute], buffer.type)
    if tiling_of(kind) is not None or memory_space(kind) not in ("vmem", None):
        return None
    if math.prod(kind.get_shape()) // kind.get_shape()[-2] * added * 4 > _MOST_BYTES:
        return None
    if _joins_matrices(buffer):
        return None
    larger = _with_more_rows(buffer, added)
    deepened.buffers[larger] = added
    return larger


def _joins_matrices(ref: SSAValue) -> bool:
    """Whether a view of `ref` joins the rows of several matrices, with no room for more rows
    between these."""
    for use in ref.uses:
        op = use.operation
        if not isinstance(op, VIEWS):
            continue
        if isinstance(op, tpu.MemrefReshapeOp):
            *lead, _, _ = shape_of(ref.type)
            if math.prod(lead) > 1 and shape_of(op.results[0].type)[:-2] != tuple(lead):
                return True
        if _joins_matrices(op.results[0]):
            return True
    return False


def _with_more_rows(buffer: SSAValue, added: int) -> SSAValue:
    """The allocation `buffer`, enlarged by `added` rows; its other users see a slice of the old
    shape."""
    old = cast(MemRefType[Attribute], buffer.type)
    *lead, rows, columns = old.get_shape()
    larger = MemRefType(
        old.element_type, [*lead, rows + added, columns], old.layout, old.memory_space
    )
    whole = Rewriter.replace_value_with_new_type(buffer, larger)
    owner = cast(Operation, whole.owner)
    others = [use for use in whole.uses if not isinstance(use.operation, tpu.MemrefSliceOp)]
    if others:
        zero = arith.ConstantOp(IntegerAttr(0, 32))
        view = tpu.MemrefSliceOp.create(
            operands=[whole, *[zero.result] * len(larger.get_shape())],
            result_types=[old],
            properties={
                "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, len(lead) + 2, 0])
            },
        )
        zero.location = view.location = owner.location
        Rewriter.insert_op([zero, view], InsertPoint.after(owner))
        for use in others:
            use.operation.operands[use.index] = view.result
    return whole


def _starts(op: tpu.DynamicRotateOp, rows: int) -> list[SSAValue]:
    """The row, in [0, rows), at which each block of 8 rows of the result begins in memory."""
    size = insert_before(arith.ConstantOp(IntegerAttr(rows, 32)), op)
    # The remainder has the sign of the amount; `size - rest` is positive either way.
    rest = insert_before(arith.RemSIOp(op.amount, size), op)
    first = insert_before(arith.SubiOp(size, rest), op)
    starts: list[SSAValue] = []
    for block in range(-(-rows // SUBLANES)):
        step = insert_before(arith.ConstantOp(IntegerAttr(block * SUBLANES, 32)), op)
        position = insert_before(arith.AddiOp(first, step), op)
        wrapped = insert_before(arith.RemSIOp(position, size), op)
        starts.append(insert_before(arith.IndexCastOp(wrapped, IndexType()), op))
    return starts


def _index(value: int, anchor: Operation) -> SSAValue:
    """A constant index, inserted before `anchor`."""
    return insert_before(arith.ConstantOp(IntegerAttr(value, IndexType())), anchor)


def _load(
    like: vector.LoadOp, memref: SSAValue, row: SSAValue, rows: int, anchor: Operation
) -> SSAValue:
    """`rows` rows, from `row` on, of the columns and leading positions that `like` loads."""
    old = like.result.type
    *lead, _, columns = old.get_shape()
    kind = VectorType(old.element_type, [*lead, rows, columns])
    indices = [*like.indices[:-2], row, like.indices[-1]]
    return insert_before(vector.LoadOp(memref, indices, kind), anchor)


def _store(
    value: SSAValue, memref: SSAValue, indices: list[SSAValue], anchor: Operation
) -> Operation:
    """Stores `value` at `indices` of `memref`, before `anchor`."""
    made = tpu.VectorStoreOp.create(
        operands=[value, memref, *indices],
        properties={
            "strides": DenseArrayBase.from_list(i32, []),
            "add": IntegerAttr(0, 1),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 1, len(indices), 0]),
        },
    )
    made.location = anchor.location
    Rewriter.insert_op(made, InsertPoint.before(anchor))
    return made
