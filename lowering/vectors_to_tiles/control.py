"""Structured control flow that carries vectors: carried values become grids (`carried.py`).

Masks cross the borders of regions as words of 0 and 1, because mask registers are not carried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import VectorType, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pallasite.dialects import arith, func, scf, tpu
from pallasite.dialects.types import element_of, is_vector, shape_of, splat
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles import carried
from pallasite.lowering.vectors_to_tiles.carried import native_border
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.masks import is_mask, mask_in_layout
from pallasite.lowering.vectors_to_tiles.tiled import grid_type

Borders = Sequence[VectorLayout | None]


def _layouts(
    values: Sequence[SSAValue], borders: Borders
) -> list[tuple[SSAValue, VectorLayout | None]]:
    """Each of `values` with its layout, None if it is no vector; `borders` has the layouts of the
    last ones."""
    lead = len(values) - len(borders)
    known = [borders[k - lead] if k >= lead and borders else None for k in range(len(values))]
    return [
        (v, (layout or native_border(v)) if is_vector(v) else None)
        for v, layout in zip(values, known, strict=True)
    ]


def _border_type(value: SSAValue, layout: VectorLayout | None) -> Attribute:
    """The grid type that stands for `value` at the border of a region."""
    if layout is None:
        return value.type
    element = i32 if is_mask(value) else element_of(value)
    return grid_type(layout, shape_of(value.type), element)


def _sent(values: Sequence[SSAValue], borders: Borders, c: Converter) -> list[SSAValue]:
    """`values` as they cross the border of a region."""
    return [
        v if layout is None else _in_border(v, layout, c) for v, layout in _layouts(values, borders)
    ]


def _in_border(value: SSAValue, layout: VectorLayout, c: Converter) -> SSAValue:
    """The grid of `value` in `layout`, a mask as words of 0 and 1."""
    if not is_mask(value):
        return c.in_layout(value, layout)
    mask = mask_in_layout(value, layout, c)
    kind = _border_type(value, layout)
    return c.emit(arith.ExtUIOp.create(operands=[mask], result_types=[kind]))


def _receive(old: SSAValue, new: SSAValue, layout: VectorLayout, c: Converter) -> None:
    """Records that `new` is vector `old` inside or after a region; words of a mask are compared
    with 0."""
    if not is_mask(old):
        c.define(old, new, layout)
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
    c.define(old, mask.result, layout)


@rule(scf.ForOp, scf.IfOp, scf.WhileOp, scf.IndexSwitchOp, tpu.RegionOp, tpu.TraceOp)
def lower_structured(op: Operation, c: Converter) -> None:
    """Rebuilds the operation with grids; without carried vectors only its regions are converted."""
    values = [*op.operands, *op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]
    if not any(is_vector(v) for v in values):
        for region in op.regions:
            for block in region.blocks:
                c.block(block)
        return
    borders = carried.borders(op, c)
    operands = _sent(op.operands, borders, c)
    results = _layouts(op.results, borders)
    c.borders.append(borders)
    regions = [Region([_rebuilt(b, c) for b in list(r.blocks)]) for r in op.regions]
    c.borders.pop()
    made = type(op).create(
        operands=operands,
        result_types=[_border_type(r, layout) for r, layout in results],
        properties=op.properties,
        attributes=op.attributes,
        regions=regions,
    )
    c.insert(made)
    for (old, layout), new in zip(results, made.results, strict=True):
        if layout is None:
            old.replace_all_uses_with(new)
        else:
            _receive(old, new, layout, c)
    c.retire(op)


def _rebuilt(old: Block, c: Converter) -> Block:
    """A block with grid arguments that takes over the operations of `old`, converted."""
    arguments = _layouts(old.args, c.borders[-1])
    new = Block(arg_types=[_border_type(a, layout) for a, layout in arguments])
    operations = list(old.ops)
    for op in operations:
        op.detach()
    new.add_ops(operations)
    for (argument, layout), fresh in zip(arguments, new.args, strict=True):
        if layout is None:
            argument.replace_all_uses_with(fresh)
        else:
            first = cast(Operation, new.first_op)
            _receive(argument, fresh, layout, c)
            c.place(argument, first if is_mask(argument) else new)
    c.convert(operations)
    return new


@rule(scf.YieldOp, scf.ConditionOp, tpu.YieldOp, func.ReturnOp)
def lower_terminator(op: Operation, c: Converter) -> None:
    """Passes on the grids of vectors."""
    op.operands = _sent(op.operands, c.borders[-1] if c.borders else (), c)
