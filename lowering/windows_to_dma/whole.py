"""Windows of whole arrays, for kernels in form `dma` whose grid the cores of a device share.

Such a kernel keeps a grid of one axis, the cores, so each operand needs an entry in
`window_params`. That of an array in HBM is empty. For an array in SMEM or VMEM the TPU compiler
demands an index map although the only block is the whole array ("missing transform_indices").
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

    Adds the index maps `@whole_RANK` to `module`, one for each rank of an array. As all index maps
    do, they take the grid index and the kernel's prefetched scalars, of the types `prefetch`.
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
    """Adds an index map that gives block 0 of an array of `rank` dimensions; returns its name."""
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
