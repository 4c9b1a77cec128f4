"""Refuses masks that are equal in all rows, used on packed vectors of few rows.

Packed vectors of few rows keep the small tiles that they have in memory (`row_layouts.py`), so that
a register holds them in another order. The TPU compiler cannot bring a mask of one row for all rows
into that order (`Not implemented: Sublane broadcast`). `--allow-beyond-reference` lifts the
refusals. Asked of libtpu 0.0.51.
"""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import bit_width, element_of, shape_of
from pallasite.passes.canonicalize_mosaic.selects import COMBINATIONS
from pallasite.passes.check_kernel.flat_layouts import FEW_ROWS
from pallasite.passes.check_kernel.replication import Replications
from pallasite.passes.check_kernel.row_layouts import RowLayouts
from pallasite.passes.check_kernel.rules import RuleTable
from pallasite.passes.check_kernel.widening import compares_packed
from pallasite.targets import Target


def replicated_masks(known: Replications, target: Target) -> RuleTable:
    """The rules of the reference for masks of rows, given which vectors are replicated."""
    rules = _ReplicatedMasks(known, target)
    return {
        **dict.fromkeys(COMBINATIONS, (rules.check_combination,)),
        arith.SelectOp: (rules.check_choice,),
    }


class _ReplicatedMasks:
    def __init__(self, known: Replications, target: Target) -> None:
        self._known, self._target = known, target
        self._layouts = RowLayouts(target)

    def check_choice(self, op: arith.SelectOp, target: Target) -> None:
        """Refuses a selection by such a mask if the first value is packed and has few rows.

        The first value decides the layout. Targets that only select words widen it instead.
        """
        mask, first, _ = op.operands
        if not isinstance(mask.type, VectorType) or not isinstance(first.type, VectorType):
            return
        if not target.narrowest_select_bits <= bit_width(first.type) < 32:
            return
        if self._layouts.has_small_tiles(first) and self._is_of_one_row(mask):
            shape = list(shape_of(first.type))
            raise refusal(
                op, "mask-row", "a mask that is the same in all rows cannot choose between vectors "
                f"of {element_of(first)} of shape {shape}",
                f"arrays of at most {FEW_ROWS} rows have registers of other rows and columns, and "
                "masks do not move there",
                "choose between 32-bit values and cast the result, or let the mask depend on the "
                "row (or, of one row, on data)",
                "the TPU compiler says: Not implemented: Sublane broadcast",
            )  # fmt: skip

    def check_combination(self, op: Operation, target: Target) -> None:
        """Refuses a logical operation on such a mask and a comparison of packed vectors of few
        rows, if that comes first: it decides the layout."""
        kind = op.results[0].type
        if not isinstance(kind, VectorType) or bit_width(kind) != 1:
            return
        if not _compares_packed_values(op, target):
            return
        first = self._first_to_vary(op)
        if first is None or not self._layouts.has_small_tiles(first):
            return
        if any(self._is_of_one_row(v) for v in op.operands if v is not first):
            shape = list(shape_of(kind))
            raise refusal(
                op, "mask-row", f"a mask of {shape} that compares packed elements is not combined "
                "with one that is the same in all rows",
                f"arrays of at most {FEW_ROWS} rows have registers of other rows and columns, and "
                "masks do not move there",
                "combine them the other way round: rows & mask, not mask & rows; or compare values "
                "of 32 bits",
                "the TPU compiler says: Not implemented: Sublane broadcast",
            )  # fmt: skip

    def _is_of_one_row(self, mask: SSAValue) -> bool:
        """Whether `mask` is replicated over the sublanes, and lies in words."""
        replicated = self._known.of(mask)
        one_row = replicated.sublanes is True and replicated.lanes is not True
        return one_row and not self._is_packed(mask)

    def _is_packed(self, mask: SSAValue) -> bool:
        """Whether `mask` has the layout of packed elements that it compares: what it is first
        computed from has."""
        found: SSAValue | None = mask
        while found is not None and isinstance(op := found.owner, Operation):
            if compares_packed(op, self._target):
                return True
            found = self._first_to_vary(op) if op.dialect_name() == "arith" else None
        return False

    def _first_to_vary(self, op: Operation) -> SSAValue | None:
        """The first vector among the operands that is no splat."""
        vectors = (v for v in op.operands if isinstance(v.type, VectorType))
        return next((v for v in vectors if not all(self._known.of(v))), None)


def _compares_packed_values(op: Operation, target: Target, depth: int = 8) -> bool:
    """Whether `op` is, or combines, a comparison of packed elements."""
    if not isinstance(op, COMBINATIONS):
        return compares_packed(op, target)
    made = (v.owner for v in op.operands if isinstance(v.owner, Operation))
    return depth > 0 and any(_compares_packed_values(m, target, depth - 1) for m in made)
