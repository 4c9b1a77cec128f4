"""Rewrites scalar accesses to slices of SMEM that cut tiles as accesses to the whole array.

    %v = tpu.memref_slice %x[%i, %j] : memref<4x300xi32, smem> -> memref<1x100xi32, smem>
    %s = memref.load %v[%c0, %k] : memref<1x100xi32, smem>
becomes
    %r = arith.index_cast %i : i32 to index
    %c = arith.index_cast %j : i32 to index
    %l = arith.addi %c, %k : index
    %s = memref.load %x[%r, %l] : memref<4x300xi32, smem>

Once layouts are chosen, the TPU compiler does not accept a slice that cuts tiles as a ref.
"""

from __future__ import annotations

from xdsl.rewriter import Rewriter

from pallasite.dialects import memref, tpu
from pallasite.dialects.func import FuncOp
from pallasite.dialects.types import memory_space, shape_of, tiling_of
from pallasite.dialects.viewed import PARTS, views_behind
from pallasite.dialects.walking import of_kind
from pallasite.passes.array_behind import ArrayBehind, look_through
from pallasite.passes.divisibility import remainder
from pallasite.passes.reference_tiles import smem_tiling


def look_through_views(function: FuncOp) -> None:
    """Rewrites all such accesses of `function`."""
    look_through(function, of_kind(function, memref.LoadOp, memref.StoreOp), _cuts, _rewrite)


def _cuts(op: memref.LoadOp | memref.StoreOp) -> bool:
    """Whether a slice among the views behind the ref of `op` cuts tiles of SMEM."""
    return any(
        isinstance(view, tpu.MemrefSliceOp) and _cuts_tiles(view)
        for view in views_behind(op.memref, *PARTS)
    )


def _cuts_tiles(op: tpu.MemrefSliceOp) -> bool:
    kind, sizes = op.mem_ref.type, shape_of(op.result.type)
    if memory_space(kind) != "smem":
        return False
    shape = shape_of(kind)
    tiling = tiling_of(kind) or smem_tiling(kind)
    for dim, (start, held, size) in enumerate(zip(op.base_idx, shape, sizes, strict=True)):
        tile = tiling.tile_of(dim)
        if remainder(start, tile) != 0 or (size % tile and size != held):
            return True
    return False


def _rewrite(op: memref.LoadOp | memref.StoreOp) -> None:
    """Replaces `op` by an access to the array behind the views."""
    array, index = ArrayBehind(op).found(op.memref, list(op.indices))
    if isinstance(op, memref.LoadOp):
        new = memref.LoadOp.get(array, index)
    else:
        new = memref.StoreOp.get(op.value, array, index)
    new.location = op.location
    new.attributes |= op.attributes
    new.properties |= op.properties
    Rewriter.replace_op(op, new)
