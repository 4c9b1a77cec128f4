"""Structured control flow that carries vectors: carried values are grids in native layout."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pallasite.dialects import func, scf, tpu
from pallasite.dialects.types import bit_width
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.converter import (
    Converter,
    element_of,
    grid_type,
    is_vector,
    rule,
    shape_of,
)


def carried_layout(value: SSAValue) -> VectorLayout:
    """The layout of a vector that crosses the border of a region."""
    bits = bit_width(element_of(value))
    rank = len(shape_of(value))
    if rank == 1:
        return VectorLayout(32 if bits == 1 else bits, None, 0, 0, 0, 1)
    return VectorLayout.native(rank, 32 if bits == 1 else bits)


def carried_type(value: SSAValue) -> Attribute:
    """The grid type that stands for `value` at the border of a region."""
    if not is_vector(value):
        return value.type
    return grid_type(carried_layout(value), shape_of(value), element_of(value))


def carried(values: Sequence[SSAValue], c: Converter) -> list[SSAValue]:
    """`values` as they cross the border of a region."""
    return [c.in_layout(v, carried_layout(v)) if is_vector(v) else v for v in values]


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
            c.define(old, new, carried_layout(old))
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
            c.define(argument, fresh, carried_layout(argument))
            c.place(argument, new)
        else:
            argument.replace_all_uses_with(fresh)
    c.block(new)
    return new


@rule(scf.YieldOp, scf.ConditionOp, tpu.YieldOp, func.ReturnOp)
def lower_terminator(op: Operation, c: Converter) -> None:
    """Yields the grids of the vectors."""
    op.operands = carried(op.operands, c)
