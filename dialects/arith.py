"""`arith` as Mosaic uses it: comparisons, selects and casts also of vectors, rounding modes.

Upstream's class serves every operation that it can express; the ones here, in `arith_compare` and
in `arith_casts` replace those that only accept scalars or lack a property, and add those that are
missing. Formats are MLIR's. Every class is found here under its upstream name.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, cast

from xdsl.dialects.arith import (
    AddfOp,
    AddiOp,
    AddUIExtendedOp,
    AndIOp,
    CeilDivSIOp,
    CeilDivUIOp,
    ConstantOp,
    DivfOp,
    FastMathFlagsAttr,
    FloatingPointLikeBinaryOperation,
    FloorDivSIOp,
    IntegerOverflowAttr,
    MaximumfOp,
    MaxnumfOp,
    MaxSIOp,
    MaxUIOp,
    MinimumfOp,
    MinnumfOp,
    MinSIOp,
    MinUIOp,
    MulfOp,
    MuliOp,
    MulSIExtendedOp,
    MulUIExtendedOp,
    NegfOp,
    OrIOp,
    RemSIOp,
    ShLIOp,
    SignlessIntegerBinaryOperation,
    SignlessIntegerBinaryOperationWithOverflow,
    SubfOp,
    SubiOp,
    XOrIOp,
    floatingPointLike,
    signlessIntegerLike,
)
from xdsl.dialects.arith import Arith as UpstreamArith
from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
    IntegerType,
    UnitAttr,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from pallasite.dialects.arith_casts import (
    CASTS,
    BitcastOp,
    ConvertFOp,
    ExtFOp,
    ExtSIOp,
    ExtUIOp,
    FPToSIOp,
    FPToUIOp,
    IndexCastOp,
    IndexCastUIOp,
    ScalingExtFOp,
    ScalingTruncFOp,
    SIToFPOp,
    TruncFOp,
    TruncIOp,
    UIToFPOp,
)
from pallasite.dialects.arith_compare import CmpfOp, CmpiOp, SelectOp
from pallasite.dialects.arith_denormal import DenormalModeAttr
from pallasite.dialects.constraints import DerivedFrom, boolean_like
from pallasite.dialects.derive import derive
from pallasite.dialects.types import splat_value


@irdl_op_definition
class RemFOp(FloatingPointLikeBinaryOperation):
    """The remainder of the truncated quotient; it has the sign of the dividend."""

    name = "arith.remf"
    traits = traits_def(Pure())


@irdl_op_definition
class RemUIOp(SignlessIntegerBinaryOperation):
    """The remainder of unsigned integers; upstream's does not say that it only computes."""

    name = "arith.remui"
    traits = traits_def(Pure())


@irdl_op_definition
class SubUIExtendedOp(IRDLOperation):
    """The difference of unsigned integers, and whether it borrowed."""

    name = "arith.subui_extended"

    T: ClassVar = VarConstraint("T", signlessIntegerLike)

    lhs = operand_def(T)
    rhs = operand_def(T)
    diff = result_def(T)
    borrow = result_def(DerivedFrom((T,), boolean_like))

    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($diff) `,` type($borrow)"


@irdl_op_definition
class FlushDenormalsOp(IRDLOperation):
    """Replaces denormal numbers by zero of the same sign."""

    name = "arith.flush_denormals"

    T: ClassVar = VarConstraint("T", floatingPointLike)

    operand = operand_def(T)
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))
    result = result_def(T)

    traits = traits_def(Pure())
    assembly_format = "$operand (`fastmath` `` $fastmath^)? attr-dict `:` type($operand)"


class _ExactOperation(SignlessIntegerBinaryOperation, ABC):
    """A division or right shift that may promise to lose nothing (`exact`)."""

    is_exact = opt_prop_def(UnitAttr, prop_name="isExact")

    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs (`exact` $isExact^)? attr-dict `:` type($result)"


class _ExactShift(_ExactOperation, ABC):
    @staticmethod
    def is_right_unit(attr: IntegerAttr) -> bool:
        return attr.value.data == 0


class _ExactDivision(_ExactOperation, ABC):
    @staticmethod
    def is_right_unit(attr: IntegerAttr) -> bool:
        return attr.value.data == 1


@irdl_op_definition
class DivUIOp(_ExactDivision):
    """The quotient of unsigned integers, rounded towards zero."""

    name = "arith.divui"


@irdl_op_definition
class DivSIOp(_ExactDivision):
    """The quotient of signed integers, rounded towards zero."""

    name = "arith.divsi"


