"""Structured control flow that carries vectors: carried values are grids in native layout.

Masks cross the borders of regions as 0 and 1 in words, for mask registers are not carried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import VectorType, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pallasite.dialects import arith, func, scf, tpu
from pallasite.dialects.types import bit_width, element_of, is_vector, shape_of, splat
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.masks import is_mask, mask_in_layout
from pallasite.lowering.vectors_to_tiles.tiled import grid_type


def carried_layout(value: SSAValue) -> VectorLayout:
    """The layout of a vector that crosses the border of a region."""
    bits = bit_width(element_of(value))
    rank = len(shape_of(value.type))
    if rank == 1:
        return VectorLayout(32 if bits == 1 else bits, None, 0, 0, 0, 1)
    return VectorLayout.native(rank, 32 if bits == 1 else bits)


def carried_type(value: SSAValue) -> Attribute:
    """The grid type that stands for `value` at the border of a region."""
    if not is_vector(value):
        return value.type
    element = i32 if is_mask(value) else element_of(value)
    return grid_type(carried_layout(value), shape_of(value.type), element)


def carried(values: Sequence[SSAValue], c: Converter) -> list[SSAValue]:
    """`values` as they cross the border of a region."""
    return [_sent(v, c) if is_vector(v) else v for v in values]


def _sent(value: SSAValue, c: Converter) -> SSAValue:
    layout = carried_layout(value)
    if not is_mask(value):
        return c.in_layout(value, layout)
    kind = cast(VectorType[Attribute], carried_type(value))
    mask = mask_in_layout(value, layout, c)
    return c.emit(arith.ExtUIOp.create(operands=[mask], result_types=[kind]))


def _receive(old: SSAValue, new: SSAValue, c: Converter) -> None:
    """Records that `new` stands for vector `old` inside or behind a region."""
    if not is_mask(old):
        c.define(old, new, carried_layout(old))
        return
    zero = arith.ConstantOp(splat(cast(VectorType[Attribute], new.type), 0))
    mask = arith.CmpiOp(new, zero, "ne")
    if isinstance(new.owner, Block):
        place = cast(Operation, new.owner.first_op)
        zero.location = mask.location = place.location
        new.owner.insert_ops_before([zero, mask], place)
    else:
        c.insert(zero)
        c.insert(mask)
    c.define(old, mask.result, carried_layout(old))


@rule(scf.ForOp, scf.IfOp, scf.WhileOp, scf.IndexSwitchOp, tpu.RegionOp, tpu.TraceOp)
def lower_structured(op: Operation, c: Converter) -> None:
    """The same operation over grids; without carried vectors only its regions change."""
    values = [*op.operands, *op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]
    if not any(is_vector(v) for v in values):
        for region in op.regions:
            for block in region.blocks:
                c.block(block)
        return
    operands = carried(op.operands, c)
    regions = [Region([_rebuilt(b, c) for b in list(r.blocks)]) for r in op.regions]
    made = type(op).create(
        operands=operands,
        result_types=[carried_type(r) for r in op.results],
        properties=op.properties,
        attributes=op.attributes,
        regions=regions,
    )
    c.insert(made)
    for old, new in zip(op.results, made.results, strict=True):
        if is_vector(old):
            _receive(old, new, c)
        else:
            old.replace_all_uses_with(new)
    c.retire(op)


def _rebuilt(old: Block, c: Converter) -> Block:
    """A block with grid arguments that takes over the operations of `old`, converted."""
    new = Block(arg_types=[carried_type(a) for a in old.args])
    operations = list(old.ops)
    for op in operations:
        op.detach()
    new.add_ops(operations)
    for argument, fresh in zip(old.args, new.args, strict=True):
        if is_vector(argument):
            first = cast(Operation, new.first_op)
            _receive(argument, fresh, c)
            c.place(argument, first if is_mask(argument) else new)
        else:
            argument.replace_all_uses_with(fresh)
    c.convert(operations)
    return new


@rule(scf.YieldOp, scf.ConditionOp, tpu.YieldOp, func.ReturnOp)
def lower_terminator(op: Operation, c: Converter) -> None:
    """Yields the grids of the vectors."""
    op.operands = carried(op.operands, c)
