"""`fill-registers`: views arrays of few rows as rows of 128, so that registers are full.

    %v = vector.load %x[0, 0] : memref<2x384xf32, tiled<(2,128),[3,1]>>, vector<2x384xf32>
    %w = arith.mulf %v, %v : vector<2x384xf32>
    tpu.vector_store %y[0, 0], %w : memref<2x384xf32, tiled<(2,128),[3,1]>>, vector<2x384xf32>
becomes
    %a = tpu.reinterpret_cast %x : ... -> memref<6x128xf32, tiled<(1,128),[1,1]>>
    %v = vector.load %a[0, 0] : memref<6x128xf32, ...>, vector<6x128xf32>
    %w = arith.mulf %v, %v : vector<6x128xf32>
    %b = tpu.reinterpret_cast %y : ... -> memref<6x128xf32, tiled<(1,128),[1,1]>>
    vector.store %w, %b[0, 0] : memref<6x128xf32, ...>, vector<6x128xf32>

In the original, each register holds one tile, that is 2 of 8 rows. Memory consists of 6 rows of
128, which fit one register, so 1 operation does the work of 3.

Needs tiled memrefs. All operations between loads and stores must be elementwise, all arrays must
have the same tiles, and they must be loaded and stored whole (`islands.py`). Between arrays that
are stored row by row, reshapes are possible, too, and cost nothing.

Where that fails for arrays, it may be possible for each of their matrices: 5x8x256 of bf16 in tiles
of 8 rows becomes 5x16x128. Then operations may also move whole matrices, or cut the columns of a
single row of tiles (both halves of 2x768 are 6x128), and rows and columns from outside are
broadcast over the matrices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from pallasite.dialects import func, vector
from pallasite.dialects.subcores import lowered_functions
from pallasite.dialects.types import bit_width, shape_of, tiling_of
from pallasite.dialects.walking import of_kind
from pallasite.layouts.registers import SUBLANES, packing
from pallasite.passes.fill_registers.islands import (
    STORES,
    Island,
    is_one_value,
    islands_of,
    splats_of,
)
from pallasite.passes.fill_registers.rows import rewrite
from pallasite.passes.fill_registers.tiles import tile_as_in_hbm
from pallasite.targets import DEFAULT_TARGET


@dataclass(frozen=True)
class FillRegistersPass(ModulePass):
    """Views arrays of few rows as rows of 128 where that saves registers."""

    name = "fill-registers"

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in lowered_functions(op):
            if function.body.blocks:
                anew = tile_as_in_hbm(function, _gained) | set(_across_tiles(function))
                for arrays in list(_arrays(function, anew)):
                    rewrite(function, arrays)
                for island in list(_others(function, anew)):
                    rewrite(function, [island])


def _across_tiles(function: func.FuncOp) -> Iterator[Operation]:
    """Stores of one number that cover more rows than a tile of their memory, which is smaller than
    a register."""
    for op in of_kind(function, *STORES):
        tiling, value = tiling_of(op.base.type), op.operands[0]
        native = SUBLANES * packing(bit_width(value.type))
        if tiling is None or len(tiling.first) != 2 or tiling.strides[-1] != 1:
            continue
        tile = tiling.first[0]
        if packing(bit_width(value.type)) < tile < min(native, shape_of(value.type)[-2]):
            if is_one_value(value):
                yield op


def _gained(function: func.FuncOp, anew: Set[Operation]) -> tuple[set[Operation], int]:
    """The operations that will work on rows of 128, and how many registers that saves.

    Of the registers, only those of islands (or groups of them) with an access of `anew` count.
    """
    works, gain = set[Operation](), 0
    for group in [*_arrays(function, anew), *([island] for island in _others(function, anew))]:
        operations = set[Operation]().union(*(island.operations for island in group))
        works |= operations
        if not operations.isdisjoint(anew):
            gain += sum(island.gain() for island in group)
    return works, gain


def _pays(islands: Sequence[Island], anew: Set[Operation]) -> bool:
    """Whether rewriting `islands` saves registers.

    Islands of memory that is tiled `anew` would lose if they were not rewritten, so they need not
    gain.
    """
    gain = sum(island.gain() for island in islands)
    return gain > 0 or (
        gain == 0 and any(not island.operations.isdisjoint(anew) for island in islands)
    )


def _others(function: func.FuncOp, anew: Set[Operation]) -> Iterator[Island]:
    """Islands of matrices, and stores of one number, that can be rewritten and gain by it."""
    homes = islands_of(function, of_matrices=True)
    for island in [*dict.fromkeys(homes.values()), *splats_of(function)]:
        if island.sound and _pays([island], anew):
            yield island


def _arrays(function: func.FuncOp, anew: Set[Operation]) -> Iterator[list[Island]]:
    """Groups of islands of arrays that can be rewritten and gain by it.

    Islands between which values are reshaped are one group: reshapes leave every element in place
    only if both sides are rewritten. `anew` are the accesses to memory that was tiled for this.
    """
    homes = islands_of(function, of_matrices=False)
    casts = of_kind(function, vector.ShapeCastOp)
    doubtful = True
    while doubtful:
        doubtful = False
        for op in casts:
            one, other = homes.get(op.source), homes.get(op.result)
            for island in () if _agree(one, other) else (one, other):
                if island is not None and island.sound:
                    island.sound, doubtful = False, True
    group_of = {island: [island] for island in homes.values() if island.sound}
    for op in casts:
        one, other = homes.get(op.source), homes.get(op.result)
        if one in group_of and other in group_of and group_of[one] is not group_of[other]:
            group_of[one] += group_of[other]
            for island in group_of[other]:
                group_of[island] = group_of[one]
    for group in {id(group): group for group in group_of.values()}.values():
        if _pays(group, anew):
            yield group


def _agree(one: Island | None, other: Island | None) -> bool:
    """Whether a reshape from one island to the other leaves every element in place in memory."""
    if one is None or other is None or not (one.sound and other.sound):
        return False
    return one.order == other.order
