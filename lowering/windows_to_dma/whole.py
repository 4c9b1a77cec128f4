"""The windows that are left where the cores of a device share a grid: whole arrays in SMEM or VMEM.

A kernel with a grid says of each operand which block it takes. What stays in HBM takes none; of any
other the TPU compiler wants an index map, also if it is one block ("missing transform_indices").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    LocationAttr,
    MemRefType,
    ModuleOp,
    SymbolRefAttr,
    i32,
    i64,
)
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, Region

from pallasite.dialects import func
from pallasite.dialects.kernel import IN_PLACE, functions_of
from pallasite.dialects.types import memory_space
from pallasite.lowering.windows_to_dma.scalars import ScalarBuilder


def whole_windows(
    module: ModuleOp,
    arrays: Sequence[Attribute],
    prefetch: Sequence[Attribute],
    location: LocationAttr,
) -> list[DictionaryAttr]:
    """The `window_params` of operands of the types `arrays`, on a grid of one axis.

    The index maps are added to `module`, one for each rank; like all, they take a step and the
    scalars that the kernel prefetches, of the types `prefetch`.
    """
    names: dict[int, str] = {}
    windows: list[DictionaryAttr] = []
    for type in arrays:
        if memory_space(type) in IN_PLACE:
            windows.append(DictionaryAttr({}))
            continue
        shape = cast("MemRefType[Attribute]", type).get_shape()
        if len(shape) not in names:
            names[len(shape)] = _first_block(module, len(shape), prefetch, location)
        bounds = DenseArrayBase.from_list(i64, shape)
        entry = {"transform_indices": SymbolRefAttr(names[len(shape)]), "window_bounds": bounds}
        windows.append(DictionaryAttr(entry))
    return windows


def _first_block(
    module: ModuleOp, rank: int, prefetch: Sequence[Attribute], location: LocationAttr
) -> str:
    """Adds an index map that gives block 0 of an array of `rank` dimensions; its name."""
    taken, name = functions_of(module), f"whole_{rank}"
    while name in taken:
        name += "_"
    block = Block(arg_types=[i32, *prefetch])
    build = ScalarBuilder(block, location)
    end = ReturnOp(*[build.value(0)] * rank)
    end.location = location
    block.add_op(end)
    index_map = func.FuncOp(name, ((i32, *prefetch), (i32,) * rank), Region(block))
    index_map.location = location
    module.body.block.add_op(index_map)
    return name
