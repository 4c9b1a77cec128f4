"""A model of the vectors that the TPU compiler keeps replicated over sublanes or lanes.

Of a vector whose elements are equal along the rows or lanes of a register, the compiler keeps one
row or lane for all ("once"). Asked of libtpu 0.0.51 for v4, v5e, v6e and v7x, by reductions on
which it fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, cast

from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from pallasite.dialects import arith, scf, tpu, vector
from pallasite.dialects.types import AnyVector, bit_width, shape_of, splat_value, tiling_of
from pallasite.layouts.registers import LANES
from pallasite.passes.check_kernel.lane_offsets import lane_offset
from pallasite.passes.check_kernel.ways import carried_from, ways_to

Once = tuple[bool, bool]
"""Whether a vector is replicated over the rows of a register, and over its lanes."""

Turned = Literal["splat", "row", "once", "column"]
"""Along what the last dimension of a vector lies: `row` along lanes, `once` along sublanes and
replicated over the lanes, `column` along sublanes in a single lane; a `splat` fits any of them."""

_CONVERSIONS = (tpu.SitofpOp, tpu.FptosiOp, tpu.ExtfOp, tpu.TruncfOp, tpu.BitcastOp)


def kept_once(value: SSAValue, depth: int = 16) -> Once:
    """How `value` is replicated; not at all where that is not known. Looks through at most `depth`
    operations in a row."""
    op = value.owner
    if not isinstance(value.type, VectorType):
        return True, True
    if not depth:
        return False, False
    if isinstance(op, scf.ForOp | scf.IfOp):
        return _both(kept_once(v, depth - 1) for v in ways_to(value))
    if isinstance(op, scf.WhileOp) and _hands_on(op):
        index, end = cast(OpResult, value).index, cast(Operation, op.after_region.block.last_op)
        return _both(kept_once(v[index], depth - 1) for v in (op.arguments, end.operands))
    if not isinstance(op, Operation):
        return _of_carried(cast(BlockArgument, value), depth)
    shape = cast(AnyVector, value.type).get_shape()
    if isinstance(op, arith.ConstantOp):
        once = splat_value(op.value) is not None
        return once, once
    if isinstance(op, tpu.IotaOp):
        along = [int(d) for d in op.dimensions.get_values()]
        return len(shape) - 2 not in along, len(shape) - 1 not in along
    if isinstance(op, vector.LoadOp | tpu.VectorLoadOp):
        return _keeps_one_row(op), False
    if isinstance(op, vector.BroadcastOp):
        return _of_broadcast(op, depth)
    if isinstance(op, vector.ShapeCastOp):
        return _of_reshape(op, depth)
    if isinstance(op, vector.ExtractStridedSliceOp):
        return kept_once(op.operands[0], depth - 1)
    if op.dialect_name() in ("arith", "math") or isinstance(op, _CONVERSIONS):
        return _both(kept_once(operand, depth - 1) for operand in op.operands)
    return False, False


def _both(found: Iterable[Once]) -> Once:
    """How a value computed from values with these is replicated: as all of them are."""
    rows, lanes = zip(*found, strict=True)
    return all(rows), all(lanes)


def _of_carried(argument: BlockArgument, depth: int) -> Once:
    """A value that a loop carries is replicated as its initial value is."""
    loop, first = argument.owner.parent_op(), carried_from(argument)
    if isinstance(loop, scf.WhileOp) and _hands_on(loop):
        first = loop.arguments[argument.index]
    return (False, False) if first is None else kept_once(first, depth - 1)


def _hands_on(loop: scf.WhileOp) -> bool:
    """Whether the condition of `loop` passes its arguments on unchanged, as in JAX's loops."""
    before = loop.before_region.block
    end = before.last_op
    return isinstance(end, scf.ConditionOp) and tuple(end.args) == tuple(before.args)


def _of_broadcast(op: vector.BroadcastOp, depth: int) -> Once:
    """Replicated over dimensions that the broadcast repeats, else as the operand is."""
    source = op.operands[0]
    if not isinstance(source.type, VectorType):
        return True, True
    rows, lanes = kept_once(source, depth - 1)
    old = (1, 1, *cast(AnyVector, source.type).get_shape())[-2:]
    new = cast(AnyVector, op.results[0].type).get_shape()[-2:]
    repeated = [size == 1 and wanted > 1 for size, wanted in zip(old, new, strict=True)]
    return rows or repeated[0], lanes or repeated[1]


def _of_reshape(op: vector.ShapeCastOp, depth: int) -> Once:
    """How the result of a reshape is replicated.

    A dimension of size 1 that is put back where a reduction took one away is replicated. If the
    lanes become rows of one column, or leading dimensions, the column is replicated over the lanes,
    unless they had been a column before. Else the lanes keep what they have, and so do the rows if
    their number stays.
    """
    source = op.operands[0]
    old, new = (cast(AnyVector, v.type).get_shape() for v in (source, op.results[0]))
    if new[-2:] == (old[-1], 1) and old[-1] > 1:
        return False, _turned(source, depth) != "column"
    if new == (*old[:-1], 1, *old[-1:]) and _has_lost(source, len(old) - 1, depth):
        return True, False
    if new == (*old, 1) and _has_lost(source, len(old), depth):
        return False, True
    if new == (*old, 1, 1) and _has_lost(source, len(old), depth):
        return True, True
    if new[-2:] == (1, 1) and old[-1] > 1:
        return False, _turned(source, depth) != "column"
    if old[-1:] != new[-1:]:
        return False, False
    rows, lanes = kept_once(source, depth - 1)
    return rows and old[-2:] == new[-2:], lanes


