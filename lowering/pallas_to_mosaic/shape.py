"""Broadcasts: a reshape that puts the dimensions in their places, then a repetition.

    pallas.broadcast %x dims [0] : vector<8xf32> -> vector<8x128xf32>
becomes
    %y = vector.shape_cast %x : vector<8xf32> to vector<8x1xf32>
    vector.broadcast %y : vector<8x1xf32> to vector<8x128xf32>
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from pallasite.dialects import pallas, vector
from pallasite.dialects.pallas.base import integers_of
from pallasite.dialects.types import shape_of
from pallasite.lowering.pallas_to_mosaic.driver import Converter, rule


@rule(pallas.BroadcastOp)
def lower_broadcast(op: pallas.BroadcastOp, c: Converter) -> Sequence[SSAValue]:
    """Masks, too, are broadcast as they are."""
    value, result = op.value, op.result.type
    shape = shape_of(result)
    spread = [1] * len(shape)
    for dim, size in zip(integers_of(op.dims), shape_of(value.type), strict=True):
        spread[dim] = size
    value = c.reshape(value, spread)
    if tuple(spread) == shape:
        return [value]
    return [c.emit(vector.BroadcastOp(value, result))]
