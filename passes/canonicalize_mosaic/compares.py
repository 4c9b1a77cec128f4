"""Comparisons that the vector unit has: other predicates and element types are expressed by these.

For floats it has the six ordered predicates. The TPU compiler refuses any other one with
"Unsupported comparison direction" (tried on v5e). Narrow integers are compared packed if the mask
is used for data of their width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith
from pallasite.dialects.predicates import OPPOSITE
from pallasite.dialects.types import bit_width, element_of, is_vector, splat, splat_value
from pallasite.passes.canonicalize_mosaic.driver import Legalizer, rule
from pallasite.passes.canonicalize_mosaic.masks_as_numbers import CASTS, becomes
from pallasite.passes.canonicalize_mosaic.selects import COMBINATIONS, governed_bits
from pallasite.passes.equal_values import equal_values
from pallasite.targets import Target

_OPPOSITES = {"ugt": "ole", "uge": "olt", "ult": "oge", "ule": "ogt", "une": "oeq"}
"""Of unordered predicates the ordered one that is true where they are not. `ueq` has no such
opposite: `one` is true of NaN, too (spec/README.md)."""


def ordered(op: arith.CmpfOp, r: Legalizer) -> SSAValue | None:
    """A comparison by an unordered predicate, as ordered comparisons; None for an ordered one."""
    predicate = op.predicate_name
    if predicate in ("false", "true"):
        return r.emit(arith.ConstantOp(splat(_mask(op), int(predicate == "true"))))
    if predicate in ("ord", "ueq", "uno"):
        left, right = (r.emit(arith.CmpfOp(v, v, "oeq")) for v in (op.lhs, op.rhs))
        both = r.emit(arith.AndIOp(left, right))
        if predicate == "ord":
            return both
        apart = _not(both, op, r)
        if predicate == "uno":
            return apart
        return r.emit(arith.OrIOp(r.emit(arith.CmpfOp(op.lhs, op.rhs, "oeq")), apart))
    if predicate not in _OPPOSITES:
        return None
    return _not(r.emit(arith.CmpfOp(op.lhs, op.rhs, _OPPOSITES[predicate])), op, r)


def _mask(op: arith.CmpfOp) -> VectorType[Attribute]:
    return cast("VectorType[Attribute]", op.result.type)


def _not(mask: SSAValue, op: arith.CmpfOp, r: Legalizer) -> SSAValue:
    return r.emit(arith.XOrIOp(mask, r.emit(arith.ConstantOp(splat(_mask(op), 1)))))


@rule(arith.XOrIOp)
def compare_the_other_way(op: arith.XOrIOp, r: Legalizer) -> SSAValue | None:
    """The negation of a comparison of integers that has no other use is the opposite comparison."""
    if not is_vector(op.result):
        return None
    for mask, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        made, number = mask.owner, other.owner
        if isinstance(made, arith.CmpiOp) and mask.has_one_use() and _is_true(number):
            return r.emit(arith.CmpiOp(made.lhs, made.rhs, OPPOSITE[made.predicate_name]))
    return None


def _is_true(op: object) -> bool:
    return isinstance(op, arith.ConstantOp) and splat_value(op.value) == 1


def compared_packed(op: arith.CmpiOp, target: Target) -> bool:
    """Whether the narrow integers of `op` are compared packed: the mask must only be used for data
    as narrow, since for wider data it would have to be unpacked."""
    bits = bit_width(element_of(op.lhs))
    equality = op.predicate_name in ("eq", "ne")
    if bits not in (target.equated_bits if equality else target.ordered_bits):
        return False
    ordered = () if equality else (op.lhs, op.rhs)
    return bits >= target.narrowest_select_bits and _governs(op.result, bits, ordered)


def compared_in_halves(op: arith.CmpiOp, target: Target) -> bool:
    """Whether the bytes of `op` are compared as 16-bit integers, for which alone the mask is
    used."""
    halves = 16 in target.equated_bits & target.ordered_bits and target.max_mask_subelements > 1
    narrow = bit_width(element_of(op.lhs)) == 8 and target.narrowest_select_bits <= 16
    return halves and narrow and _governs(op.result, 16, ())


_WITH_ZERO = {("ugt", 0): "ne", ("uge", 1): "ne", ("ule", 0): "eq", ("ult", 1): "eq"}
"""Comparisons of unsigned numbers with constants that find zero."""


def compared_with_zero(op: arith.CmpiOp, r: Legalizer) -> SSAValue | None:
    """`x > 0` of narrow unsigned integers is `x != 0`: equality is available for more widths than
    order."""
    number = arith.splat_number(op.rhs)
    if number is None or (op.predicate_name, int(number)) not in _WITH_ZERO:
        return None
    kind = cast("VectorType[Attribute]", op.lhs.type)
    zero = r.emit(arith.ConstantOp(splat(kind, 0)))
    return r.emit(arith.CmpiOp(op.lhs, zero, _WITH_ZERO[op.predicate_name, int(number)]))


_SIGNS = {
    ("slt", 0): "slt", ("sle", -1): "slt", ("sge", 0): "sge", ("sgt", -1): "sge",
    ("sgt", 0): "sgt", ("sge", 1): "sgt", ("sle", 0): "sle", ("slt", 1): "sle",
    ("ugt", 127): "slt", ("uge", -128): "slt", ("ult", -128): "sge", ("ule", 127): "sge",
}  # fmt: skip
"""Comparisons of bytes with constants that are comparisons with zero."""


def compared_by_sign(op: arith.CmpiOp, r: Legalizer) -> SSAValue | None:
    """Comparisons of bytes with zero by their sign bits, on targets that only compare bytes for
    equality."""
    number = arith.splat_number(op.rhs)
    if number is None or bit_width(element_of(op.lhs)) != 8:
        return None
    predicate = _SIGNS.get((op.predicate_name, int(number)))
    packed = 8 in r.target.equated_bits - r.target.ordered_bits
    if predicate is None or not packed or r.target.narrowest_select_bits > 8:
        return None
    if not _governs(op.result, 8, ()):
        return None
    kind = cast("VectorType[Attribute]", op.lhs.type)
    zero, highest = (r.emit(arith.ConstantOp(splat(kind, n))) for n in (0, -128))
    sign = r.emit(arith.AndIOp(op.lhs, highest))
    if predicate in ("slt", "sle"):
        mask = r.emit(arith.CmpiOp(sign, zero, "ne"))
        if predicate == "slt":
            return mask
        return r.emit(arith.OrIOp(mask, r.emit(arith.CmpiOp(op.lhs, zero, "eq"))))
    mask = r.emit(arith.CmpiOp(sign, zero, "eq"))
    if predicate == "sge":
        return mask
    return r.emit(arith.AndIOp(mask, r.emit(arith.CmpiOp(op.lhs, zero, "ne"))))


def _governs(mask: SSAValue, bits: int, ordered: Sequence[SSAValue]) -> bool:
    """Whether `mask`, alone or combined with other masks for such data, selects between values of
    `bits` bits.

    Not if it alone selects the larger or smaller of `ordered`: the TPU compiler makes a maximum or
    minimum of that, which narrow integers do not have.
    """
    waiting, seen = [mask], {mask}
    while waiting:
        value = waiting.pop()
        for use in value.uses:
            op = use.operation
            if isinstance(op, CASTS):
                if not becomes(op.results[0], bits):
                    return False
            elif isinstance(op, arith.SelectOp):
                if use.index or bit_width(element_of(op.result)) != bits:
                    return False
                alone = value is mask and len(ordered) > 0
                if alone and _are_equal(ordered, (op.lhs, op.rhs), (op.rhs, op.lhs)):
                    return False
            elif not isinstance(op, COMBINATIONS) or governed_bits(op.result) not in (None, bits):
                return False
            elif op.result not in seen:
                seen.add(op.result)
                waiting.append(op.result)
    return True


def _are_equal(values: Sequence[SSAValue], *others: Sequence[SSAValue]) -> bool:
    """Whether `values` equal those of one of `others`, after common subexpressions are removed."""
    return any(
        all(a is b or equal_values(a, b) for a, b in zip(values, pair, strict=True))
        for pair in others
    )
