"""`absorb-moves`: data movement that a load or a store can do on its way.

    %x = vector.load %a[%c0, %c0] : memref<16x256xf32>, vector<16x256xf32>
    %y = arith.addf %x, %one : vector<16x256xf32>
    %z = vector.extract_strided_slice %y {offsets = [3, 0], sizes = [8, 128], strides = [1, 1]}
becomes
    %x = vector.load %a[%c3, %c0] : memref<16x256xf32>, vector<8x128xf32>
    %z = arith.addf %x, %one : vector<8x128xf32>

The pass runs before memory is tiled, because an access at any row asks for tiles of single rows
(`infer-memref-layout`). Its steps, in order:

* every access gets the rank of its memref (`ranks`);
* slices of concatenations become slices of the operands, and concatenations of equal rows or
  columns broadcasts (`concatenations`);
* stores of single rows become one store (`rows`);
* rolls of rows of several tiles become rolls of rows of one tile (`reshapes`), and so do rows that
  are broadcast and stored (`spread_rows`);
* reshapes of rows come after conversions to wider types, whose rows fill registers (`reshapes`);
* stores of concatenations and rolls become stores of the parts (`stores`), reshapes become views of
  memory (`reshapes`), and rolls by a dynamic amount become loads (`rolls`, `lane_rolls`);
* slices move up through elementwise operations into loads (`slices`).

`memory` decides where memory can serve an access. Registers are then touched only where they are
wanted, and nothing moves between them.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from pallasite.dialects import func, tpu, vector
from pallasite.dialects.subcores import lowered_functions
from pallasite.dialects.types import shape_of
from pallasite.dialects.walking import of_kind, operations
from pallasite.lowering.absorb_moves.concatenations import repeat_by_broadcast, slice_parts
from pallasite.lowering.absorb_moves.lane_rolls import roll_tiles_in_memory
from pallasite.lowering.absorb_moves.ranks import load_in_full_rank, store_in_full_rank
from pallasite.lowering.absorb_moves.reshapes import (
    reshape_memory,
    roll_as_column,
    widen_before_reshape,
)
from pallasite.lowering.absorb_moves.rolls import Deepened, roll_in_memory
from pallasite.lowering.absorb_moves.rows import merge_rows
from pallasite.lowering.absorb_moves.slices import move_slice_up
from pallasite.lowering.absorb_moves.spread_rows import spread_as_column
from pallasite.lowering.absorb_moves.stores import split_store
from pallasite.passes.dead_code import remove_dead_code
from pallasite.targets import DEFAULT_TARGET


def _blocks(function: func.FuncOp) -> list[Block]:
    """The blocks of `function`, nested ones included."""
    inside = operations(function)
    return [block for op in inside for region in op.regions for block in region.blocks]


@dataclass(frozen=True)
class AbsorbMovesPass(ModulePass):
    """Lets loads and stores do the movement that they can."""

    name = "absorb-moves"

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in lowered_functions(op):
            if function.body.blocks:
                _absorb(function)


def _absorb(function: func.FuncOp) -> None:
    """Applies the steps to `function`; each one searches anew, for what the ones before it have
    left."""
    for found in of_kind(function, vector.LoadOp, vector.StoreOp, tpu.VectorStoreOp):
        if isinstance(found, vector.LoadOp):
            load_in_full_rank(found)
        else:
            store_in_full_rank(found)
    _join_moves(function)
    _move_in_memory(function)
    for found in of_kind(function, vector.ExtractStridedSliceOp):
        move_slice_up(found)
    for block in function.body.blocks:
        remove_dead_code(block)


def _join_moves(function: func.FuncOp) -> None:
    """Replaces movements by fewer, or by broadcasts."""
    for found in of_kind(function, vector.ExtractStridedSliceOp):
        slice_parts(found)
    for found in of_kind(function, tpu.ConcatenateOp):
        repeat_by_broadcast(found)
    for block in _blocks(function):
        merge_rows(block)
    for found in of_kind(function, tpu.DynamicRotateOp):
        roll_as_column(found)
    for found in of_kind(function, vector.BroadcastOp):
        spread_as_column(found)
    for found in of_kind(function, vector.ShapeCastOp):
        widen_before_reshape(found)


def _move_in_memory(function: func.FuncOp) -> None:
    """Replaces movement of registers by stores of parts, views of memory, and loads at other
    offsets."""
    deepened = Deepened()
    kinds = (tpu.VectorStoreOp, vector.ShapeCastOp, tpu.ReshapeOp, tpu.DynamicRotateOp)
    for found in of_kind(function, *kinds):
        if isinstance(found, tpu.VectorStoreOp):
            split_store(found)
        elif isinstance(found, tpu.DynamicRotateOp):
            if found.dimension.value.data == len(shape_of(found.value.type)) - 1:
                roll_tiles_in_memory(found, deepened)
            else:
                roll_in_memory(found, deepened)
        else:
            reshape_memory(found)
