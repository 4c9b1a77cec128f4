"""A model of the vectors that the TPU compiler holds replicated over sublanes or lanes.

Where the elements of a vector are equal along the rows or the lanes of a register, the compiler's
layout may say so ("replicated"): one sublane or lane stands for all. Rules about reductions,
columns, branches and loops depend on it. `Replications` walks over a function once, in order, as
the compiler does. Asked of libtpu 0.0.51 for v4 to v7x, by reductions on which it fails and by some
700 loops that it refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pallasite.dialects import arith, func, scf, tpu, vector
from pallasite.dialects.types import bit_width, shape_of, splat_value
from pallasite.layouts.registers import LANES
from pallasite.passes.check_kernel.last_dimensions import LastDimensions, is_elementwise
from pallasite.targets import Target


class Replication(NamedTuple):
    """Whether a vector is replicated over the sublanes, and over the lanes.

    False says that it certainly varies, None that this is not known.
    """

    sublanes: bool | None
    lanes: bool | None


REPLICATED = Replication(True, True)
VARYING = Replication(False, False)
UNKNOWN = Replication(None, None)

_VARYING = (
    tpu.StridedLoadOp, tpu.MatmulOp, tpu.ConcatenateOp, tpu.RotateOp, tpu.DynamicRotateOp,
)  # fmt: skip
"""Operations whose result varies along all dimensions."""
_MOVED = (vector.MultiReductionOp, vector.TransposeOp, tpu.TransposeOp)
"""Operations whose result varies along all dimensions if the operand does."""


class Replications:
    """Which vectors of a function are replicated on `target`, found when it is first asked for.

    For the values that a loop carries, the compiler decides in two rounds over the body. The first
    assumes that they are replicated as their initial values are; in the second, those that were not
    at the end of the first are no longer.
    """

    def __init__(self, function: func.FuncOp, target: Target) -> None:
        self._function = function
        self._known: dict[SSAValue, Replication] = {}
        self._last = LastDimensions(self.of, target)
        self._walked = False

    def of(self, value: SSAValue) -> Replication:
        """How `value` is replicated; scalars are."""
        if not isinstance(value.type, VectorType):
            return REPLICATED
        if not self._walked:
            self._walked = True
            for block in self._function.body.blocks:
                self._walk(block)
        return self._known.get(value, UNKNOWN)

    def of_sizes(self, value: SSAValue) -> list[bool | None]:
        """What is known of those of the last two dimensions of `value` that have over 1 element."""
        sizes = shape_of(value.type)[-2:] if isinstance(value.type, VectorType) else ()
        known = self.of(value)[2 - len(sizes) :]
        return [same for size, same in zip(sizes, known, strict=True) if size > 1]

    def of_row(self, value: SSAValue) -> bool | None:
        """Whether `value`, if it has a single row, is replicated over the sublanes; else None."""
        return self.of(value).sublanes if _is_row(value) else None

    def _walk(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, scf.ForOp):
                self._walk_for(op)
            elif isinstance(op, scf.WhileOp):
                self._walk_while(op)
            elif op.regions:
                for inner in (b for region in op.regions for b in region.blocks):
                    self._walk(inner)
                if isinstance(op, scf.IfOp) and op.results:
                    ends = [region.block.last_op for region in op.regions]
                    yields = [self._all(end.operands) for end in ends if end is not None]
                    self._set(op.results, map(_joined, *yields))
                    self._last.branch(op)
            elif any(isinstance(result.type, VectorType) for result in op.results):
                found = self._of_operation(op)
                self._set(op.results, (found for _ in op.results))
                self._last.operation(op)

    def _walk_for(self, op: scf.ForOp) -> None:
        body = op.body.block
        carried, begun = body.args[1:], self._all(op.iter_args)
        ends = cast(scf.YieldOp, body.last_op).operands
        self._last.enter(carried, op.iter_args)
        if _any_replicated(carried, begun):
            self._set(carried, begun)
            self._walk(body)
            begun = list(map(_joined, begun, self._all(ends)))
        self._set(carried, begun)
        self._walk(body)
        self._set(op.results, begun)
        self._last.leave(op.results, op.iter_args, ends)

    def _walk_while(self, op: scf.WhileOp) -> None:
        before, after = op.before_region.block, op.after_region.block
        begun = self._all(op.arguments)
        condition, end = before.last_op, after.last_op
        assert isinstance(condition, scf.ConditionOp) and end is not None
        self._last.enter(before.args, op.arguments)
        for first in (True, False):
            if first and not _any_replicated(before.args, begun):
                continue
            self._set(before.args, begun)
            self._walk(before)
            self._set(after.args, self._all(condition.args))
            self._last.enter(after.args, condition.args)
            self._walk(after)
            if first:
                begun = list(map(_joined, begun, self._all(end.operands)))
        self._set(op.results, self._all(condition.args))
        if tuple(condition.args) == tuple(before.args):
            self._last.leave(op.results, op.arguments, end.operands)

    def _all(self, values: Iterable[SSAValue]) -> list[Replication]:
        return [self._known.get(value, UNKNOWN) for value in values]

    def _set(self, values: Iterable[SSAValue], found: Iterable[Replication]) -> None:
        self._known.update(zip(values, found, strict=True))

    def _of_operation(self, op: Operation) -> Replication:
        """How the result of `op`, which has no regions, is replicated."""
        if isinstance(op, vector.BroadcastOp):
            return self._of_broadcast(op.source, op.results[0])
        if isinstance(op, vector.ShapeCastOp) or _reduces_nothing(op):
            return self._of_reshape(op.operands[0], op.results[0])
        if isinstance(op, vector.ExtractStridedSliceOp):
            whole = op.operands[0]
            # A part of a broadcast is a smaller broadcast, and nothing is repeated for one row.
            if isinstance(whole.owner, vector.BroadcastOp):
                return self._of_broadcast(whole.owner.source, op.results[0])
            return self.of(whole)
        if isinstance(op, _MOVED):
            return Replication(*[self._varies(op.operands[0])] * 2)
        if isinstance(op, arith.ConstantOp):
            return UNKNOWN if splat_value(op.value) is None else REPLICATED
        if is_elementwise(op):
            found = REPLICATED
            for operand in op.operands:
                found = _joined(found, self.of(operand))
            return found
        return _of_source(op)

    def _varies(self, value: SSAValue) -> bool | None:
        """False if `value` varies along all dimensions, so that it does however it is moved."""
        return False if all(same is False for same in self.of_sizes(value)) else None

    def _of_broadcast(self, source: SSAValue, result: SSAValue) -> Replication:
        """Replicated over dimensions that the broadcast repeats, else as its operand is."""
        if not isinstance(source.type, VectorType):
            return REPLICATED
        known = self.of(source)
        old, new = ((1, 1, *shape_of(v.type))[-2:] for v in (source, result))
        rows, lanes = (size == 1 and wanted > 1 for size, wanted in zip(old, new, strict=True))
        return Replication(rows or known.sublanes, lanes or known.lanes)

    def _of_reshape(self, source: SSAValue, result: SSAValue) -> Replication:
        """How `result`, a reshape of `source`, is replicated.

        A dimension of size 1 that is put back where a reduction took one away is replicated. If the
        lanes become rows of one column, or leading dimensions, the column is replicated over the
        lanes, unless they had been a column before. Else the lanes keep what they have, and so do
        the rows if their number stays; a vector of rank 1 is one row.
        """
        old, new = shape_of(source.type), shape_of(result.type)
        moved = self._varies(source)
        if old[-1:] > (1,) and new[-2:] in ((old[-1], 1), (1, 1)):
            kept = new == (*old, 1, 1) and self._last.is_reduced(source, len(old))
            column = not kept and self._last.of(source) == "column"
            return Replication(kept or moved, moved if column else True)
        if new == (*old[:-1], 1, *old[-1:]) and self._last.is_reduced(source, len(old) - 1):
            return Replication(True, moved)
        if new == (*old, 1, 1) and self._last.is_reduced(source, len(old)):
            return REPLICATED
        if new == (*old, 1) and (reduced := _reduced_row(source)) is not None:
            # Maxima and sums are as the row was, indices of maxima never are.
            if isinstance(source.owner, tpu.ReduceIndexOp):
                return Replication(False, None)
            return Replication(self.of_row(reduced), True)
        if new == (*old, 1) and self._last.is_reduced(source, len(old)):
            return Replication(None, True)
        if old[-1:] != new[-1:]:
            return Replication(moved, moved)
        known, stay = self.of(source), (1, *old)[-2:] == (1, *new)[-2:]
        return Replication(known.sublanes if stay else moved, known.lanes)


def _reduces_nothing(op: Operation) -> bool:
    """Whether `op` is a reduction along dimensions of size 1, which only reshapes."""
    if not isinstance(op, vector.MultiReductionOp):
        return False
    return all(shape_of(op.source.type)[int(dim)] == 1 for dim in op.reduction_dims.get_values())


def _reduced_row(value: SSAValue) -> SSAValue | None:
    """The row whose lanes were reduced to `value`, None if it is something else."""
    op = value.owner
    if isinstance(op, tpu.ReduceIndexOp):
        dims, row = [op.axis.value.data], op.input
    elif isinstance(op, vector.MultiReductionOp):
        dims, row = [int(d) for d in op.reduction_dims.get_values()], op.source
    else:
        return None
    return row if _is_row(row) and dims == [len(shape_of(row.type)) - 1] else None


def _of_source(op: Operation) -> Replication:
    """How the result of `op`, whatever its operands are, is replicated."""
    if isinstance(op, tpu.IotaOp):
        rank = len(op.result.type.get_shape())
        along = [int(d) for d in op.dimensions.get_values()]
        return Replication(rank - 2 not in along, rank - 1 not in along)
    if isinstance(op, vector.LoadOp | tpu.VectorLoadOp):
        return Replication(_loads_one_row(op), False)
    return VARYING if isinstance(op, _VARYING) else UNKNOWN


def _is_row(value: SSAValue) -> bool:
    """Whether `value` is a vector with one row."""
    return isinstance(value.type, VectorType) and shape_of(value.type)[-2:-1] == (1,)


def _loads_one_row(op: vector.LoadOp | tpu.VectorLoadOp) -> bool:
    """Whether a load replicates its row over the sublanes: one row of at most 128 words."""
    held = cast("MemRefType[Attribute]", op.operands[0].type)
    row = _is_row(op.results[0]) and shape_of(op.results[0].type)[-1] <= LANES
    return row and bit_width(held) == 32


def _joined(one: Replication, other: Replication) -> Replication:
    """How a value is replicated that may be either of two; also the result of an operation."""
    return Replication(*map(_both, one, other))


def _both(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def _any_replicated(carried: Sequence[SSAValue], begun: Sequence[Replication]) -> bool:
    """Whether any carried vector begins replicated: else a first round shows nothing."""
    return any(
        isinstance(value.type, VectorType) and True in known
        for value, known in zip(carried, begun, strict=True)
    )
