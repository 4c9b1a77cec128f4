"""Index maps of a `pallas.emit_pipeline`, as functions that `windows_to_dma.maps` can evaluate.

Unlike those of a kernel, they may use values defined outside of the pipeline; these become
arguments behind the grid indices. Dimensions that are counted in blocks are multiplied by their
size where another dimension is counted in elements, so that all results have the same unit.
"""

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
    """An index map as a function, not inserted, of grid indices and values from outside."""

    function: func.FuncOp
    ranges: tuple[Range, ...]
    """The values that the index of each dimension may take."""
    in_elements: bool
    """Whether its results are first elements of blocks instead of numbers of blocks."""
    bounded: tuple[bool, ...] = ()
    """For each dimension, whether it has a second result, the size; () if none has."""


def captured(maps: Sequence[Region]) -> list[SSAValue]:
    """The values that `maps` use but do not define, each once, in the order of their uses."""
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
    """The index map of `window` of the pipeline `op`; `outside` are the values that maps capture.

    Its arguments are grid indices to which the offsets of `op` have been added.
    """
    grid = op.grid_shape
    block = Block(arg_types=[i32] * len(grid) + [value.type for value in outside])

    def emit(made: Operation) -> SSAValue:
        made.location = op.location
        block.add_op(made)
        return made.results[0]

    indices: list[SSAValue] = list(block.args[: len(grid)])
    map = window.map
    if isinstance(map, AffineMap):
        results = affine_values(map, indices, emit)
    else:
        results = _inlined(
            op.maps[map], block, indices, dict(zip(outside, block.args[len(grid) :], strict=True))
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
    region: Region, block: Block, indices: Sequence[SSAValue], outside: dict[SSAValue, SSAValue]
) -> list[SSAValue]:
    """Copies the operations of the index map `region` to the end of `block`.

    `indices` replaces its grid indices, and `outside` maps captured values to their replacements.
    Returns what the map yields.
    """
    values = {**outside, **dict(zip(region.block.args, indices, strict=True))}
    end = end_of(region)
    for op in region.block.ops:
        if op is not end:
            block.add_op(op.clone(values))
    return [values.get(value, value) for value in end.values]
