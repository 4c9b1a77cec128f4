"""Masks that are the same in all rows, and packed values whose registers hold few rows.

Asked of libtpu 0.0.51: it does not repeat such a mask for the rows of such registers. The refusals
yield to `--allow-beyond-reference`.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import cast

from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from pallasite.dialects import arith, tpu, vector
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import AnyVector, bit_width, splat_value, tiling_of
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.passes.canonicalize_mosaic.selects import COMBINATIONS
from pallasite.passes.check_kernel.rules import RuleTable
from pallasite.passes.check_kernel.ways import ways_to
from pallasite.passes.check_kernel.words import compares_packed, through_words
from pallasite.targets import Target

_FEW_ROWS = 4
"""Arrays of so many rows at most have tiles of their own in memory, and their vectors keep them."""


def _mask_of_a_row(op: arith.SelectOp, target: Target) -> None:
    """Masks of one row for all do not become masks of packed registers that hold few wide rows.

    The first value decides which registers those are. Chips that select words only widen it.
    """
    mask, first, _ = op.operands
    if not isinstance(mask.type, VectorType) or not isinstance(first.type, VectorType):
        return
    bits = bit_width(first.type)
    if not target.narrowest_select_bits <= bits < 32:
        return
    shape = list(cast(AnyVector, first.type).get_shape())
    if not _in_few_rows(first, target, wide=shape[-1] > LANES):
        return
    if _lies_along(mask, target) is _Along.LANES:
        raise refusal(
            op, "mask-row", f"a mask that is the same in all rows cannot choose between vectors of "
            f"{cast(AnyVector, first.type).element_type} of shape {shape}",
            f"arrays of at most {_FEW_ROWS} rows have registers of other rows and columns, and "
            "masks do not move there",
            "choose between 32-bit values and cast the result, or let the mask depend on the row "
            "(or, of one row, on data)",
            "the TPU compiler says: Not implemented: Sublane broadcast",
        )  # fmt: skip


def _masks_of_rows(op: Operation, target: Target) -> None:
    """Nor are such masks combined with one that a comparison of packed registers made of few wide
    rows, if that one is the first: it decides where the others go."""
    kind = op.results[0].type
    if not isinstance(kind, VectorType) or bit_width(kind) != 1:
        return
    shape = list(cast(AnyVector, kind).get_shape())
    if not shape or not _has_packed_compare(op, target):
        return
    first = _first_to_vary(op, target)
    if first is None or not _compares_few_rows(first, target, wide=shape[-1] > LANES):
        return
    if any(_lies_along(v, target) is _Along.LANES for v in op.operands if v is not first):
        raise refusal(
            op, "mask-row", f"a mask of {shape} that compares packed elements is not combined with "
            "one that is the same in all rows",
            f"arrays of at most {_FEW_ROWS} rows have registers of other rows and columns, and "
            "masks do not move there",
            "combine them the other way round: rows & mask, not mask & rows; or compare values of "
            "32 bits",
            "the TPU compiler says: Not implemented: Sublane broadcast",
        )  # fmt: skip


def _has_packed_compare(op: Operation, target: Target, depth: int = 8) -> bool:
    if not isinstance(op, COMBINATIONS):
        return compares_packed(op, target)
    made = (v.owner for v in op.operands if isinstance(v.owner, Operation))
    return depth > 0 and any(_has_packed_compare(m, target, depth - 1) for m in made)


def _first_to_vary(op: Operation, target: Target) -> SSAValue | None:
    """The first vector among the operands that is not one element for all."""
    vectors = (v for v in op.operands if isinstance(v.type, VectorType))
    return next((v for v in vectors if _lies_along(v, target) is not _Along.NOTHING), None)


def _compares_few_rows(mask: SSAValue, target: Target, depth: int = 8, *, wide: bool) -> bool:
    """Whether `mask` lies as packed elements of few rows do in registers."""
    op = mask.owner
    if not isinstance(op, Operation) or not depth:
        return False
    if isinstance(op, COMBINATIONS):
        first = _first_to_vary(op, target)
        return first is not None and _compares_few_rows(first, target, depth - 1, wide=wide)
    if not compares_packed(op, target):
        return False
    first = _first_to_vary(op, target)
    return first is not None and _in_few_rows(first, target, wide=wide)


def _in_few_rows(value: SSAValue, target: Target, depth: int = 8, *, wide: bool) -> bool:
    """Whether `value` lies in registers as in memory, where arrays of few rows have a tile of their
    own; only `wide` rows lie in the registers of that in another order."""
    if depth and (ways := ways_to(value)):
        # What a loop carries lies in it as at first; constants lie anywhere.
        ways = ways[:1] if isinstance(value, BlockArgument) else ways
        lying = [way for way in ways if not isinstance(way.owner, arith.ConstantOp)]
        return bool(lying) and all(_in_few_rows(way, target, depth - 1, wide=wide) for way in lying)
    op = value.owner
    if not isinstance(op, Operation) or not depth:
        return False
    if isinstance(op, vector.LoadOp | tpu.VectorLoadOp):
        held = cast("MemRefType[Attribute]", op.operands[0].type)
        shape = held.get_shape()
        return wide and tiling_of(held) is None and (len(shape) < 2 or shape[-2] <= _FEW_ROWS)
    if isinstance(op, arith.SelectOp):
        return _in_few_rows(op.operands[1], target, depth - 1, wide=wide)
    if op.dialect_name() in ("arith", "math"):
        # The first operand that is not one element for all decides; other widths lie elsewhere.
        first = _first_to_vary(op, target)
        if first is None or first.type != value.type or through_words(op, target):
            return False
        return _in_few_rows(first, target, depth - 1, wide=wide)
    if type(op) is tpu.ConcatenateOp:
        # What is joined to a flat vector lies as memory holds it, whatever the pieces are.
        return wide and len(cast(AnyVector, value.type).get_shape()) == 1
    if isinstance(op, vector.ExtractStridedSliceOp):
        return _in_few_rows(op.operands[0], target, depth - 1, wide=wide)
    if isinstance(op, vector.ShapeCastOp):
        source = op.operands[0]
        old, new = (cast(AnyVector, v.type).get_shape() for v in (source, value))
        return old[-1:] == new[-1:] and (
            _regroups_few_rows(old, new) or _in_few_rows(source, target, depth - 1, wide=wide)
        )
    if isinstance(op, vector.BroadcastOp):
        source = op.operands[0]
        return _along_rows(op) and _in_few_rows(source, target, depth - 1, wide=wide)
    return False


def _regroups_few_rows(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """Whether rows are put together or taken apart that do not fill sublanes: they go through tiles
    of few."""
    rows = [shape[-2] for shape in (old, new) if len(shape) > 1]
    return len(set(rows)) > 1 and any(n % SUBLANES for n in rows)


def _along_rows(op: vector.BroadcastOp) -> bool:
    """Whether each row becomes its one element."""
    old, new = (v.type for v in (op.operands[0], op.results[0]))
    if not isinstance(old, VectorType) or not isinstance(new, VectorType):
        return False
    return old.get_shape() == (*new.get_shape()[:-1], 1)


_CONVERSIONS = (tpu.SitofpOp, tpu.FptosiOp)


class _Along(Enum):
    """Along which dimensions of a register a vector varies; others are not told apart."""

    NOTHING = auto()
    LANES = auto()
    PACKED = auto()
    """Along lanes too, but a mask of packed elements, which goes where those are."""
    OTHER = auto()


def _lies_along(
    value: SSAValue, target: Target, depth: int = 16, seen: frozenset[SSAValue] = frozenset()
) -> _Along:
    """How the TPU compiler lays out `value`, as far as masks of rows go."""
    op = value.owner
    if not isinstance(value.type, VectorType):
        return _Along.NOTHING
    if value in seen:
        return _Along.LANES
    if depth and (ways := ways_to(value)):
        found = {_lies_along(way, target, depth - 1, seen | {value}) for way in ways}
        return _Along.LANES if found == {_Along.LANES} else _Along.OTHER
    if not isinstance(op, Operation) or not depth:
        return _Along.OTHER
    shape = cast(AnyVector, value.type).get_shape()
    if isinstance(op, arith.ConstantOp):
        return _Along.OTHER if splat_value(op.value) is None else _Along.NOTHING
    if isinstance(op, tpu.IotaOp):
        along_lanes = [int(d) for d in op.dimensions.get_values()] == [len(shape) - 1]
        return _Along.LANES if along_lanes else _Along.OTHER
    if isinstance(op, vector.BroadcastOp):
        same = op.operands[0].type == value.type
        return _lies_along(op.operands[0], target, depth - 1, seen) if same else _of_broadcast(op)
    if isinstance(op, vector.MultiReductionOp):
        last = len(cast(AnyVector, op.source.type).get_shape()) - 1
        dims = [int(d) for d in op.reduction_dims.get_values()]
        return _Along.LANES if last - 1 in dims and last not in dims else _Along.OTHER
    if isinstance(op, vector.ShapeCastOp):
        source = cast(AnyVector, op.operands[0].type).get_shape()
        return (
            _lies_along(op.operands[0], target, depth - 1, seen)
            if source[-1] == shape[-1]
            else _Along.OTHER
        )
    if op.dialect_name() not in ("arith", "math") and not isinstance(op, _CONVERSIONS):
        return _Along.OTHER
    found = [_lies_along(operand, target, depth - 1, seen) for operand in op.operands]
    if _Along.OTHER in found:
        return _Along.OTHER
    # The first one that varies decides where the others go.
    way = next((way for way in found if way is not _Along.NOTHING), _Along.NOTHING)
    return _Along.PACKED if way is _Along.LANES and compares_packed(op, target) else way


def _of_broadcast(op: vector.BroadcastOp) -> _Along:
    """Of a scalar or a single element, or of one row to all rows."""
    source = op.operands[0].type
    if not isinstance(source, VectorType) or set(cast(AnyVector, source).get_shape()) == {1}:
        return _Along.NOTHING
    old, new = cast(AnyVector, source).get_shape(), cast(AnyVector, op.results[0].type).get_shape()
    one_row = len(new) > 1 and new[-2] > 1 and (len(old) < 2 or old[-2] == 1)
    along_lanes = old[-1:] == new[-1:] != (1,)
    return _Along.LANES if one_row and along_lanes else _Along.OTHER


ROW_MASK_RULES: RuleTable = {
    **dict.fromkeys(COMBINATIONS, (_masks_of_rows,)),
    arith.SelectOp: (_mask_of_a_row,),
}
"""Rules of the reference for masks of rows."""
