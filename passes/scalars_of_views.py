"""Scalars of parts that cut the tiles of an array, as scalars of the array.

    %v = tpu.memref_slice %x[%i, %j] : memref<4x300xi32, smem> -> memref<1x100xi32, smem>
    %s = memref.load %v[%c0, %k] : memref<1x100xi32, smem>
becomes
    %r = arith.index_cast %i : i32 to index
    %c = arith.index_cast %j : i32 to index
    %l = arith.addi %c, %k : index
    %s = memref.load %x[%r, %l] : memref<4x300xi32, smem>

A part that cuts tiles is no ref of its own to the TPU compiler, once layouts are chosen.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from pallasite.dialects import arith, memref, tpu
from pallasite.dialects.func import FuncOp
from pallasite.dialects.tpu.views import squeezed_dimensions
from pallasite.dialects.types import memory_space, shape_of, tiling_of
from pallasite.dialects.walking import of_kind
from pallasite.passes.dead_code import remove_dead_code
from pallasite.passes.divisibility import constant_of, remainder
from pallasite.passes.insertion import Insertion
from pallasite.passes.reference_tiles import smem_tiling

_INDEX = IndexType()


def look_through_views(function: FuncOp) -> None:
    """Makes scalar accesses to parts of SMEM that cut tiles access the array."""
    changed = False
    for op in of_kind(function, memref.LoadOp, memref.StoreOp):
        if _cuts(op.memref):
            _rewrite(op)
            changed = True
    if changed:
        for block in function.body.blocks:
            remove_dead_code(block)


def _cuts(view: SSAValue) -> bool:
    """Whether `view` is made by a slice of SMEM that does not consist of whole tiles."""
    while isinstance(view.owner, tpu.MemrefSliceOp | tpu.MemrefSqueezeOp):
        op = view.owner
        view = op.operands[0]
        if isinstance(op, tpu.MemrefSliceOp) and _cuts_tiles(op):
            return True
    return False


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
    """Indexes the array behind the views."""
    array, index = ArrayBehind(op).found(op.memref, list(op.indices))
    if isinstance(op, memref.LoadOp):
        new = memref.LoadOp.get(array, index)
    else:
        new = memref.StoreOp.get(op.value, array, index)
    new.location = op.location
    new.attributes |= op.attributes
    new.properties |= op.properties
    Rewriter.replace_op(op, new)


class ArrayBehind(Insertion):
    """Finds what an access to a part of an array is of the array."""

    def __init__(self, op: Operation) -> None:
        self._anchor = op

    def found(self, array: SSAValue, index: list[SSAValue]) -> tuple[SSAValue, list[SSAValue]]:
        """The array behind the slices and squeezes of a ref, and where `index` of that is in it."""
        while isinstance(view := array.owner, tpu.MemrefSliceOp | tpu.MemrefSqueezeOp):
            array = view.operands[0]
            if isinstance(view, tpu.MemrefSliceOp):
                index = [self._sum(*pair) for pair in zip(view.base_idx, index, strict=True)]
                continue
            left = iter(index)
            dropped = squeezed_dimensions(shape_of(array.type), shape_of(view.result.type)) or ()
            index = [
                self._number(0) if dim in dropped else next(left)
                for dim in range(len(shape_of(array.type)))
            ]
        return array, index

    def _sum(self, start: SSAValue, index: SSAValue) -> SSAValue:
        first, further = constant_of(start), constant_of(index)
        if first is not None and further is not None:
            return self._number(first + further)
        if first == 0:
            return index
        at = (
            self._number(first)
            if first is not None
            else self.emit(arith.IndexCastOp(start, _INDEX))
        )
        return at if further == 0 else self.emit(arith.AddiOp(at, index))

    def _number(self, value: int) -> SSAValue:
        return self.emit(arith.ConstantOp(IntegerAttr(value, _INDEX)))
