"""Refuses moving vectors from sublanes into lanes, on targets that cannot.

A reduction over the last dimension leaves the last dimension of its result along the sublanes, or
across registers, where rows or matrices of its operand lay: a "column". Storing a column as the
last dimension, combining it with a vector along the lanes, or reducing, joining or transposing it
moves sublanes into lanes. For that the TPU compiler uses a gather along sublanes, which v4 does not
have (asked of libtpu 0.0.51). Our own lowering transposes instead, so `--allow-beyond-reference`
lifts the refusal.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.diagnostics import Unsupported
from pallasite.dialects import arith, func, scf, tpu, vector
from pallasite.dialects.arithmetic import is_arithmetic
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import AnyVector
from pallasite.dialects.walking import operations
from pallasite.passes.check_kernel.replication import Replications
from pallasite.passes.check_kernel.reshapes import joins_lanes, reshaped_from
from pallasite.targets import Target

_IN_LANES = (
    tpu.VectorStoreOp, vector.StoreOp, tpu.StridedStoreOp, vector.BroadcastOp,
    vector.MultiReductionOp, tpu.ReduceIndexOp, tpu.MatmulOp, tpu.ConcatenateOp,
    tpu.TransposeOp, vector.TransposeOp, tpu.RotateOp, tpu.DynamicRotateOp,
)  # fmt: skip
"""Operations that take the last dimension of an operand from lanes."""


def check_columns(function: func.FuncOp, target: Target, replications: Replications) -> None:
    """Raises `Unsupported` where `function` moves a column into lanes and `target` cannot."""
    if not target.sublane_gather:
        _Columns(target, replications).walk(function)


class _Columns:
    """The columns among the values of a function, and values that fit any layout."""

    def __init__(self, target: Target, replications: Replications) -> None:
        self.target = target
        self.replications = replications
        self.columns: set[SSAValue] = set()
        self.anywhere: set[SSAValue] = set()
        self.alike: set[SSAValue] = set()
        """Results of rows that are the same, once for all sublanes and lanes: they meet columns and
        others, but what a loop carries on from them lies as they do."""

    def walk(self, function: func.FuncOp) -> None:
        for op in operations(function):
            if isinstance(op, scf.ForOp):
                self._enter(op)
            elif isinstance(op, scf.YieldOp):
                self._leave(op)
            elif isinstance(op, _IN_LANES):
                if any(v in self.columns for v in op.operands):
                    raise _refused(op, self.target)
            if self._makes_column(op) or self._stays(op):
                self.columns.add(op.results[0])
            elif isinstance(op, vector.MultiReductionOp) and self._is_replicated_sum(op):
                self.alike.update(op.results)
            elif _elementwise(op):
                self._combine(op)

    def _stays(self, op: Operation) -> bool:
        """Whether `op` slices or reshapes a column and leaves it along the sublanes."""
        if isinstance(op, vector.ExtractStridedSliceOp):
            return op.operands[0] in self.columns
        if isinstance(op, vector.MultiReductionOp):
            return _reduces_nothing(op) and _restored(op) in self.columns
        if not isinstance(op, vector.ShapeCastOp):
            return False
        ends = cast(AnyVector, op.results[0].type).get_shape()[-1:]
        start = reshaped_from(op)
        return _restored(op) in self.columns or (start in self.columns and ends != (1,))

    def _combine(self, op: Operation) -> None:
        """Records an elementwise operation: on columns it gives a column; splats fit any layout.
        Refuses columns with others."""
        values = [v for v in op.operands if isinstance(v.type, VectorType) and not self._free(v)]
        alike = [v for v in values if v in self.alike]
        values = [v for v in values if v not in self.alike]
        if not values:
            (self.alike if alike else self.anywhere).update(op.results)
        elif any(v in self.columns for v in values):
            if not all(v in self.columns for v in values):
                raise _refused(op, self.target)
            self.columns.update(op.results)

    def _free(self, value: SSAValue) -> bool:
        return value in self.anywhere or _splat(value)

    def _enter(self, loop: scf.ForOp) -> None:
        """Gives the arguments of a loop the layouts of their initial values."""
        for argument, value in zip(loop.body.block.args[1:], loop.iter_args, strict=True):
            if value in self.columns:
                self.columns.add(argument)
            elif self._free(value):
                self.anywhere.add(argument)

    def _leave(self, end: scf.YieldOp) -> None:
        results = parent.results if (parent := end.parent_op()) else ()
        for value, result in zip(end.operands, results, strict=False):
            if value in self.columns:
                self.columns.add(result)

    def _makes_column(self, op: Operation) -> bool:
        """Whether the last dimension of the result of `op` lies along sublanes."""
        if isinstance(op, vector.MultiReductionOp):
            source, result = op.source.type, op.results[0].type
            if not isinstance(result, VectorType):
                return False
            rank = len(cast(AnyVector, source).get_shape())
            dims = [int(d) for d in op.reduction_dims.get_values()]
            spread = cast(AnyVector, result).get_shape()[-1] > 1
            restored = _reduces_nothing(op) and _restored(op) is not None
            return rank - 1 in dims and spread and not restored and not self._is_replicated_sum(op)
        if isinstance(op, tpu.ReduceIndexOp):
            shape = cast(AnyVector, op.operands[0].type).get_shape()
            return op.axis.value.data == len(shape) - 1 and shape[-2] > 1
        if isinstance(op, tpu.MatmulOp):
            # Matrices by vectors, and vectors by vectors, are a product and a sum over lanes.
            numbers = op.dimension_numbers
            columns = numbers is None or numbers.lists()[3]
            return not columns and cast(AnyVector, op.results[0].type).get_shape()[-1:] > (1,)
        if isinstance(op, vector.ShapeCastOp):
            # Reshapes that follow each other are one.
            start = reshaped_from(op)
            if start is None:
                return False
            source = list(cast(AnyVector, start.type).get_shape())
            result = list(cast(AnyVector, op.results[0].type).get_shape())
            column = len(source) > 1 and source[-1] == 1 and bool(result) and result[-1] > 1
            if source[:-1] == result and self.replications.of(start).sublanes:
                return False
            return column and not joins_lanes(source, result) and _restored(op) is None
        return False

    def _is_replicated_sum(self, op: vector.MultiReductionOp) -> bool:
        """Whether `op` reduces the lanes, and not the rows, of a vector that is replicated over the
        sublanes: its result is replicated, too."""
        dims = [int(d) for d in op.reduction_dims.get_values()]
        lanes = len(cast(AnyVector, op.source.type).get_shape()) - 1
        reduced = lanes in dims and lanes - 1 not in dims
        return reduced and self.replications.of(op.source).sublanes is True


def _restored(op: Operation) -> SSAValue | None:
    """The value that `op` restores by undoing reshapes, or by reducing dimensions of size 1; else
    None."""
    value = op.operands[0]
    while isinstance(before := value.owner, vector.ShapeCastOp):
        value = before.operands[0]
        if value.type == op.results[0].type:
            return value
    return None


def _reduces_nothing(op: vector.MultiReductionOp) -> bool:
    shape = cast(AnyVector, op.source.type).get_shape()
    return all(shape[int(d)] == 1 for d in op.reduction_dims.get_values())


def _elementwise(op: Operation) -> bool:
    return is_arithmetic(op) and bool(op.results)


def _splat(value: SSAValue) -> bool:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp):
        return True
    return isinstance(owner, vector.BroadcastOp) and not isinstance(
        owner.operands[0].type, VectorType
    )


def _refused(op: Operation, target: Target) -> Unsupported:
    return refusal(
        op,
        "sublane-gather",
        f"{target.name} cannot move a vector from sublanes into lanes",
        "a reduction over the last dimension, or a reshape that takes it apart, leaves its result "
        "along sublanes, and moving it into "
        f"lanes takes a gather along sublanes, which {target.name} does not have",
        "after a reduction, keep the reduced dimension (keepdims=True) and store the result as a "
        "column, or as a row if it is transposed: jnp.sum(x, 1, keepdims=True).T; take columns out "
        "as columns, x[:, i : i + 1], not x[:, i]",
        "what depends on positions only is counted along lanes anew: "
        "lax.broadcasted_iota(jnp.int32, (1, n), 1)",
    )
