"""A model of the lane offsets of the TPU compiler: the lane in which the rows of a vector begin."""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import tpu, vector
from pallasite.dialects.arith import known_integer
from pallasite.dialects.types import shape_of
from pallasite.layouts.registers import LANES

_LOADS = (tpu.VectorLoadOp, vector.LoadOp)


def lane_offset(value: SSAValue) -> int:
    """The lane of its first register in which the rows of `value` begin (asked of libtpu 0.0.51).

    Loads keep the lane that memory has, slices add the column at which they cut, and elementwise
    operations keep that of their operands. Where it is not known, or operands differ, it is 0.
    """
    found: set[int] = set()
    seen: set[tuple[SSAValue, int]] = set()
    waiting = [(value, 0)]
    while waiting:
        here, shift = waiting.pop()
        if (here, shift) in seen:
            continue
        seen.add((here, shift))
        op = here.owner
        if isinstance(op, vector.ExtractStridedSliceOp):
            begins = [int(n.value.data) for n in op.offsets]
            ranked = isinstance(here.type, VectorType) and len(begins) == here.type.get_num_dims()
            waiting.append((op.operands[0], shift + begins[-1] if ranked else shift))
        elif isinstance(op, Operation) and op.dialect_name() in ("arith", "math"):
            waiting += [(v, shift) for v in op.operands if _lies_somewhere(v)]
        elif isinstance(op, vector.MultiReductionOp) and _keeps_lanes(op):
            waiting.append((op.source, shift))
        elif isinstance(op, vector.ShapeCastOp) and _keeps_rows(op):
            waiting.append((op.operands[0], shift))
        elif isinstance(op, _LOADS) and op.indices:
            found.add((known_integer(op.indices[-1]) or 0) + shift)
        else:
            found.add(shift)
    offsets = {offset % LANES for offset in found}
    return offsets.pop() if len(offsets) == 1 else 0


def _keeps_lanes(op: vector.MultiReductionOp) -> bool:
    """Whether `op` does not reduce the lanes."""
    return len(shape_of(op.source.type)) - 1 not in [int(d) for d in op.reduction_dims.get_values()]


def _keeps_rows(op: vector.ShapeCastOp) -> bool:
    """Whether `op` keeps the last dimension, of vectors of rank 2 or more."""
    old, new = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    return min(len(old), len(new)) > 1 and old[-1] == new[-1]


def _lies_somewhere(value: SSAValue) -> bool:
    """Whether `value` is a vector with a layout: constants and splats fit any."""
    if not isinstance(value.type, VectorType):
        return False
    op = value.owner
    if isinstance(op, vector.BroadcastOp):
        return isinstance(op.operands[0].type, VectorType)
    return not (isinstance(op, Operation) and op.name == "arith.constant")