def _turned(value: SSAValue, depth: int) -> Turned:
    """Along what the last dimension of `value` lies, which a reshape makes the rows of a column."""
    op, kind = value.owner, value.type
    if not isinstance(kind, VectorType):
        return "splat"
    if isinstance(op, arith.ConstantOp):
        return "row" if splat_value(op.value) is None else "splat"
    if not depth:
        return "row"
    if isinstance(op, vector.ShapeCastOp):
        return _turned_by_reshape(op, depth)
    if isinstance(op, vector.MultiReductionOp):
        lanes = len(shape_of(op.operands[0].type)) - 1
        return "once" if lanes in [int(d) for d in op.reduction_dims.get_values()] else "row"
    if isinstance(op, vector.ExtractStridedSliceOp):
        return _turned(op.operands[0], depth - 1)
    if isinstance(op, vector.BroadcastOp):
        source = op.operands[0]
        if not isinstance(source.type, VectorType):
            return "splat"
        # A last dimension that the broadcast adds or repeats lies along lanes.
        same = shape_of(source.type)[-1:] == shape_of(kind)[-1:]
        return _turned(source, depth - 1) if same else "row"
    if isinstance(op, scf.IfOp):
        return _turned_by_branches(ways_to(value), depth)
    if isinstance(op, scf.ForOp):
        return _turned_together(ways_to(value), depth)
    if isinstance(op, scf.WhileOp) and _hands_on(op):
        index, end = cast(OpResult, value).index, cast(Operation, op.after_region.block.last_op)
        return _turned_together([v[index] for v in (op.arguments, end.operands)], depth)
    if not isinstance(op, Operation):
        argument = cast(BlockArgument, value)
        loop, first = argument.owner.parent_op(), carried_from(argument)
        if isinstance(loop, scf.WhileOp) and _hands_on(loop):
            first = loop.arguments[argument.index]
        return "row" if first is None else _turned(first, depth - 1)
    if op.dialect_name() in ("arith", "math") or isinstance(op, _CONVERSIONS):
        return _turned_together(op.operands, depth)
    return "row"


def _turned_together(values: Iterable[SSAValue], depth: int) -> Turned:
    """`_turned` of what is computed from `values`, or is one of them in a loop: the first value
    that is no splat decides."""
    varying: list[tuple[SSAValue, Turned]] = []
    for value in values:
        if (kind := _turned(value, depth - 1)) != "splat":
            varying.append((value, kind))
    if not varying or varying[0][1] == "row":
        return "row" if varying else "splat"
    # A row that is moved to sublanes brings what its rows have: copies, or a single column.
    rows = [kept_once(v, depth - 1)[0] for v, kind in varying if kind == "row"]
    own = bool(rows) or any(kind == "column" for _, kind in varying)
    return "column" if own and not any(rows) else "once"


def _turned_by_branches(values: list[SSAValue], depth: int) -> Turned:
    """`_turned` of a result of branches that yield `values`: a column if all are in one lane."""
    kinds = [_turned(v, depth - 1) for v in values]
    lanes = {_column_lane(v, depth) for v, k in zip(values, kinds, strict=True) if k == "column"}
    if "row" in kinds or len(lanes) > 1:
        return "row"
    return "column" if lanes else "once" if "once" in kinds else "splat"


def _column_lane(value: SSAValue, depth: int) -> int:
    """The lane of the first column from which `value` is computed."""
    op = value.owner
    if isinstance(op, vector.ShapeCastOp) and shape_of(op.operands[0].type)[-1:] == (1,):
        return lane_offset(op.operands[0])
    values = op.operands if isinstance(op, Operation) and not op.regions else ways_to(value)
    column = next((v for v in values if _turned(v, depth - 1) == "column"), None) if depth else None
    return 0 if column is None else _column_lane(column, depth - 1)


def _turned_by_reshape(op: vector.ShapeCastOp, depth: int) -> Turned:
    """`_turned` of a reshape: Nx1 that becomes N lies along sublanes, and a last dimension that
    stays lies as before."""
    source = op.operands[0]
    old, new = shape_of(source.type), shape_of(op.results[0].type)
    if old[-1:] == (1,) and old[-2:-1] == new[-1:] and len(old) > 1 and new[-1] > 1:
        if kept_once(source, depth - 1)[1]:
            return "once"
        return "column"
    return _turned(source, depth - 1) if old[-1:] == new[-1:] else "row"


def _has_lost(value: SSAValue, dim: int, depth: int) -> bool:
    """Whether `value` comes, by elementwise operations, from a reduction over dimension `dim`, or
    from a reshape that dropped `dim`, a single replicated row."""
    op = value.owner
    if not isinstance(op, Operation) or not depth or not isinstance(value.type, VectorType):
        return False
    if isinstance(op, vector.MultiReductionOp):
        return dim in [int(d) for d in op.reduction_dims.get_values()]
    if isinstance(op, vector.ShapeCastOp):
        source = cast(AnyVector, op.operands[0].type).get_shape()
        taken = source == (*source[:dim], 1, *cast(AnyVector, value.type).get_shape()[dim:])
        return taken and dim == len(source) - 2 and kept_once(op.operands[0], depth - 1)[0]
    if op.dialect_name() not in ("arith", "math"):
        return False
    varying = [v for v in op.operands if not all(kept_once(v, depth - 1))]
    return bool(varying) and all(_has_lost(v, dim, depth - 1) for v in varying)


def _keeps_one_row(op: vector.LoadOp | tpu.VectorLoadOp) -> bool:
    """Whether a load replicates its row over the sublanes: one row of at most 128 words."""
    shape, held = shape_of(op.results[0].type), cast("MemRefType[Attribute]", op.operands[0].type)
    words = bit_width(held) == 32 and tiling_of(held) is None
    return words and shape[-2:-1] == (1,) and shape[-1] <= LANES
