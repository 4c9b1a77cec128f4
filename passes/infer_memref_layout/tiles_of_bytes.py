"""Chooses the tiles of elements of at most 8 bits in arrays outside VMEM.

The TPU compiler tiles bytes by 32 rows where 32 divides them, and the arrays of windows by what
divides their blocks (asked of libtpu 0.0.51). Tiles of 8 rows serve most transfers; the larger ones
are chosen where a slice cuts the smaller ones.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.types import bit_width
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.layouts.tiling import Tiling, packed_tiling
from pallasite.passes.divisibility import remainder
from pallasite.passes.reference_tiles import VIEWS


def for_parts(value: SSAValue, tiling: Tiling) -> Tiling:
    """`tiling` of the array `value`, or larger tiles where slices of it cut those of `tiling`."""
    kind = cast(MemRefType[Attribute], value.type)
    shape, bits = kind.get_shape(), bit_width(kind)
    large = SUBLANES * packing(bits)
    if bits > 8 or len(shape) < 2 or shape[-1] <= LANES or shape[-2] % large:
        return tiling
    if tiling.first[0] >= large or not _cut(value, tiling.first[0]):
        return tiling
    return packed_tiling(shape, (large, LANES), bits)


def _cut(view: SSAValue, tile: int) -> bool:
    """Whether a slice of `view`, or of a view of it, cuts its tiles of `tile` rows."""
    for use in view.uses:
        op = use.operation
        if not isinstance(op, VIEWS) or not isinstance(op.results[0].type, MemRefType):
            continue
        seen, rows = op.results[0], tile
        kind = cast(MemRefType[Attribute], seen.type)
        if len(kind.get_shape()) < 2:
            continue
        if isinstance(op, tpu.MemrefSliceOp):
            size, held = kind.get_shape()[-2], op.mem_ref.type.get_shape()[-2]
            known = size not in (DYNAMIC_INDEX, held)
            if known and (size % tile or remainder(op.base_idx[-2], tile) != 0):
                return True
        elif isinstance(op, tpu.MemrefBitcastOp):
            rows = tile * bit_width(op.input.type) // bit_width(kind)
        if _cut(seen, max(rows, 1)):
            return True
    return False
