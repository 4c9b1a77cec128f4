"""Flat vectors that cross the borders of loops and branches.

Asked of libtpu 0.0.51 for v4, v5e and v6e, element by element: a one-dimensional vector lies as
memory holds it, or in the first sublane of registers where it was a row of something, or along
their sublanes where it was a column; one that was narrowed from 32-bit words keeps a word per
element. The compiler gives what `scf.for` and `scf.if` carry one place and fails (`Invalid input
layout`, or an abort) where another kind arrives; `scf.while` moves them, as our own lowering does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from xdsl.dialects.builtin import BFloat16Type, IntegerType, VectorType
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from pallasite.dialects import arith, scf, tpu, vector
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import AnyVector, bit_width
from pallasite.layouts.registers import LANES
from pallasite.targets import TARGETS, Target

PACKED, SPREAD, ROW, COLUMN = "packed", "one per word", "row", "column"
"""Where a flat vector lies."""

_BITWISE = (arith.AndIOp, arith.OrIOp, arith.XOrIOp)
_WIDENED = frozenset[str]().union(*(target.bf16_ops for target in TARGETS.values()))
"""Operations on bf16 that chips without them widen at once."""
_NARROWING = (
    arith.TruncFOp, arith.TruncIOp, arith.FPToSIOp, arith.FPToUIOp, arith.SIToFPOp, arith.UIToFPOp,
)  # fmt: skip
_SUMS = (arith.AddiOp, arith.SubiOp, arith.MuliOp)


def carried_flat(op: scf.ForOp | scf.IfOp, target: Target) -> None:
    """Refuses a loop or branch where flat vectors of different places meet in one value."""
    for result in op.results:
        kind = result.type
        if not isinstance(kind, VectorType):
            continue
        bits = bit_width(cast(AnyVector, kind))
        if len(kind.get_shape()) != 1 or bits == 1:
            continue
        places = {_place(value, target) for value in arriving(op, result.index)}
        if places >= {PACKED, SPREAD}:
            raise refusal(
                op, "carried-flat", f"{op.name} carries a one-dimensional {kind} that is loaded on "
                "one way and narrowed from 32-bit words on another",
                f"{32 // bits} elements share a word in the first and none in the second, and a "
                "carried vector has one place",
                "carry it in two dimensions, x.reshape(1, n), or as a 32-bit type",
            )  # fmt: skip
        if COLUMN not in places:
            # A row keeps its place when it is narrowed.
            places.discard(SPREAD)
        met = [said for place, said in _SAID.items() if place in places]
        if len(met) > 1:
            raise refusal(
                op, "carried-flat", f"{op.name} carries a one-dimensional {kind} that is "
                f"{met[0]} on one way and {met[1]} on another",
                "arrays of one dimension fill registers row by row as memory holds them, a row or "
                "column of more dimensions only part of each, and a carried vector has one place",
                "carry it in two dimensions, x.reshape(1, n)",
            )  # fmt: skip


_SAID = {
    PACKED: "laid out as memory holds it",
    ROW: "a row of more dimensions",
    COLUMN: "a column of more dimensions",
    SPREAD: "narrowed from 32-bit words",
}


def arriving(op: scf.ForOp | scf.IfOp, index: int) -> Iterable[SSAValue]:
    """What result `index` may be: the initial value and the values that the regions yield."""
    if isinstance(op, scf.ForOp):
        yield op.iter_args[index]
    for region in op.regions:
        for block in region.blocks:
            if isinstance(block.last_op, scf.YieldOp):
                yield block.last_op.operands[index]


def _place(value: SSAValue, target: Target) -> str | None:
    """Where a flat vector lies; None for constants, which lie anywhere, and what is not known."""
    while True:
        if isinstance(value, BlockArgument):
            following = carried_from(value)
        else:
            op = cast(OpResult, value).op
            if isinstance(op, vector.LoadOp | tpu.VectorLoadOp):
                return PACKED
            if isinstance(op, _NARROWING) and bit_width(value.type) < 32:
                if bit_width(op.operands[0].type) < 32:
                    return None
                return COLUMN if _place(op.operands[0], target) == COLUMN else SPREAD
            if isinstance(op, vector.MultiReductionOp):
                return _of_reduction(op, target)
            if isinstance(op, vector.ShapeCastOp):
                return _of_reshape(op, target)
            if isinstance(op, tpu.ConcatenateOp):
                # Whatever its pieces are.
                return PACKED
            if through_words(op, target):
                first = _first(v for v in op.operands if v.type == value.type)
                column = first is not None and _place(first, target) == COLUMN
                return COLUMN if column else SPREAD
            following = _followed(op, cast(OpResult, value).index, target)
        if following is None:
            return None
        value = following


def _of_reduction(op: vector.MultiReductionOp, target: Target) -> str | None:
    """Lanes that are left are a row, sublanes a column; single rows are reduced where they lie."""
    shape = cast(AnyVector, op.source.type).get_shape()
    last = len(shape) - 1
    reduced = {int(d) for d in op.reduction_dims.get_values()}
    stays = last - 1 not in reduced and shape[last - 1] == 1
    if last not in reduced and (stays or all(shape[dim] == 1 for dim in reduced)):
        return _of_row(op.source, target)
    if last not in reduced:
        return ROW
    return COLUMN if last - 1 not in reduced else None


def _of_reshape(op: vector.ShapeCastOp, target: Target) -> str | None:
    """Rows of 128 become flat, unless they were loaded; one row or column stays what it was."""
    source = op.operands[0]
    shape = cast(AnyVector, source.type).get_shape()
    length = cast(AnyVector, op.results[0].type).get_shape()[0]
    if len(shape) < 2 or bit_width(source.type) < 16:
        return None
    loaded = isinstance(source.owner, vector.LoadOp | tpu.VectorLoadOp)
    if shape[-1] == LANES and (loaded or length > LANES):
        return ROW if loaded else PACKED
    if shape[-2:] == (length, 1):
        return None if loaded else COLUMN
    return _of_row(source, target) if shape[-2:] == (1, length) else None


def _of_row(value: SSAValue, target: Target, depth: int = 8) -> str | None:
    """Where the one row of a vector of more dimensions lies."""
    op = value.owner
    if not isinstance(op, Operation) or not depth:
        return None
    if isinstance(op, vector.LoadOp | tpu.VectorLoadOp):
        # Words of a row of several tiles are loaded to where a flat vector has them.
        wide = cast(AnyVector, value.type).get_shape()[-1] > LANES
        return PACKED if wide and bit_width(value.type) == 32 else ROW
    if isinstance(op, tpu.IotaOp):
        return ROW
    if isinstance(op, vector.ExtractStridedSliceOp):
        return ROW if cast(AnyVector, op.operands[0].type).get_shape()[-2] > 1 else None
    if isinstance(op, vector.MultiReductionOp):
        return _of_reduction(op, target)
    if isinstance(op, vector.ShapeCastOp):
        source = op.operands[0]
        if (
            cast(AnyVector, source.type).get_shape()[-1]
            != cast(AnyVector, value.type).get_shape()[-1]
        ):
            return None
        if len(cast(AnyVector, source.type).get_shape()) == 1:
            return _place(source, target)
        return _of_row(source, target, depth - 1)
    if op.dialect_name() in ("arith", "math") and not through_words(op, target):
        following = _first(v for v in op.operands if v.type == value.type)
        return None if following is None else _of_row(following, target, depth - 1)
    return None


def _first(values: Iterable[SSAValue]) -> SSAValue | None:
    """The first of `values` that is no constant."""
    free = (arith.ConstantOp, vector.BroadcastOp)
    return next((v for v in values if not isinstance(v.owner, free)), None)


def ways_to(value: SSAValue) -> list[SSAValue]:
    """What a result of a loop or branch, or a loop's carried argument, may be; of loops what it is
    at first comes first. Nothing for other values."""
    if isinstance(value, BlockArgument):
        loop, index = value.owner.parent_op(), value.index - 1
        return list(arriving(loop, index)) if isinstance(loop, scf.ForOp) and index >= 0 else []
    op = value.owner
    if not isinstance(op, scf.ForOp | scf.IfOp):
        return []
    return list(arriving(op, cast(OpResult, value).index))


def carried_from(value: SSAValue) -> SSAValue | None:
    """The value in whose place a loop's argument lies, or a result of a loop or branch.

    None for other values, and where all that arrives is constant.
    """
    ways = ways_to(value)
    return next(iter(ways), None) if isinstance(value, BlockArgument) else _first(ways)


def _followed(op: Operation, index: int, target: Target) -> SSAValue | None:
    """The value in whose place result `index` of `op` lies: the first that is no constant."""
    if isinstance(op, scf.ForOp | scf.IfOp):
        return carried_from(op.results[index])
    if isinstance(op, (*_BITWISE, *_SUMS)) or op.name in target.bf16_ops:
        return _first(op.operands)
    vectors = [v for v in (*op.operands, op.results[index]) if isinstance(v.type, VectorType)]
    wide = all(bit_width(v.type) in (1, 32) for v in vectors)
    if wide and op.dialect_name() in ("arith", "math"):
        # A selection lies as its mask, and a mask as what was compared.
        return _first(v for v in op.operands if isinstance(v.type, VectorType))
    return None


def through_words(op: Operation, target: Target) -> bool:
    """Whether the compiler computes `op` on elements of 16 bits by widening and narrowing them.

    Functions that are spelled out later (`math.sin`) stay in place until then.
    """
    kind = op.results[0].type
    values = op.operands[1:] if isinstance(op, arith.SelectOp) else op.operands
    if not isinstance(kind, VectorType) or any(v.type != kind for v in values):
        return False
    element = cast(AnyVector, kind).element_type
    if isinstance(op, arith.SelectOp):
        return bit_width(element) < target.narrowest_select_bits
    if isinstance(element, BFloat16Type):
        return op.name in _WIDENED - target.bf16_ops
    halves = isinstance(element, IntegerType) and bit_width(element) == 16
    return isinstance(op, _SUMS) and halves and op.name not in target.i16_ops
