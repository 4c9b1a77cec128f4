"""A model of the lane offsets of the TPU compiler: the lane in which the rows of a vector begin.

A vector of rank 1 fills registers row by row, so its offset counts elements, and may lie beyond the
first tile, which is a row of 128 words. Asked of libtpu 0.0.51 for v4 to v7x, element by element.
"""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import scf, tpu, vector
from pallasite.dialects.arith import known_integer
from pallasite.dialects.arithmetic import is_arithmetic
from pallasite.dialects.types import bit_width, shape_of
from pallasite.dialects.vector_shapes import values_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.check_kernel.arriving_values import layout_source
from pallasite.passes.check_kernel.constants import is_constant
from pallasite.passes.check_kernel.demand import on_demand
from pallasite.passes.check_kernel.widening import through_words
from pallasite.targets import Target

_LOADS = (tpu.VectorLoadOp, vector.LoadOp)


class LaneOffsets:
    """The offsets of vectors on `target`, computed when they are asked for.

    * A load has the offset of its first element in a tile of the array.
    * A slice adds the index at which it cuts.
    * An elementwise operation has the offset of its operands; where those differ 0, but of rank 1
      that of the first. An offset beyond the first tile becomes 0. Constants fit any offset.
    * Reductions and reshapes that keep the lanes keep the offset.
    * A loop or branch gives vectors of rank 1 the offset of the value that decides their layout.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[SSAValue, int | None] = {}

    def of(self, value: SSAValue) -> int | None:
        """The offset of `value`; None for constants and where it is not known, which is 0 unless
        the rank is 1."""
        return on_demand(value, self._known, self._sources, self._find)

    def _sources(self, value: SSAValue) -> list[SSAValue]:
        """The values whose offsets decide that of `value`."""
        op = value.owner
        if is_constant(value) or isinstance(op, _LOADS):
            return []
        if isinstance(op, vector.MultiReductionOp):
            return [op.source] if _keeps_lanes(op) else []
        if _is_flat(value):
            source = self._source_of_flat(value)
            return [] if source is None or not _is_flat(source) else [source]
        if isinstance(op, vector.ExtractStridedSliceOp):
            return [op.operands[0]]
        if isinstance(op, vector.ShapeCastOp) and _keeps_rows(op):
            return [op.operands[0]]
        if is_arithmetic(op):
            return [v for v in op.operands if _has_offset(v)]
        return []

    def _source_of_flat(self, value: SSAValue) -> SSAValue | None:
        """The value whose offset decides that of `value`, of rank 1; a selection has that of its
        mask, and a mask that of the vectors compared."""
        op = value.owner
        if not isinstance(op, Operation) or isinstance(op, scf.ForOp | scf.IfOp):
            return layout_source(value)
        if isinstance(op, vector.ExtractStridedSliceOp):
            return op.operands[0]
        if not is_arithmetic(op) or through_words(op, self._target):
            return None
        vectors = [v for v in op.operands if isinstance(v.type, VectorType)]
        widths = {bit_width(v.type) for v in (*vectors, *op.results)} - {1}
        return next((v for v in vectors if not is_constant(v)), None) if len(widths) == 1 else None

    def _find(self, value: SSAValue) -> int | None:
        op, tile = value.owner, tile_lanes(value.type)
        if is_constant(value):
            return None
        if isinstance(op, _LOADS):
            start = known_integer(op.indices[-1]) if op.indices else 0
            return None if start is None else start % tile
        sources, flat = self._sources(value), _is_flat(value)
        if flat and all(_is_flat(v) and self._known[v] is None for v in sources):
            return None
        offsets = {self._known[source] or 0 for source in sources}
        offset = offsets.pop() if len(offsets) == 1 else 0
        if isinstance(op, vector.ExtractStridedSliceOp):
            cut = values_of(op.offsets)
            ranked = len(cut) == len(shape_of(value.type))
            return (offset + cut[-1] * ranked) % (SUBLANES * tile if flat else tile)
        # A branch takes what arrives as it is.
        return offset if isinstance(op, scf.IfOp) else in_first_tile(offset, tile)


def tile_lanes(kind: Attribute) -> int:
    """Elements along the lanes of a tile: a row of 128 words of a vector of rank 1, else 128."""
    return LANES * packing(bit_width(kind)) if len(shape_of(kind)) == 1 else LANES


def in_first_tile(offset: int, tile: int) -> int:
    """`offset`, or 0 if that is beyond the first tile."""
    return offset if offset < tile else 0


def _is_flat(value: SSAValue) -> bool:
    return len(shape_of(value.type)) == 1


def _keeps_lanes(op: vector.MultiReductionOp) -> bool:
    """Whether `op` does not reduce the lanes."""
    return len(shape_of(op.source.type)) - 1 not in [int(d) for d in op.reduction_dims.get_values()]


def _keeps_rows(op: vector.ShapeCastOp) -> bool:
    """Whether `op` keeps the last dimension, of vectors of rank 2 or more."""
    old, new = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    return min(len(old), len(new)) > 1 and old[-1] == new[-1]


def _has_offset(value: SSAValue) -> bool:
    """Whether `value` is a vector with an offset: constants and splats fit any."""
    if not isinstance(value.type, VectorType):
        return False
    op = value.owner
    if isinstance(op, vector.BroadcastOp):
        return isinstance(op.operands[0].type, VectorType)
    return not (isinstance(op, Operation) and op.name == "arith.constant")
