"""Concatenations of which slices take parts, and those of equal values.

    %c = tpu.concatenate %x, %zeros in 1 : vector<4x128xi8>, vector<4x2xi8> -> vector<4x130xi8>
    %s = vector.extract_strided_slice %c {offsets = [0, 0], sizes = [4, 128], strides = [1, 1]}
is %x, so nothing is put together.

    %c = tpu.concatenate %x, %x in 1 : vector<32x1xf32>, vector<32x1xf32> -> vector<32x2xf32>
is a broadcast of %x: a value that is the same in all lanes need not be moved.
"""

from __future__ import annotations

from itertools import accumulate

from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from pallasite.dialects import tpu, vector
from pallasite.dialects.types import bit_width, element_type, shape_of
from pallasite.lowering.absorb_moves.memory import Box, box_of
from pallasite.passes.equal_values import equal_values
from pallasite.passes.insertion import insert_before


def slice_parts(op: vector.ExtractStridedSliceOp) -> None:
    """Replaces a slice of a concatenation by one of those operands that it takes something of, if
    it leaves some out."""
    whole, box = op.source.owner, box_of(op)
    if not isinstance(whole, tpu.ConcatenateOp) or box is None:
        return
    dim = whole.dimension.value.data
    first, last = box.offsets[dim], box.offsets[dim] + box.sizes[dim]
    sizes = [shape_of(v.type)[dim] for v in whole.sources]
    starts = accumulate(sizes, initial=0)
    kept = [
        (value, max(first - start, 0), min(last - start, size))
        for value, start, size in zip(whole.sources, starts, sizes, strict=False)
        if start < last and first < start + size
    ]
    if len(kept) == len(sizes) or (len(kept) > 1 and not whole.result.has_one_use()):
        return
    parts = [_cut(op, value, box, dim, low, high) for value, low, high in kept]
    joined = parts[0]
    if len(parts) > 1:
        joined = insert_before(
            tpu.ConcatenateOp.create(
                operands=parts, result_types=[op.result.type], properties=dict(whole.properties)
            ),
            op,
        )
    Rewriter.replace_op(op, (), (joined,))


def _cut(
    op: vector.ExtractStridedSliceOp, value: SSAValue, box: Box, dim: int, low: int, high: int
) -> SSAValue:
    """`value` from `low` up to `high` along `dim`, and as `box` says along the other dimensions."""
    offsets = tuple(low if d == dim else n for d, n in enumerate(box.offsets))
    sizes = tuple(high - low if d == dim else n for d, n in enumerate(box.sizes))
    if sizes == shape_of(value.type):
        return value
    return insert_before(vector.ExtractStridedSliceOp(value, offsets, sizes), op)


def repeat_by_broadcast(op: tpu.ConcatenateOp) -> None:
    """Replaces a concatenation of equal values of extent 1, other than masks, by a broadcast."""
    first, *others = op.sources
    if shape_of(first.type)[op.dimension.value.data] != 1:
        return
    kind = op.result.type
    if bit_width(element_type(kind)) == 1:
        return
    if all(equal_values(first, other) for other in others):
        Rewriter.replace_op(op, vector.BroadcastOp(first, kind))
