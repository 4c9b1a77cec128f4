"""Slices move up through elementwise operations into loads, which then load less."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import (
    VectorType,
)
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import arith, vector
from pallasite.dialects.types import bit_width, element_type, shape_of, splat, splat_value
from pallasite.lowering.absorb_moves.memory import (
    ELEMENTWISE,
    Box,
    box_of,
    index_plus,
    memory_serves,
    only_sliced,
    part_of,
    small_tile,
    takes_rows_of_tiles,
)
from pallasite.passes.insertion import alike, insert_before


def unserved(value: SSAValue, box: Box) -> int:
    """How many slices between registers remain if the slice `box` of `value` moves up.

    0 means that loads, constants and broadcast scalars provide all of it.
    """
    owner = value.owner
    bits = bit_width(element_type(value.type))
    if isinstance(owner, arith.ConstantOp) and splat_value(owner.value) is not None:
        return 0
    if isinstance(owner, vector.BroadcastOp) and not isinstance(owner.source.type, VectorType):
        return 0
    if isinstance(owner, vector.LoadOp):
        if takes_rows_of_tiles(owner, box):
            return 0
        tile = small_tile(value)
        return not memory_serves(owner.base, owner.indices[-2], box.offsets[-2], bits, tile)
    if isinstance(owner, ELEMENTWISE) and len(owner.results) == 1:
        vectors = [v for v in owner.operands if isinstance(v.type, VectorType)]
        return sum(unserved(v, box) if _may_shrink(v) else _moved(v, box) for v in vectors)
    return _moved(value, box)


def _may_shrink(value: SSAValue) -> bool:
    """Whether nobody but one user needs `value`, or it costs nothing to make again."""
    return value.has_one_use() or isinstance(value.owner, arith.ConstantOp | vector.BroadcastOp)


def _moved(value: SSAValue, box: Box) -> int:
    """1 if the slice `box` of `value` needs a movement of registers, 0 if it is aligned."""
    return not box.is_aligned(bit_width(element_type(value.type)))


def sliced(value: SSAValue, box: Box) -> SSAValue:
    """`value[box]`, computed from slices of the operands, before what computes `value`."""
    owner = value.owner
    if isinstance(owner, Block):
        # A block argument, such as a value that a loop carries.
        return _cut(value, box, owner.first_op)
    kind = VectorType(element_type(value.type), box.sizes)
    if isinstance(owner, arith.ConstantOp):
        number = splat_value(owner.value)
        if number is not None:
            return insert_before(arith.ConstantOp(splat(kind, number)), owner)
    if isinstance(owner, vector.BroadcastOp) and not isinstance(owner.source.type, VectorType):
        return insert_before(vector.BroadcastOp(owner.source, kind), owner)
    if isinstance(owner, vector.LoadOp):
        shifted = zip(owner.indices, box.offsets, strict=True)
        indices = [index_plus(index, offset, owner) for index, offset in shifted]
        load = vector.LoadOp(owner.base, indices, kind)
        load.attributes |= part_of(owner, indices)
        return insert_before(load, owner)
    if isinstance(owner, ELEMENTWISE) and len(owner.results) == 1:
        operands = [
            v if not isinstance(v.type, VectorType)
            else sliced(v, box) if _may_shrink(v) else _cut(v, box, owner)
            for v in owner.operands
        ]  # fmt: skip
        return insert_before(alike(owner, operands, [kind]), owner)
    return _cut(value, box, None)


def _cut(value: SSAValue, box: Box, anchor: Operation | None) -> SSAValue:
    """A slice of `value`, inserted before `anchor`, or (None) after what computes `value`."""
    op = vector.ExtractStridedSliceOp(value, box.offsets, box.sizes)
    if anchor is not None:
        return insert_before(op, anchor)
    owner = cast(Operation, value.owner)
    op.location = owner.location
    Rewriter.insert_op(op, InsertPoint.after(owner))
    return op.result


def move_slice_up(op: vector.ExtractStridedSliceOp) -> None:
    """Replaces a slice of a load, or of what is computed from loads, by loads and operations of
    less.

    It does so if memory serves all slices of the operands, and if only slices use the whole value.
    """
    box = box_of(op)
    if box is None or not isinstance(op.source.owner, (vector.LoadOp, *ELEMENTWISE)):
        return
    bits = bit_width(element_type(op.source.type))
    whole = box.sizes[-2:] == shape_of(op.source.type)[-2:]
    if (box.is_aligned(bits) and whole) or unserved(op.source, box):
        return
    if not only_sliced(op.source):
        return
    op.result.replace_all_uses_with(sliced(op.source, box))
    op.detach()
    op.erase()
