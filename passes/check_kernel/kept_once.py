"""Which vectors the TPU compiler keeps once for all rows or lanes of a register.

Asked of libtpu 0.0.51 for v4, v5e, v6e and v7x, by reductions that it fails on.
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
"""Whether a vector is kept once for all rows of a register, and for all of its lanes."""

Turned = Literal["splat", "row", "once", "column"]
"""Where a last dimension lies: in lanes, in rows once for all lanes, or in rows of one lane."""

_CONVERSIONS = (tpu.SitofpOp, tpu.FptosiOp, tpu.ExtfOp, tpu.TruncfOp, tpu.BitcastOp)


def kept_once(value: SSAValue, depth: int = 16) -> Once:
    """How `value` is kept; what is not known is kept row by row and lane by lane."""
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
    """How what is made of values that are kept so is kept."""
    rows, lanes = zip(*found, strict=True)
    return all(rows), all(lanes)


def _of_carried(argument: BlockArgument, depth: int) -> Once:
    """What a loop carries is kept as it begins."""
    loop, first = argument.owner.parent_op(), carried_from(argument)
    if isinstance(loop, scf.WhileOp) and _hands_on(loop):
        first = loop.arguments[argument.index]
    return (False, False) if first is None else kept_once(first, depth - 1)


def _hands_on(loop: scf.WhileOp) -> bool:
    """Whether `loop` goes on with all that it carries, and ends with it, as those of JAX do."""
    before = loop.before_region.block
    end = before.last_op
    return isinstance(end, scf.ConditionOp) and tuple(end.args) == tuple(before.args)


def _of_broadcast(op: vector.BroadcastOp, depth: int) -> Once:
    """Dimensions that it repeats are kept once, the others as before."""
    source = op.operands[0]
    if not isinstance(source.type, VectorType):
        return True, True
    rows, lanes = kept_once(source, depth - 1)
    old = (1, 1, *cast(AnyVector, source.type).get_shape())[-2:]
    new = cast(AnyVector, op.results[0].type).get_shape()[-2:]
    repeated = [size == 1 and wanted > 1 for size, wanted in zip(old, new, strict=True)]
    return rows or repeated[0], lanes or repeated[1]


def _of_reshape(op: vector.ShapeCastOp, depth: int) -> Once:
    """Where a reduction has taken rows or lanes, one is put back for all; lanes that become rows
    have one for all, but those that were rows before; so have those that become leading ones. Else
    lanes stay, and rows if they are as many."""
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
    """Where the last dimension of `value` lies, which is to become rows of columns."""
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
        # Lanes that the broadcast makes are those of no column.
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
    """Elementwise operations, and loops, lay all out as the first that varies."""
    varying: list[tuple[SSAValue, Turned]] = []
    for value in values:
        if (kind := _turned(value, depth - 1)) != "splat":
            varying.append((value, kind))
    if not varying or varying[0][1] == "row":
        return "row" if varying else "splat"
    # A row comes to a column's place with what it has in its rows.
    rows = [kept_once(v, depth - 1)[0] for v, kind in varying if kind == "row"]
    own = bool(rows) or any(kind == "column" for _, kind in varying)
    return "column" if own and not any(rows) else "once"


def _turned_by_branches(values: list[SSAValue], depth: int) -> Turned:
    """Branches keep columns where all have them in one lane."""
    kinds = [_turned(v, depth - 1) for v in values]
    lanes = {_column_lane(v, depth) for v, k in zip(values, kinds, strict=True) if k == "column"}
    if "row" in kinds or len(lanes) > 1:
        return "row"
    return "column" if lanes else "once" if "once" in kinds else "splat"


def _column_lane(value: SSAValue, depth: int) -> int:
    """The lane of the column that `value` is computed from first."""
    op = value.owner
    if isinstance(op, vector.ShapeCastOp) and shape_of(op.operands[0].type)[-1:] == (1,):
        return lane_offset(op.operands[0])
    values = op.operands if isinstance(op, Operation) and not op.regions else ways_to(value)
    column = next((v for v in values if _turned(v, depth - 1) == "column"), None) if depth else None
    return 0 if column is None else _column_lane(column, depth - 1)


def _turned_by_reshape(op: vector.ShapeCastOp, depth: int) -> Turned:
    """Columns whose lanes are taken away stay; what keeps its last dimension lies as before."""
    source = op.operands[0]
    old, new = shape_of(source.type), shape_of(op.results[0].type)
    if old[-1:] == (1,) and old[-2:-1] == new[-1:] and len(old) > 1 and new[-1] > 1:
        if kept_once(source, depth - 1)[1]:
            return "once"
        return "column"
    return _turned(source, depth - 1) if old[-1:] == new[-1:] else "row"


def _has_lost(value: SSAValue, dim: int, depth: int) -> bool:
    """Whether `value` is computed, element by element, from what a reduction took `dim` from, or
    a reshape the one row of all."""
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
    """Whether the one row that is loaded comes to all rows of a register, as one of words does."""
    shape, held = shape_of(op.results[0].type), cast("MemRefType[Attribute]", op.operands[0].type)
    words = bit_width(held) == 32 and tiling_of(held) is None
    return words and shape[-2:-1] == (1,) and shape[-1] <= LANES
