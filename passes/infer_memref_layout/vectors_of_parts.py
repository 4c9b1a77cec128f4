"""Accesses of vectors to slices in VMEM that cut registers become accesses to the array.

    %v = tpu.memref_slice %x[%c8, %c0] : memref<24x128xbf16, vmem> -> memref<8x128xbf16, vmem>
    %r = vector.load %v[%c2, %c0] : memref<8x128xbf16, vmem>, vector<2x128xbf16>
becomes
    %r = vector.load %x[%c10, %c0] : memref<24x128xbf16, vmem>, vector<2x128xbf16>

Once layouts are chosen, a slice that begins or ends within a tile is no ref of its own. Neither is
a slice of a one-dimensional array, whose last register also holds elements of others. Loads and
stores shift rows that begin at a known row within a register. Slices of words are left alone,
because their arrays are tiled by single rows, unless they begin at a lane within a register.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from pallasite.dialects import tpu, vector
from pallasite.dialects.func import FuncOp
from pallasite.dialects.types import bit_width, memory_space
from pallasite.dialects.viewed import PARTS, views_behind
from pallasite.dialects.walking import of_kind
from pallasite.layouts.registers import LANES, packing
from pallasite.passes.accesses import accessed_shape, value_of
from pallasite.passes.array_behind import ArrayBehind, look_through, unsqueezed
from pallasite.passes.divisibility import constant_of
from pallasite.passes.infer_memref_layout.single_rows import register_rows
from pallasite.passes.reference_tiles import VIEWS

_Load = vector.LoadOp | tpu.VectorLoadOp
_Store = vector.StoreOp | tpu.VectorStoreOp


def look_through_parts(function: FuncOp) -> None:
    """Makes loads and stores of vectors in slices that cut registers access the array."""
    accesses = of_kind(function, vector.LoadOp, vector.StoreOp, tpu.VectorLoadOp, tpu.VectorStoreOp)
    look_through(function, accesses, _cuts, _rewrite)


def _cuts(op: _Load | _Store) -> bool:
    """Whether a slice that leads to the ref of `op` is known to cut registers."""
    if getattr(op, "mask", None) is not None:
        return False
    views = list(views_behind(op.base, *PARTS))
    array = views[-1].operands[0] if views else op.base
    slices = [view for view in views if isinstance(view, tpu.MemrefSliceOp)]
    kind = cast("MemRefType[Attribute]", array.type)
    shape, p = kind.get_shape(), packing(bit_width(kind))
    if not slices or memory_space(kind) not in ("vmem", None):
        return False
    if len(shape) == 1:
        return not isinstance(array.owner, VIEWS)
    rows = register_rows(shape[-2], p)
    return any((p > 1 and _cuts_rows(view, rows)) or _cuts_lanes(view) for view in slices)


def _cuts_rows(op: tpu.MemrefSliceOp, tile: int) -> bool:
    """Whether a slice of packed rows, from a constant row, begins or ends within a tile of `tile`
    rows."""
    shape, sizes = op.mem_ref.type.get_shape(), op.result.type.get_shape()
    if len(sizes) < 2:
        return False
    start, rows = constant_of(op.base_idx[-2]), sizes[-2]
    return start is not None and (start % tile != 0 or rows % tile != 0) and rows != shape[-2]


def _cuts_lanes(op: tpu.MemrefSliceOp) -> bool:
    """Whether a slice begins at a lane within a register, which the TPU compiler does not
    accept."""
    start = constant_of(op.base_idx[-1])
    return start is not None and start % LANES != 0


def _rewrite(op: _Load | _Store) -> None:
    """Replaces `op` by an access to the array, in a box that has the dimensions which the view
    dropped."""
    build = ArrayBehind(op)
    array, index = build.found(op.base, list(op.indices))
    box = _box(op.base, accessed_shape(op))
    value = value_of(op)
    kind = cast("VectorType[Attribute]", value.type)
    # The vector must have every dimension of its memory.
    like = kind.get_shape() == box
    boxed = VectorType(kind.element_type, box)
    if isinstance(op, _Store):
        stored = value if like else build.emit(vector.ShapeCastOp(value, boxed))
        build.insert(vector.StoreOp(stored, array, index))
        Rewriter.erase_op(op)
        return
    loaded = build.emit(vector.LoadOp(array, index, boxed))
    if not like:
        loaded = build.emit(vector.ShapeCastOp(loaded, kind))
    Rewriter.replace_op(op, (), (loaded,))


def _box(view: SSAValue, box: tuple[int, ...]) -> tuple[int, ...]:
    """The extent, in the array behind `view`, of an access of extent `box` to `view`."""
    for op in views_behind(view, *PARTS):
        if isinstance(op, tpu.MemrefSqueezeOp):
            box = tuple(unsqueezed(op, box, lambda: 1))
    return box