@irdl_op_definition
class ShRUIOp(_ExactShift):
    """A right shift that fills with zeros."""

    name = "arith.shrui"


@irdl_op_definition
class ShRSIOp(_ExactShift):
    """A right shift that fills with the sign."""

    name = "arith.shrsi"


Arith = derive(
    UpstreamArith,
    [
        CmpiOp,
        CmpfOp,
        SelectOp,
        RemFOp,
        RemUIOp,
        SubUIExtendedOp,
        FlushDenormalsOp,
        DivUIOp,
        DivSIOp,
        ShRUIOp,
        ShRSIOp,
        *CASTS,
    ],
    [DenormalModeAttr],
)

_BINARY: dict[str, type[Operation]] = {
    op.name: op
    for op in Arith.operations
    if issubclass(op, SignlessIntegerBinaryOperation | FloatingPointLikeBinaryOperation)
}


def binary_op(name: str) -> type[Operation]:
    """The class of the elementwise binary operation `name`; raises ValueError for others."""
    if name not in _BINARY:
        raise ValueError(f"{name} is no elementwise binary operation")
    return _BINARY[name]


def splat_number(value: SSAValue) -> int | float | None:
    """What every element of the vector `value` is, if that is a constant; None otherwise.

    Integers are signed as the attribute prints them; i1 gives 0 or 1.
    """
    made = value.owner
    return splat_value(made.value) if isinstance(made, ConstantOp) else None


def known_integer(value: SSAValue) -> int | None:
    """The integer that a scalar constant is, signed as it prints, an i1 0 or 1; else None."""
    made = value.owner
    # Asked of very many values: comparing classes is many times as fast as `isinstance`.
    if type(made) is not ConstantOp:
        return None
    constant = made.properties["value"]
    if type(constant) is not IntegerAttr:
        return None
    number = cast("IntegerAttr[IntegerType]", constant).value.data
    return number & 1 if value.type == i1 else number


def known_number(value: SSAValue) -> int | float | None:
    """What a scalar, or every element of a vector, is, if that is a constant: `splat_number` and
    `known_integer` in one; None otherwise."""
    made = value.owner
    if type(made) is not ConstantOp:
        return None
    constant = made.properties["value"]
    if type(constant) is FloatAttr:
        return constant.value.data
    number = splat_value(constant)
    return known_integer(value) if number is None else number


def default_properties(kind: type[Operation]) -> dict[str, Attribute]:
    """The properties that `kind` has when nothing is said, as MLIR prints them."""
    if issubclass(kind, FloatingPointLikeBinaryOperation):
        return {"fastmath": FastMathFlagsAttr("none")}
    if issubclass(kind, SignlessIntegerBinaryOperationWithOverflow):
        return {"overflowFlags": IntegerOverflowAttr("none")}
    return {}


__all__ = [
    "AddUIExtendedOp",
    "AddfOp",
    "AddiOp",
    "AndIOp",
    "Arith",
    "BitcastOp",
    "CeilDivSIOp",
    "CeilDivUIOp",
    "CmpfOp",
    "CmpiOp",
    "ConstantOp",
    "ConvertFOp",
    "DenormalModeAttr",
    "DivSIOp",
    "DivUIOp",
    "DivfOp",
    "ExtFOp",
    "ExtSIOp",
    "ExtUIOp",
    "FPToSIOp",
    "FPToUIOp",
    "FastMathFlagsAttr",
    "FloorDivSIOp",
    "FlushDenormalsOp",
    "IndexCastOp",
    "IndexCastUIOp",
    "IntegerOverflowAttr",
    "MaxSIOp",
    "MaxUIOp",
    "MaximumfOp",
    "MaxnumfOp",
    "MinSIOp",
    "MinUIOp",
    "MinimumfOp",
    "MinnumfOp",
    "MulSIExtendedOp",
    "MulUIExtendedOp",
    "MulfOp",
    "MuliOp",
    "NegfOp",
    "OrIOp",
    "RemFOp",
    "RemSIOp",
    "RemUIOp",
    "SIToFPOp",
    "ScalingExtFOp",
    "ScalingTruncFOp",
    "SelectOp",
    "ShLIOp",
    "ShRSIOp",
    "ShRUIOp",
    "SubUIExtendedOp",
    "SubfOp",
    "SubiOp",
    "TruncFOp",
    "TruncIOp",
    "UIToFPOp",
    "XOrIOp",
    "binary_op",
    "boolean_like",
    "default_properties",
    "known_integer",
    "known_number",
    "splat_number",
]
