"""Index maps of a pipeline, which may use values from outside: these become arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap

from pallasite.dialects import arith, func, pallas
from pallasite.dialects.kernel import DYNAMIC
from pallasite.dialects.pallas import DimKind
from pallasite.dialects.pallas.scope import end_of
from pallasite.lowering.pallas_to_mosaic.maps import affine_values
from pallasite.lowering.windows_to_dma.maps import ranges
from pallasite.passes.ranges import Range


@dataclass(frozen=True)
class PipelineMap:
    """An index map as a detached function of grid indices and of the values from outside."""

    function: func.FuncOp
    ranges: tuple[Range, ...]
    in_elements: bool
    """Its results are the first elements of blocks, not the numbers of blocks."""
    bounded: tuple[bool, ...] = ()
    """The dimensions with a second result, the size; nothing if there are none."""


def captured(maps: Sequence[Region]) -> list[SSAValue]:
    """The values that `maps` use and that are defined outside of them."""
    found: dict[SSAValue, None] = {}
    for region in maps:
        inside = {*region.block.args}
        for op in region.walk():
            inside |= {*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)}
        for op in region.walk():
            found |= {operand: None for operand in op.operands if operand not in inside}
    return list(found)


def pipeline_map(
    op: pallas.EmitPipelineOp, window: pallas.WindowAttr, outside: Sequence[SSAValue]
) -> PipelineMap:
    """The index map of one window of `op`, which takes grid indices with the offsets of `op`."""
    grid = op.grid_shape
    block = Block(arg_types=[i32] * len(grid) + [value.type for value in outside])

    def emit(made: Operation) -> SSAValue:
        made.location = op.location
        block.add_op(made)
        return made.results[0]

    place: list[SSAValue] = list(block.args[: len(grid)])
    map = window.map
    if isinstance(map, AffineMap):
        results = affine_values(map, place, emit)
    else:
        results = _inlined(
            op.maps[map], block, place, dict(zip(outside, block.args[len(grid) :], strict=True))
        )
    bounded = tuple(dim.kind is DimKind.BOUNDED for dim in window.dims)
    in_elements = any(bounded) or any(dim.kind is DimKind.ELEMENT for dim in window.dims)
    # Which result is the position in each dimension.
    starts = [d + sum(bounded[:d]) for d in range(len(bounded))]
    if in_elements:
        for d, dim in zip(starts, window.dims, strict=True):
            if dim.kind is DimKind.BLOCKED:
                size = emit(arith.ConstantOp(IntegerAttr(dim.size, i32)))
                results[d] = emit(arith.MuliOp(results[d], size))
    block.add_op(func.ReturnOp(*results))
    function = func.FuncOp("index", (block.arg_types, [i32] * len(results)), Region(block))
    bounds = [None if op.offsets or n == DYNAMIC else n for n in grid]
    found = ranges(function, bounds)
    return PipelineMap(
        function, tuple(found[d] for d in starts), in_elements, bounded if any(bounded) else ()
    )


def _inlined(
    region: Region, block: Block, place: Sequence[SSAValue], outside: dict[SSAValue, SSAValue]
) -> list[SSAValue]:
    """Copies the operations of an index map to the end of `block`; what the map yields."""
    values = {**outside, **dict(zip(region.block.args, place, strict=True))}
    end = end_of(region)
    for op in region.block.ops:
        if op is not end:
            block.add_op(op.clone(values))
    return [values.get(value, value) for value in end.values]
