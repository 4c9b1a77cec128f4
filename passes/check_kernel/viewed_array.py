"""The array of which a view is a part, and the rows of its tiles in the TPU compiler."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.types import AnyMemRef, bit_width, memory_space, memref_of, tiling_of
from pallasite.layouts.registers import LANES, packing
from pallasite.layouts.tiling import Tiling, contiguous_strides, refolded
from pallasite.passes.reference_tiles import rows_of_tiles
from pallasite.targets import Target

_TILED = ("any", "hbm", "vmem", "smem")


@dataclass(frozen=True)
class Array:
    """The array behind a view."""

    type: AnyMemRef
    """Its type, after bitcasts and reshapes."""
    dims: tuple[int, ...]
    """For each dimension of the view, the dimension of the array that it is."""
    tile: int
    """Rows of one of its tiles, in elements of `type`."""


def array_of(view: SSAValue, target: Target) -> Array | None:
    """The array of which `view` is a part; None in memories without tiles, and behind views whose
    tiles are not known."""
    owner = view.owner
    if isinstance(owner, tpu.MemrefSliceOp):
        return array_of(owner.mem_ref, target)
    if isinstance(owner, tpu.MemrefSqueezeOp):
        array = array_of(owner.input, target)
        kept = _kept(owner.input.type.get_shape(), owner.result.type.get_shape())
        if array is None or kept is None:
            return None
        return replace(array, dims=tuple(array.dims[dim] for dim in kept))
    kind = view.type
    if isinstance(owner, tpu.MemrefBitcastOp):
        return _as_other_type(array_of(owner.input, target), owner.result.type)
    if isinstance(owner, tpu.MemrefReshapeOp):
        return _reshaped(array_of(owner.input, target), owner)
    if not isinstance(kind, MemRefType):
        return None
    if memory_space(kind) not in _TILED or tiling_of(kind) is not None or not kind.get_shape():
        return None
    shape = kind.get_shape()
    tile = rows_of_tiles(view, target) if len(shape) > 1 else 1
    return Array(kind, tuple(range(len(shape))), tile)


def _as_other_type(array: Array | None, view: AnyMemRef) -> Array | None:
    """The array behind a bitcast to the type of `view`: its tiles keep their words."""
    if array is None or len(array.type.get_shape()) < 2:
        return None
    old, new = bit_width(array.type), bit_width(view)
    *leading, rows, lanes = array.type.get_shape()
    kind = memref_of(
        view.element_type, (*leading, rows * old // new, lanes), array.type.memory_space
    )
    return replace(array, type=kind, tile=array.tile * old // new)


def _reshaped(array: Array | None, op: tpu.MemrefReshapeOp) -> Array | None:
    """The array behind a reshape of a whole array that keeps the last dimension; else None."""
    old, new = op.input.type.get_shape(), op.result.type.get_shape()
    if array is None or array.type.get_shape() != old or min(len(old), len(new)) < 2:
        return None
    if old[-1] != new[-1] or DYNAMIC_INDEX in (*old, *new):
        return None
    tile = array.tile
    if packing(bit_width(op.result.type)) == 1:
        if old[-1] <= LANES:
            # In one column of tiles, rows are adjacent.
            return replace(array, type=op.result.type, dims=tuple(range(len(new))), tile=1)
        folded = tiling_in_shape(array, new)
        if folded is None or len(folded.first) > 2:
            return None
        tile = folded.tile_of(len(new) - 2)
    return replace(array, type=op.result.type, dims=tuple(range(len(new))), tile=tile)


def tiling_in_shape(array: Array, shape: tuple[int, ...]) -> Tiling | None:
    """The tiling of `array`, of 32-bit elements, reshaped to `shape`; None if there is none."""
    old, tile = array.type.get_shape(), (array.tile, LANES)
    return refolded(Tiling((tile,), contiguous_strides(old, tile)), old, shape)


def _kept(old: tuple[int, ...], new: tuple[int, ...]) -> list[int] | None:
    """The dimensions of shape `old` that a squeeze to `new` keeps; None if it is no squeeze."""
    kept: list[int] = []
    left = list(new)
    for dim in reversed(range(len(old))):
        if left and old[dim] == left[-1]:
            left.pop()
            kept.insert(0, dim)
        elif old[dim] != 1:
            return None
    return None if left else kept
