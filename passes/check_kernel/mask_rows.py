"""Refuses masks that are equal in all rows, used on packed vectors of few rows.

Packed vectors of few rows keep the small tiles that they have in memory, so that a register holds
them in another order. The TPU compiler cannot bring a mask of one row for all rows into that order
(`Not implemented: Sublane broadcast`). `--allow-beyond-reference` lifts the refusals. Asked of
libtpu 0.0.51.
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
"""Arrays of at most so many rows have smaller tiles in memory, which loaded vectors keep."""


def _mask_of_a_row(op: arith.SelectOp, target: Target) -> None:
    """Refuses a selection by such a mask if the first value is packed and has few rows.

    The first value decides the layout. Targets that only select words widen it instead.
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
    """Refuses a logical operation on such a mask and a comparison of packed vectors of few rows, if
    that comes first: it decides the layout."""
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
    """The first vector among the operands that is no splat."""
    vectors = (v for v in op.operands if isinstance(v.type, VectorType))
    return next((v for v in vectors if _lies_along(v, target) is not _Along.NOTHING), None)


def _compares_few_rows(mask: SSAValue, target: Target, depth: int = 8, *, wide: bool) -> bool:
    """Whether `mask` compares packed vectors of few rows, and so has their layout."""
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
    """Whether `value` has the small tiles of an array of few rows, in which `wide` rows, of over
    128 columns, have another order."""
    if depth and (ways := ways_to(value)):
        # An argument that a loop carries has the layout of its initial value; constants fit any.
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
        # The first operand that is no splat decides; other widths have other layouts.
        first = _first_to_vary(op, target)
        if first is None or first.type != value.type or through_words(op, target):
            return False
        return _in_few_rows(first, target, depth - 1, wide=wide)
    if type(op) is tpu.ConcatenateOp:
        # A concatenation of rank 1 has the packed layout of memory, whatever its pieces are.
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
    """Whether a reshape regroups rows that do not fill sublanes: it goes through small tiles."""
    rows = [shape[-2] for shape in (old, new) if len(shape) > 1]
    return len(set(rows)) > 1 and any(n % SUBLANES for n in rows)


def _along_rows(op: vector.BroadcastOp) -> bool:
    """Whether the broadcast is of a column: along the lanes."""
    old, new = (v.type for v in (op.operands[0], op.results[0]))
    if not isinstance(old, VectorType) or not isinstance(new, VectorType):
        return False
    return old.get_shape() == (*new.get_shape()[:-1], 1)


_CONVERSIONS = (tpu.SitofpOp, tpu.FptosiOp)


class _Along(Enum):
    """Along what a vector varies in a register, as far as masks of one row are concerned."""

    NOTHING = auto()
    LANES = auto()
    PACKED = auto()
    """Along the lanes, but a comparison of packed elements, which has their layout."""
    OTHER = auto()
    """Along the sublanes, or not known."""


def _lies_along(
    value: SSAValue, target: Target, depth: int = 16, seen: frozenset[SSAValue] = frozenset()
) -> _Along:
    """Along what `value` varies; `seen` are values that loops carry on the way to it."""
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
    # The first operand that varies decides the layout.
    way = next((way for way in found if way is not _Along.NOTHING), _Along.NOTHING)
    return _Along.PACKED if way is _Along.LANES and compares_packed(op, target) else way


def _of_broadcast(op: vector.BroadcastOp) -> _Along:
    """Nothing for a scalar or a single element, lanes for one row that is repeated for all rows."""
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
