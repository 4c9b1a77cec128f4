"""Refuses loops that carry a vector which starts replicated and becomes varying too late.

The TPU compiler keeps a vector whose elements are equal along the sublanes or lanes replicated: one
sublane or lane stands for all. For the values that a loop carries, it decides this in two rounds
over the body. The first assumes that carried values are replicated as their initial values are; in
the second, values that were not replicated at the end of the first are no longer. A value that
varies only at the end of the second round, such as `a` in

    a, b = zeros, zeros;  for ...: a, b = b, x

gets a replicated layout that it does not fit (`Invalid relayout: ... replicated in destination`).

A loaded row of at most one register of words is replicated over the sublanes, too. A row of packed
elements, one cut out of a vector, and the result of an argmax are not (`Sublane broadcast`).
Results of rotations, concatenations and products count as varying, whatever their operands are.
Asked of libtpu 0.0.51 about some 700 loops of all shapes and element types on v4 to v7x. Our own
lowering has no such restriction, so `--allow-beyond-reference` lifts the refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Block, Operation, SSAValue

from pallasite.dialects import arith, func, scf, tpu, vector
from pallasite.dialects.in_words import in_words
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import AnyVector, bit_width, splat_value
from pallasite.dialects.walking import of_kind
from pallasite.layouts.registers import LANES

Same = tuple[bool | None, bool | None]
"""Whether a vector is replicated over the sublanes, and over the lanes; None where not known."""

_ONCE, _VARYING, _UNKNOWN = (True, True), (False, False), (None, None)
_MADE = (
    tpu.StridedLoadOp, tpu.MatmulOp, tpu.ConcatenateOp, tpu.RotateOp, tpu.DynamicRotateOp,
)  # fmt: skip
"""Operations whose result varies along all dimensions."""
_MOVED = (
    vector.ShapeCastOp, vector.MultiReductionOp, vector.ExtractStridedSliceOp,
    vector.TransposeOp, tpu.TransposeOp, tpu.BitcastOp,
)  # fmt: skip
"""Operations whose result varies along all dimensions if the operand does."""


def check_carried_splats(function: func.FuncOp) -> None:
    """Raises `Unsupported` for a loop that carries such a vector."""
    loops = of_kind(function, scf.ForOp, scf.WhileOp)
    if any(isinstance(result.type, VectorType) for loop in loops for result in loop.results):
        for block in function.body.blocks:
            _Places().block(block, final=True)


class _Places:
    """Which vectors of a function are replicated, found by walking over its operations in order."""

    def __init__(self) -> None:
        self.same: dict[SSAValue, Same] = {}

    def block(self, block: Block, *, final: bool) -> None:
        """Walks over `block`; `final` in the second round of all loops around it, where loops are
        judged."""
        for op in block.ops:
            if isinstance(op, scf.ForOp):
                self._for(op, final=final)
            elif isinstance(op, scf.WhileOp):
                self._while(op, final=final)
            elif op.regions:
                for inner in (b for region in op.regions for b in region.blocks):
                    self.block(inner, final=final)
                if isinstance(op, scf.IfOp) and op.results:
                    ends = [region.block.last_op for region in op.regions]
                    yields = [self._all(end.operands) for end in ends if end is not None]
                    self._set(op.results, map(_joined, *yields))
            else:
                self._set(op.results, (self._of(op) for _ in op.results))

    def _for(self, op: scf.ForOp, *, final: bool) -> None:
        body = op.body.block
        carried, begun = body.args[1:], self._all(op.iter_args)
        end = cast(scf.YieldOp, body.last_op)
        if _any_once(carried, begun):
            self._set(carried, begun)
            self.block(body, final=False)
            begun = list(map(_joined, begun, self._all(end.operands)))
        self._set(carried, begun)
        self.block(body, final=final)
        self._set(op.results, begun)
        if final:
            self._judge(op, carried, end.operands)

    def _while(self, op: scf.WhileOp, *, final: bool) -> None:
        before, after = op.before_region.block, op.after_region.block
        begun = self._all(op.arguments)
        condition, end = before.last_op, after.last_op
        assert isinstance(condition, scf.ConditionOp) and end is not None
        for last in (False, True):
            if not last and not _any_once(before.args, begun):
                continue
            self._set(before.args, begun)
            self.block(before, final=final and last)
            self._set(after.args, self._all(condition.args))
            self.block(after, final=final and last)
            if not last:
                begun = list(map(_joined, begun, self._all(end.operands)))
        self._set(op.results, self._all(condition.args))
        if final:
            self._judge(op, before.args, end.operands)

    def _judge(self, op: Operation, carried: Sequence[SSAValue], ends: Sequence[SSAValue]) -> None:
        for argument, end in zip(carried, ends, strict=True):
            if self._of_row(argument) is True and self._of_row(end) is False:
                raise refusal(
                    op, "carried-splat", f"{in_words(op)} carries a {argument.type} that is "
                    "kept for "
                    "all rows of a register at first and in one of them from the third turn on",
                    "the TPU compiler looks for the place of a carried vector two turns ahead: "
                    "what is one row for all by then does not become a row of its own",
                    "carry 8 equal rows, jnp.broadcast_to(x, (8, n)), or rows of more than "
                    f"{LANES} elements",
                )  # fmt: skip
            kept, found = self._of_dims(argument), self._of_dims(end)
            if any(a is True and b is False for a, b in zip(kept, found, strict=True)):
                raise refusal(
                    op, "carried-splat", f"{in_words(op)} carries a {argument.type} whose "
                    "elements are "
                    "one number at first and differ from the third turn on",
                    "the TPU compiler looks for the place of a carried vector two turns ahead: "
                    "what is one element for all by then has no room for more",
                    "begin with a vector that is loaded: fill a scratch buffer with the constant "
                    "and read it before the loop, or carry the vectors in one array",
                )  # fmt: skip

    def _of_dims(self, value: SSAValue) -> list[bool | None]:
        """What is known of those of the last two dimensions of `value` that have over 1 element."""
        if not isinstance(value.type, VectorType):
            return []
        sizes = cast(AnyVector, value.type).get_shape()[-2:]
        known = self.same.get(value, _UNKNOWN)[2 - len(sizes) :]
        return [same for size, same in zip(sizes, known, strict=True) if size > 1]

    def _of_row(self, value: SSAValue) -> bool | None:
        """Whether `value`, if it has a single row, is replicated over the sublanes; else None."""
        return self.same.get(value, _UNKNOWN)[0] if _is_row(value) else None

    def _all(self, values: Iterable[SSAValue]) -> list[Same]:
        return [self.same.get(value, _UNKNOWN) for value in values]

    def _set(self, values: Iterable[SSAValue], places: Iterable[Same]) -> None:
        self.same.update(zip(values, places, strict=True))

    def _of(self, op: Operation) -> Same:
        """How the result of `op`, which has no regions, is replicated."""
        vectors = [v for v in op.operands if isinstance(v.type, VectorType)]
        if isinstance(op, arith.ConstantOp):
            return _UNKNOWN if splat_value(op.value) is None else _ONCE
        if isinstance(op, vector.BroadcastOp):
            return self._of_broadcast(op) if vectors else _ONCE
        if isinstance(op, tpu.IotaOp):
            rank = len(op.result.type.get_shape())
            along = [int(d) for d in op.dimensions.get_values()]
            return rank - 2 not in along, rank - 1 not in along
        if isinstance(op, vector.LoadOp | tpu.VectorLoadOp):
            return _loads_one_row(op.results[0]), False
        if isinstance(op, _MADE):
            return _VARYING
        if isinstance(op, _MOVED):
            sources = vectors[:1] if isinstance(op, vector.MultiReductionOp) else vectors
            varying = all(same is False for v in sources for same in self._of_dims(v))
            rows, lanes = _VARYING if varying else _UNKNOWN
            return (self._of_moved_row(op) if _is_row(op.results[0]) else rows), lanes
        if op.dialect_name() in ("arith", "math") and vectors:
            place = _ONCE
            for known in self._all(vectors):
                place = _joined(place, known)
            return place
        return _UNKNOWN

    def _of_broadcast(self, op: vector.BroadcastOp) -> Same:
        """Replicated over dimensions that the broadcast adds or repeats, else as the operand is."""
        source = op.operands[0]
        sizes = (1, 1, *cast(AnyVector, source.type).get_shape())[-2:]
        rows, lanes = self.same.get(source, _UNKNOWN)
        if _is_row(op.results[0]):
            return self._of_row(source), sizes[1] == 1 or lanes
        return sizes[0] == 1 or rows, sizes[1] == 1 or lanes

    def _of_moved_row(self, op: Operation) -> bool | None:
        """Whether a single row that `op` makes is replicated over the sublanes.

        It may be a slice of a vector, which is as the vector; or a reduction of a row along its
        lanes, reshaped to a row: maxima and sums are as the row was, indices of maxima never are.
        """
        source = op.operands[0]
        if isinstance(op, vector.ExtractStridedSliceOp):
            whole = self.same.get(source, _UNKNOWN)[0]
            return None if whole and _is_row(source) else whole
        reduction = source.owner
        if not isinstance(op, vector.ShapeCastOp) or not isinstance(reduction, Operation):
            return None
        if isinstance(reduction, tpu.ReduceIndexOp):
            dims, row = [reduction.axis.value.data], reduction.input
        elif isinstance(reduction, vector.MultiReductionOp):
            dims, row = list(reduction.reduction_dims.get_values()), reduction.source
        else:
            return None
        if not _is_row(row) or dims != [len(cast(AnyVector, row.type).get_shape()) - 1]:
            return None
        return False if isinstance(reduction, tpu.ReduceIndexOp) else self._of_row(row)


def _is_row(value: SSAValue) -> bool:
    """Whether `value` is a vector with one row."""
    kind = value.type
    return isinstance(kind, VectorType) and cast(AnyVector, kind).get_shape()[-2:-1] == (1,)


def _loads_one_row(loaded: SSAValue) -> bool:
    """Whether a load replicates its row over the sublanes: one row of at most 128 words."""
    shape = cast(AnyVector, loaded.type).get_shape()
    return _is_row(loaded) and shape[-1] <= LANES and bit_width(loaded.type) == 32


def _joined(one: Same, other: Same) -> Same:
    """How a value is replicated that may be either of two; also the result of an operation."""
    return _both(one[0], other[0]), _both(one[1], other[1])


def _both(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def _any_once(carried: Iterable[SSAValue], places: Iterable[Same]) -> bool:
    """Whether any carried vector starts replicated: else a first round shows nothing."""
    return any(
        isinstance(value.type, VectorType) and True in same
        for value, same in zip(carried, places, strict=True)
    )
