"""Elementwise arithmetic: what the vector unit does not compute in a narrow type is computed in 32
bits.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import Float16Type, IntegerType, VectorType, f32
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, math
from pallasite.dialects.predicates import is_unsigned
from pallasite.dialects.types import Dense, bit_width, element_of, is_float, is_vector, splat
from pallasite.passes.canonicalize_mosaic.bits_of_floats import equated_by_bits
from pallasite.passes.canonicalize_mosaic.compares import (
    compared_by_sign,
    compared_in_halves,
    compared_packed,
    compared_with_zero,
    ordered,
)
from pallasite.passes.canonicalize_mosaic.driver import (
    Legalizer,
    is_bf16,
    like,
    rule,
    untruncated,
)

COMPARES = (arith.CmpfOp, arith.CmpiOp)


def _kinds(module: object) -> list[type[Operation]]:
    return [
        v for v in vars(module).values()
        if isinstance(v, type) and issubclass(v, Operation) and getattr(v, "name", "")
    ]  # fmt: skip


NOT_ARITHMETIC: tuple[type[Operation], ...] = (
    arith.ConstantOp, arith.SelectOp, arith.BitcastOp, arith.ExtFOp, arith.TruncFOp, arith.ExtSIOp,
    arith.ExtUIOp, arith.TruncIOp, arith.SIToFPOp, arith.UIToFPOp, arith.FPToSIOp, arith.FPToUIOp,
    arith.IndexCastOp, arith.IndexCastUIOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp,
    arith.AddUIExtendedOp, arith.SubUIExtendedOp, arith.MulSIExtendedOp, arith.MulUIExtendedOp,
)  # fmt: skip
UNSIGNED = (
    arith.DivUIOp, arith.RemUIOp, arith.MaxUIOp, arith.MinUIOp, arith.ShRUIOp, arith.CeilDivUIOp,
    math.CtPopOp, math.CountLeadingZerosOp,
)  # fmt: skip

MODULAR: dict[type[Operation], int] = {
    arith.AddiOp: 2, arith.SubiOp: 2, arith.MuliOp: 2, arith.ShLIOp: 1,
}  # fmt: skip
"""Of how many operands, the first ones, only as many low bits matter as are kept of the result."""
SUMS = (arith.AddiOp, arith.SubiOp, arith.MuliOp)
SHIFTS = (arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp)


@rule(arith.MuliOp)
def multiply_by_shift(op: arith.MuliOp, r: Legalizer) -> SSAValue | None:
    """A product of narrow integers and a power of two is a shift, on targets that do not multiply
    them."""
    element = element_of(op.result)
    if not is_vector(op.result) or not isinstance(element, IntegerType):
        return None
    if element.bitwidth == 32 or not _adds_words(op, r):
        return None
    for value, factor in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        number = arith.splat_number(factor)
        if isinstance(number, int) and number > 0 and number & (number - 1) == 0:
            kind = cast(VectorType[Attribute], value.type)
            by = r.emit(arith.ConstantOp(splat(kind, number.bit_length() - 1)))
            return r.emit(arith.ShLIOp(value, by))
    return None


@rule(*(k for k in (*_kinds(arith), *_kinds(math)) if k not in NOT_ARITHMETIC))
def legalize_arithmetic(op: Operation, r: Legalizer) -> SSAValue | None:
    """Narrow floats are computed in f32 and rounded once, narrow integers in i32, whose low bits
    are kept."""
    if len(op.results) != 1 or not is_vector(op.results[0]) or not op.operands:
        return None
    element = element_of(op.operands[0])
    if isinstance(element, IntegerType):
        return _integer(op, element, r)
    if isinstance(op, arith.CmpfOp) and (compared := ordered(op, r)) is not None:
        return compared
    if bit_width(element) == 32:
        return None
    if isinstance(element, Float16Type):
        raise r.unsupported(
            op, "float16", "float16 arithmetic is not supported",
            "TPUs have no float16 units", "use bfloat16 or float32",
        )  # fmt: skip
    if is_bf16(element) and op.name in r.target.bf16_ops:
        return None
    if is_bf16(element) and isinstance(op, arith.CmpfOp) and _halves_compare(r):
        if (compared := equated_by_bits(op, r)) is not None:
            return compared
    wide = [r.to_f32(v) if is_float(element_of(v)) else r.to_i32(v) for v in op.operands]
    result = op.results[0]
    narrow = element_of(result)
    value = r.again(op, wide, like(result, f32 if is_float(narrow) else narrow))
    return r.to_float(value, narrow) if is_float(narrow) else value


def _integer(op: Operation, element: IntegerType, r: Legalizer) -> SSAValue | None:
    width = element.bitwidth
    if width in (1, 32):
        return None
    if isinstance(op, arith.CmpiOp):
        if (compared := compared_with_zero(op, r)) is not None:
            return compared
        if compared_packed(op, r.target):
            return None
        if (compared := _compared_narrow(op, r)) is not None:
            return compared
    elif _stays_packed(op, width, r):
        return None
    if isinstance(op, arith.AddiOp) and width != 16:
        raise r.unsupported(
            op, "narrow-integer-add", f"addition of {element} vectors is not supported",
            "the vector unit adds 32-bit (and, on some generations, 16-bit) integers",
            "convert to int32, add, and convert back",
        )  # fmt: skip
    signed = not isinstance(op, UNSIGNED) and not _unsigned_compare(op)
    modular = MODULAR.get(type(op), 0)
    wide = [r.to_i32(v, signed, low_bits=n < modular) for n, v in enumerate(op.operands)]
    result = op.results[0]
    narrow = element_of(result)
    if isinstance(op, COMPARES):
        return r.again(op, wide, result.type)
    value = r.again(op, wide, like(result, element_of(wide[0])))
    if isinstance(op, math.CountLeadingZerosOp):
        count = r.emit(arith.ConstantOp(_splat(value, 32 - width)))
        value = r.emit(arith.SubiOp(value, count))
    return r.to_int(value, narrow)


def _compared_narrow(op: arith.CmpiOp, r: Legalizer) -> SSAValue | None:
    """The comparison of elements narrower than words by their signs or in 16 bits; None if the
    target needs words."""
    if (compared := compared_by_sign(op, r)) is not None:
        return compared
    if not compared_in_halves(op, r.target):
        return None
    signed = not _unsigned_compare(op)
    return r.again(op, [r.to_i16(v, signed) for v in op.operands], op.result.type)


def _stays_packed(op: Operation, width: int, r: Legalizer) -> bool:
    """Whether the target computes `op` on packed integers of `width` bits."""
    if width == 16 and op.name in r.target.i16_ops:
        return True
    return isinstance(op, SHIFTS) and _shifted_packed(op, r)


def _halves_compare(r: Legalizer) -> bool:
    """Whether the target has masks of 16-bit elements."""
    return r.target.max_mask_subelements > 1 and 16 in r.target.equated_bits


def _shifted_packed(op: Operation, r: Legalizer) -> bool:
    """Whether the shift `op` of narrow integers is done packed.

    That needs one amount for all elements. Where the elements exist as words anyway, these are
    shifted before they are packed.
    """
    value, amount = op.operands
    if bit_width(element_of(value)) not in r.target.shifted_bits:
        return False
    if arith.splat_number(amount) is None:
        return False
    left, signed = isinstance(op, arith.ShLIOp), not isinstance(op, arith.ShRUIOp)
    if untruncated(value, signed, low_bits=left) is not None:
        return False
    others = any(_wants_words(u.operation, r) for u in value.uses if u.operation is not op)
    return not (others and all(_wants_words(u.operation, r) for u in op.results[0].uses))


def _wants_words(op: Operation, r: Legalizer) -> bool:
    """Whether `op` is lowered by unpacking narrow integers to words."""
    if isinstance(op, arith.ExtSIOp | arith.ExtUIOp):
        return bit_width(element_of(op.result)) == 32
    return _adds_words(op, r)


def _adds_words(op: Operation, r: Legalizer) -> bool:
    """Whether `op` sums or multiplies narrow integers, which is done in words."""
    return isinstance(op, SUMS) and op.name not in r.target.i16_ops


def _unsigned_compare(op: Operation) -> bool:
    return isinstance(op, arith.CmpiOp) and is_unsigned(op.predicate_name)


def _splat(value: SSAValue, number: int) -> Dense:
    return splat(cast(VectorType[Attribute], value.type), number)
