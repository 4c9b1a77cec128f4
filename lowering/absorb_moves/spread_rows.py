"""A row that is loaded, broadcast over rows and stored: several tiles of it in each register.

    %x = vector.load %a[%z, %z] : memref<1x256xf32>, vector<1x256xf32>
    %y = vector.broadcast %x : vector<1x256xf32> to vector<32x256xf32>
    tpu.vector_store %b[%z, %z], %y : memref<32x256xf32>
becomes, with `%v` for `%b` seen as rows of one tile,
    %p = vector.shape_cast %x : vector<1x256xf32> to vector<1x2x128xf32>
    %q = vector.broadcast %p : vector<1x2x128xf32> to vector<32x2x128xf32>
    %y = vector.shape_cast %q : vector<32x2x128xf32> to vector<64x128xf32>
    tpu.vector_store %v[%z, %z], %y : memref<64x128xf32>

One load that holds both tiles four times replaces a load for each tile.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import MemRefType, i32
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import tpu, vector
from pallasite.dialects.types import bit_width, element_type, shape_of, vector_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.lowering.absorb_moves.memory import Shape, buffer_of
from pallasite.lowering.absorb_moves.reshapes import reshaped_ref, store_again, takes_all
from pallasite.passes.infer_memref_layout.single_rows import LAYOUT_VIEWS, TRANSFERS
from pallasite.passes.insertion import insert_before


def spread_as_column(op: vector.BroadcastOp) -> None:
    """Rewrites the store of `op`, if it broadcasts a loaded row of 2, 4 or a multiple of 8 tiles.

    The store must be to all of a buffer that nothing else accesses except transfers.
    """
    use, shape = op.vector.first_use, shape_of(op.vector.type)
    source = shape_of(op.source.type)
    if use is None or not op.vector.has_one_use() or len(shape) < 2:
        return
    store, factor = use.operation, shape[-1] // LANES
    row = len(source) >= 1 and source[-1] == shape[-1] and all(n == 1 for n in source[:-1])
    if not row or shape[-1] % LANES or not (factor in (2, 4) or factor % SUBLANES == 0):
        return
    if not isinstance(op.source.owner, vector.LoadOp) or not isinstance(store, tpu.VectorStoreOp):
        return
    if store.mask is not None or store.add.value.data or use.index != 0:
        return
    buffer = buffer_of(store.base)
    if buffer is None or not takes_all(store.base, store.indices, shape, (8, 16, 32)):
        return
    if not _alone(buffer, store):
        return
    # Rows that share words stay neighbours, in each tile; groups of them are cut into tiles.
    p = packing(bit_width(element_type(op.source.type)))
    if shape[-2] % p:
        return
    parted = _cast(op.source, (1, factor, LANES), op)
    if p > 1:
        parted = _cast(parted, (1, factor, 1, LANES), op)
    shared = (p,) if p > 1 else ()
    spread = vector_of(
        element_type(op.source.type), (*shape[:-2], shape[-2] // p, factor, *shared, LANES)
    )
    wide = insert_before(vector.BroadcastOp(parted, spread), op)
    rows = (*shape[:-2], shape[-2] * factor, LANES)
    store_again(store, _cast(wide, rows, op), _tiles_as_rows(store.base, rows, p, store))
    op.detach()
    op.erase()


def _cast(value: SSAValue, shape: Shape, anchor: Operation) -> SSAValue:
    """`value` reshaped to `shape`, inserted before `anchor`."""
    return insert_before(
        vector.ShapeCastOp(value, vector_of(element_type(value.type), shape)), anchor
    )


def _tiles_as_rows(memref: SSAValue, shape: Shape, p: int, anchor: Operation) -> SSAValue:
    """`memref` seen as rows of one tile each, in `shape`; `p` rows share words."""
    if p == 1:
        return reshaped_ref(memref, shape, anchor)
    kind = cast(MemRefType[Attribute], memref.type)
    *lead, rows, columns = kind.get_shape()
    words = MemRefType(i32, (*lead, rows // p, columns), kind.layout, kind.memory_space)
    seen = MemRefType(kind.element_type, shape, kind.layout, kind.memory_space)
    view = insert_before(tpu.MemrefBitcastOp(operands=[memref], result_types=[words]), anchor)
    view = reshaped_ref(view, (*shape[:-2], shape[-2] // p, LANES), anchor)
    return insert_before(tpu.MemrefBitcastOp(operands=[view], result_types=[seen]), anchor)


def _alone(ref: SSAValue, store: tpu.VectorStoreOp) -> bool:
    """Whether `ref` and its views are only transferred, apart from `store` and loads that nobody
    uses."""
    for use in ref.uses:
        op = use.operation
        if isinstance(op, LAYOUT_VIEWS):
            if not _alone(op.results[0], store):
                return False
        elif op is not store and not isinstance(op, TRANSFERS):
            dead = isinstance(op, vector.LoadOp) and op.result.first_use is None
            if not dead:
                return False
    return True
