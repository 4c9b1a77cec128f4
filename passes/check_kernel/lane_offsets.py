"""In which lane of its first register a vector begins, as the TPU compiler lays it out."""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import tpu, vector
from pallasite.dialects.arith import known_integer
from pallasite.dialects.types import shape_of
from pallasite.layouts.registers import LANES

_LOADS = (tpu.VectorLoadOp, vector.LoadOp)


def lane_offset(value: SSAValue) -> int:
    """The lane in which rows of `value` begin: those of loads where memory has them, those of
    slices where they were, and elementwise operations leave them there (asked of libtpu 0.0.51).

    What is not known, as where operands differ, counts as the first lane.
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
    """Whether `op` reduces other dimensions than lanes."""
    return len(shape_of(op.source.type)) - 1 not in [int(d) for d in op.reduction_dims.get_values()]


def _keeps_rows(op: vector.ShapeCastOp) -> bool:
    """Whether `op` only changes what is in front of lanes, of vectors that have rows."""
    old, new = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    return min(len(old), len(new)) > 1 and old[-1] == new[-1]


def _lies_somewhere(value: SSAValue) -> bool:
    """Whether `value` is a vector that is not one element everywhere, which fits any layout."""
    if not isinstance(value.type, VectorType):
        return False
    op = value.owner
    if isinstance(op, vector.BroadcastOp):
        return isinstance(op.operands[0].type, VectorType)
    return not (isinstance(op, Operation) and op.name == "arith.constant")
