"""Chooses tiles of 8 rows for buffers of one narrow row that is stored straight from a reduction.

The result of a reduction over rows is the same in every sublane. Narrowing it packs as many columns
of tiles into one register as a word holds elements, each replicated over eight rows. With tiles of
eight rows, memory has the same order, so the store moves nothing:

    %r = vector.multi_reduction <add>, %x, %zeros [0] : vector<32x256xf32> to vector<256xf32>
    %h = arith.truncf %r : vector<256xf32> to vector<256xbf16>
    vector.store %row, %o : memref<1x256xbf16>, vector<1x256xbf16>     %o is tiled by (8,128)

Buffers of several such rows, each a matrix of its own, keep the tiles of HBM: a DMA between
different tiles needs more code, a run for each matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import cast

from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, tpu, vector
from pallasite.dialects.arithmetic import is_arithmetic
from pallasite.dialects.types import bit_width, shape_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.fill_registers.islands import is_one_value

_NARROWING = (arith.TruncFOp, tpu.TruncfOp, arith.TruncIOp, arith.FPToSIOp, tpu.FptosiOp)
_RENAMINGS = (vector.ShapeCastOp, tpu.ReshapeOp)


def spread_tile(buffer: SSAValue, accesses: Iterable[Operation]) -> int | None:
    """8, the rows of tiles for `buffer`, if all `accesses` store a narrow row that is the same in
    all sublanes.

    None otherwise.
    """
    kind = cast(MemRefType[Attribute], buffer.type)
    shape, p = kind.get_shape(), packing(bit_width(kind.element_type))
    if len(shape) < 2 or math.prod(shape[:-1]) != 1 or shape[-1] <= LANES or p == 1:
        return None
    stored = list(accesses)
    return SUBLANES if stored and all(_stores_spread_row(op) for op in stored) else None


def _stores_spread_row(op: Operation) -> bool:
    """Whether `op` stores, without a mask, a narrow row that is the same in all sublanes."""
    if not isinstance(op, tpu.VectorStoreOp | vector.StoreOp):
        return False
    if isinstance(op, tpu.VectorStoreOp) and op.mask is not None:
        return False
    value = _before_renaming(op.operands[0])
    owner = value.owner
    if isinstance(owner, _NARROWING):
        source = owner.operands[0]
        return bit_width(source.type) == 32 and _is_spread(source)
    # Reductions within registers are computed in 32 bits, and narrowed afterwards.
    return _reduces_rows(owner) and bit_width(value.type) == 16


def _is_spread(value: SSAValue) -> bool:
    """Whether `value` is computed, by elementwise operations, from reductions over rows."""
    value = _before_renaming(value)
    owner = value.owner
    if _reduces_rows(owner):
        return True
    if not is_arithmetic(owner):
        return False
    vectors = [v for v in owner.operands if isinstance(v.type, VectorType)]
    others = [v for v in vectors if not is_one_value(v)]
    return bool(others) and all(
        bit_width(v.type) == 32 and v.type == value.type and _is_spread(v) for v in others
    )


def _reduces_rows(owner: object) -> bool:
    """Whether `owner` reduces the rows of matrices, but not their columns."""
    if not isinstance(owner, vector.MultiReductionOp):
        return False
    rank = len(shape_of(owner.source.type))
    dims = owner.reduction_dims.get_values()
    return rank >= 2 and rank - 2 in dims and rank - 1 not in dims


def _before_renaming(value: SSAValue) -> SSAValue:
    """The value that `value` is a reshape of, if that only adds or drops dimensions of size 1."""
    while isinstance(value.owner, _RENAMINGS):
        source = value.owner.operands[0]
        before, after = ([n for n in shape_of(v.type) if n != 1] for v in (source, value))
        if before != after:
            break
        value = source
    return value
