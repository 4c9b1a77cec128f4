"""Refuses accesses to views whose columns of tiles are not adjacent in memory.

A row of over 128 columns lies in several tiles, one after the other. In a view of some rows of each
tile, these tiles have rows of the array between them that the view does not have.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX

from pallasite.dialects import tpu, vector
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import AnyMemRef, bit_width
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.accesses import accessed_shape
from pallasite.passes.check_kernel.viewed_array import array_of
from pallasite.passes.divisibility import remainder
from pallasite.targets import Target


def load_rule(op: vector.LoadOp | tpu.VectorLoadOp, target: Target) -> None:
    """Raises `Unsupported` for a load of several rows of a view with one row of each tile.

    Such a view is `ref.at[:, 3, :]` of a wide array. The TPU compiler loads single rows of it, and
    stores any number.
    """
    view = op.base
    array, shape = array_of(view, target), cast(AnyMemRef, view.type).get_shape()
    loaded = accessed_shape(op)
    if array is None or len(shape) < 2:
        return
    whole = array.type.get_shape()
    dropped = array.dims[-2] != len(whole) - 2 and array.dims[-1] == len(whole) - 1
    tile = array.tile
    if dropped and tile > 1 and shape[-1] > LANES and loaded[-2] > 1:
        raise refusal(
            op, "unaligned-slice",
            f"the TPU compiler cannot load {loaded[-2]} rows of {view.type}, a view that has one "
            f"row of each tile of {tile} rows of {array.type}",
            f"the view's rows have {shape[-1]} lanes, whose tiles do not follow each other",
            f"load the array itself and index its value, or take views of up to {LANES} lanes",
        )  # fmt: skip


def part_of_tile_rule(
    op: vector.LoadOp | tpu.VectorLoadOp | vector.StoreOp | tpu.VectorStoreOp, target: Target
) -> None:
    """Raises `Unsupported` for an access to a view of a wide array that cuts tiles of it.

    The TPU compiler accepts single rows of words in such a view, and views of a multiple of eight
    rows from the first row of a tile (asked of libtpu 0.0.51 for v5e and v6e).
    """
    view = op.base
    owner = view.owner
    while isinstance(owner, tpu.MemrefSliceOp | tpu.MemrefSqueezeOp):
        source = owner.operands[0]
        if cast(AnyMemRef, source.type).get_shape()[-2:-1] != owner.result.type.get_shape()[-2:-1]:
            break
        owner = source.owner
    if not isinstance(owner, tpu.MemrefSliceOp):
        return
    array, shape = array_of(owner.mem_ref, target), owner.result.type.get_shape()
    if array is None or len(shape) < 2 or array.dims[-2:] != _last_two(array.type):
        return
    held, rows = owner.mem_ref.type.get_shape()[-2], shape[-2]
    accessed = accessed_shape(op)
    columns = cast(AnyMemRef, view.type).get_shape()[-1]
    if rows in (held, DYNAMIC_INDEX) or columns <= LANES:
        return
    many = rows % SUBLANES == 0 or rows >= array.tile
    if many and remainder(owner.base_idx[-2], array.tile) == 0:
        return
    if len(accessed) > 1 and (accessed[-2] > 1 or packing(bit_width(array.type)) > 1):
        raise refusal(
            op, "unaligned-slice",
            f"the TPU compiler cannot access {view.type}, a view of {rows} rows of tiles of "
            f"{array.tile} rows of {array.type}",
            f"the view's rows have {columns} lanes, whose tiles do not follow each other",
            "index the array itself, once: ref[rows, columns] and not ref.at[rows][:, columns]",
        )  # fmt: skip


def _last_two(array: AnyMemRef) -> tuple[int, int]:
    rank = len(array.get_shape())
    return rank - 2, rank - 1
