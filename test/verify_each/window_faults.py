"""Wrong rules of `windows-to-dma`, `infer-memref-layout` and `fill-registers`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest import MonkeyPatch

from pallasite.dialects import arith
from pallasite.lowering.windows_to_dma import extents, grid, scalars
from pallasite.lowering.windows_to_dma.schedule import Pipeline
from pallasite.passes.fill_registers import islands
from pallasite.passes.infer_memref_layout import driver as infer_memref_layout

from .faults import fault, never
from .kernels import argument, kernel

# windows-to-dma

PIPELINED = kernel(
    [argument("x:8x128xf32", (32, 128), "%i, %c0"), argument("o:8x128xf32", (32, 128), "%i, %c0")],
    """
    LOAD %a, x
    %b = arith.addf %a, %a : vector<8x128xf32>
    STORE %b, o
    """,
    grid=(4,),
)
EDGE = kernel(
    [argument("x:8x128xf32", (20, 128), "%i, %c0"), argument("o:8x128xf32", (20, 128), "%i, %c0")],
    """
    LOAD %a, x
    STORE %a, o
    """,
    grid=(3,),
)
TWO_AXES = kernel(
    [
        argument("x:8x128xf32", (16, 256), "%i, %j"),
        argument("o:8x128xf32", (16, 256), "%i, %j"),
    ],
    """
    LOAD %a, x
    STORE %a, o
    """,
    grid=(2, 2),
)
REUSED = kernel(
    [
        argument("x:8x128xf32", (16, 128), "%i, %c0"),
        argument("o:8x128xf32", (16, 256), "%i, %j"),
    ],
    """
    LOAD %a, x
    STORE %a, o
    """,
    grid=(2, 2),
)


@fault("windows-to-dma", PIPELINED)
def input_is_not_awaited(patch: MonkeyPatch) -> None:
    patch.setattr(Pipeline, "_wait_here", never)


@fault("windows-to-dma", PIPELINED)
def output_is_not_awaited(patch: MonkeyPatch) -> None:
    patch.setattr(Pipeline, "_wait_previous", never)


@fault("windows-to-dma", PIPELINED)
def next_block_lands_in_the_slot_in_use(patch: MonkeyPatch) -> None:
    def fetch_next(self: Any, turn: Any) -> None:
        turn.operand.fetch(self.build, turn.following, turn.slot)

    patch.setattr(Pipeline, "_fetch_next", fetch_next)


@fault("windows-to-dma", PIPELINED)
def first_block_is_not_fetched(patch: MonkeyPatch) -> None:
    patch.setattr(Pipeline, "_prologue", lambda *_: {})


@fault("windows-to-dma", REUSED)
def new_block_is_taken_for_the_one_held(patch: MonkeyPatch) -> None:
    patch.setattr(Pipeline, "_differ", lambda *_: 0)


@fault("windows-to-dma", TWO_AXES)
def rows_of_the_grid_do_not_wrap(patch: MonkeyPatch) -> None:
    def after(self: Any, build: Any, point: Any) -> Any:
        return (*point[:-1], build.add(point[-1], 1))

    patch.setattr(grid.Grid, "after", after)


@fault("windows-to-dma", EDGE)
def edge_block_is_a_tile_short(patch: MonkeyPatch) -> None:
    def round_up(self: Any, size: int) -> int:
        return size // self.tile * self.tile or 1

    patch.setattr(extents.Extent, "_round_up", round_up)


@fault("windows-to-dma", PIPELINED)
def scalar_difference_folds_to_a_sum(patch: MonkeyPatch) -> None:
    patch.setitem(scalars.FOLDS, arith.SubiOp, lambda a, b: a + b)


# infer-memref-layout

BIG = kernel(
    [argument("x:16x256xf32"), argument("o:16x256xf32")],
    """
    LOAD %a, x
    STORE %a, o
    """,
)
SQUEEZED = kernel(
    [
        argument("x:8x128xf32", (32, 128), "%i, %c0"),
        argument("o:8x128xf32", (32, 128), "%i, %c0"),
    ],
    """
    LOAD %a, x
    STORE %a, o
    """,
    grid=(4,),
)


@fault("infer-memref-layout", BIG)
def tiles_of_a_buffer_overlap(patch: MonkeyPatch) -> None:
    right = infer_memref_layout.packed_tiling

    def tiling(shape: Any, *rest: Any) -> Any:
        return replace(right(shape, *rest), strides=tuple(1 for _ in shape))

    patch.setattr(infer_memref_layout, "packed_tiling", tiling)


@fault("infer-memref-layout", SQUEEZED)
def slots_of_a_buffer_overlap(patch: MonkeyPatch) -> None:
    right = infer_memref_layout.vmem_tiling

    def tiling(shape: tuple[int, ...], *rest: Any) -> Any:
        made = right(shape, *rest)
        if len(shape) < 3:
            return made
        return type(made)(made.tiles, (0, *made.strides[1:]))

    patch.setattr(infer_memref_layout, "vmem_tiling", tiling)


# fill-registers

WIDENED = kernel(
    [argument("x:16x256xbf16"), argument("o:16x256xf32")],
    """
    LOAD %a, x
    %b = arith.extf %a : vector<16x256xbf16> to vector<16x256xf32>
    STORE %b, o
    """,
)
FEW_ROWS = kernel(
    [argument("x:2x512xf32"), argument("o:2x512xf32")],
    """
    LOAD %a, x
    %b = arith.addf %a, %a : vector<2x512xf32>
    STORE %b, o
    """,
)

MATRICES = kernel(
    [argument("x:3x8x256xbf16"), argument("o:3x8x256xbf16")],
    """
    LOAD %a, x
    %b = vector.extract_strided_slice %a {offsets = [2], sizes = [1], strides = [1]}
      : vector<3x8x256xbf16> to vector<1x8x256xbf16>
    %c = vector.broadcast %b : vector<1x8x256xbf16> to vector<3x8x256xbf16>
    STORE %c, o
    """,
)


@fault("fill-registers", WIDENED)
def tiles_of_other_heights_are_taken_for_equal(patch: MonkeyPatch) -> None:
    right = islands.order_of_array
    patch.setattr(islands, "order_of_array", lambda *given: right(*given)[-1:])
    patch.setattr(islands.Island, "gain", lambda island: 1)


@fault("fill-registers", FEW_ROWS)
def rows_of_all_but_one_tile_are_stored(patch: MonkeyPatch) -> None:
    right = islands.order_of_array
    patch.setattr(
        islands, "order_of_array", lambda *given: tuple(n - 2 * (n == 8) for n in right(*given))
    )


@fault("fill-registers", MATRICES)
def matrices_have_half_their_rows(patch: MonkeyPatch) -> None:
    right = islands.rows_of
    patch.setattr(islands, "rows_of", lambda shape, tile: right(shape, tile) // 2)
