"""Along what the last dimension of a vector lies in the layouts of the TPU compiler.

It lies along the lanes, or along the sublanes after a reduction of what followed it. Reshapes that
make it the rows of a column take it from there (`Replications`, which asks about each operation in
order). Asked of libtpu 0.0.51 for v4 to v7x.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, scf, tpu, vector
from pallasite.dialects.arithmetic import is_arithmetic
from pallasite.dialects.types import shape_of, splat_value
from pallasite.passes.check_kernel.arriving_values import values_arriving_in
from pallasite.passes.check_kernel.lane_offsets import LaneOffsets
from pallasite.targets import Target

Along = Literal["splat", "lanes", "replicated", "column"]
"""`lanes`; `replicated`: along sublanes, and replicated over the lanes; `column`: along sublanes in
a single lane. A `splat` fits any of them."""

_CONVERSIONS = (tpu.SitofpOp, tpu.FptosiOp, tpu.ExtfOp, tpu.TruncfOp, tpu.BitcastOp)


class LastDimensions:
    """Along what the last dimensions of vectors lie.

    `replication` gives how a value is replicated over sublanes and lanes. It, and these methods,
    are called for the operations of a function in order.
    """

    def __init__(
        self, replication: Callable[[SSAValue], Sequence[bool | None]], target: Target
    ) -> None:
        self._replication = replication
        self._offsets = LaneOffsets(target)
        self._known: dict[SSAValue, Along] = {}
        self._reduced: dict[SSAValue, frozenset[int]] = {}

    def of(self, value: SSAValue) -> Along:
        """Along what the last dimension of `value` lies; lanes where that is not known."""
        return self._known.get(value, "lanes") if isinstance(value.type, VectorType) else "splat"

    def is_reduced(self, value: SSAValue, dim: int) -> bool:
        """Whether `value` comes, by elementwise operations, from a reduction over dimension `dim`,
        or from a reshape that dropped `dim`, a single replicated row."""
        return dim in self._reduced.get(value, ())

    def enter(self, arguments: Iterable[SSAValue], values: Iterable[SSAValue]) -> None:
        """Gives the arguments of a loop the layouts of their initial values."""
        for argument, value in zip(arguments, values, strict=True):
            self._known[argument] = self.of(value)

    def leave(
        self, results: Iterable[SSAValue], begun: Iterable[SSAValue], ends: Iterable[SSAValue]
    ) -> None:
        """Records the results of a loop: initial values, or what an iteration yields."""
        for result, value, end in zip(results, begun, ends, strict=True):
            self._known[result] = self._together((value, end))

    def branch(self, op: scf.IfOp) -> None:
        """Records the results of a branch: along the lanes, unless all columns are in one lane."""
        for result in op.results:
            values = values_arriving_in(result)
            found = [self.of(value) for value in values]
            columns = zip(values, found, strict=True)
            lanes = {self._column_lane(v) for v, along in columns if along == "column"}
            if "lanes" in found or len(lanes) > 1:
                self._known[result] = "lanes"
            elif lanes:
                self._known[result] = "column"
            else:
                self._known[result] = "replicated" if "replicated" in found else "splat"

    def operation(self, op: Operation) -> None:
        """Records the results of `op`, which has no regions."""
        self._known.update(dict.fromkeys(op.results, self._of_operation(op)))
        self._reduced.update(dict.fromkeys(op.results, self._reduced_by(op)))

    def _of_operation(self, op: Operation) -> Along:
        if isinstance(op, arith.ConstantOp):
            return "lanes" if splat_value(op.value) is None else "splat"
        if isinstance(op, vector.ShapeCastOp):
            return self._of_reshape(op)
        if isinstance(op, vector.MultiReductionOp):
            last = len(shape_of(op.source.type)) - 1
            return "replicated" if last in _reduced_dims(op) else "lanes"
        if isinstance(op, vector.ExtractStridedSliceOp):
            return self.of(op.operands[0])
        if isinstance(op, vector.BroadcastOp):
            source = op.operands[0]
            if not isinstance(source.type, VectorType):
                return "splat"
            # A last dimension that the broadcast adds or repeats lies along lanes.
            same = shape_of(source.type)[-1:] == shape_of(op.results[0].type)[-1:]
            return self.of(source) if same else "lanes"
        if is_elementwise(op):
            return self._together(op.operands)
        return "lanes"

    def _of_reshape(self, op: vector.ShapeCastOp) -> Along:
        """Nx1 that becomes N lies along sublanes; a last dimension that stays lies as before."""
        source = op.operands[0]
        old, new = shape_of(source.type), shape_of(op.results[0].type)
        if old[-1:] == (1,) and old[-2:-1] == new[-1:] and len(old) > 1 and new[-1] > 1:
            return "replicated" if self._replication(source)[1] else "column"
        return self.of(source) if old[-1:] == new[-1:] else "lanes"

    def _together(self, values: Iterable[SSAValue]) -> Along:
        """The layout of what is computed from `values`, or is one of them in a loop: the first
        value that is no splat decides."""
        varying = [value for value in values if self.of(value) != "splat"]
        if not varying or self.of(varying[0]) == "lanes":
            return "lanes" if varying else "splat"
        # A row that is moved to sublanes brings what its rows have: copies, or a single column.
        rows = [self._replication(v)[0] for v in varying if self.of(v) == "lanes"]
        own = bool(rows) or any(self.of(v) == "column" for v in varying)
        return "column" if own and not any(rows) else "replicated"

    def _column_lane(self, value: SSAValue) -> int:
        """The lane of the first column from which the column `value` is computed."""
        while True:
            op = value.owner
            if isinstance(op, vector.ShapeCastOp) and shape_of(op.operands[0].type)[-1:] == (1,):
                return self._offsets.of(op.operands[0]) or 0
            values = values_arriving_in(value)
            if isinstance(op, Operation) and not op.regions:
                values = list(op.operands)
            column = next((v for v in values if self.of(v) == "column"), None)
            if column is None:
                return 0
            value = column

    def _reduced_by(self, op: Operation) -> frozenset[int]:
        """The dimensions over which `op`, or what it is computed from, reduces."""
        if isinstance(op, vector.MultiReductionOp):
            # What has one element along a dimension is not changed by reducing it.
            shape = shape_of(op.source.type)
            return frozenset(dim for dim in _reduced_dims(op) if shape[dim] > 1)
        if isinstance(op, vector.ShapeCastOp):
            source, new = op.operands[0], shape_of(op.results[0].type)
            old = shape_of(source.type)
            dim = len(old) - 2
            dropped = dim >= 0 and old == (*old[:dim], 1, *new[dim:])
            return frozenset([dim] if dropped and self._replication(source)[0] else [])
        if not is_arithmetic(op):
            return frozenset()
        varying = [v for v in op.operands if not all(self._replication(v))]
        reduced = [self._reduced.get(v, frozenset[int]()) for v in varying]
        return frozenset[int].intersection(*reduced) if reduced else frozenset()


def is_elementwise(op: Operation) -> bool:
    """Whether the result of `op` lies as its operands do: of conversions, too."""
    return is_arithmetic(op) or isinstance(op, _CONVERSIONS)


def _reduced_dims(op: vector.MultiReductionOp) -> list[int]:
    return [int(d) for d in op.reduction_dims.get_values()]
