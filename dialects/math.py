"""`math` with the classifications of floats and the few functions that upstream lacks.

Every class is found here under its upstream name.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from xdsl.dialects.math import (
    AbsFOp,
    AbsIOp,
    AcoshOp,
    AcosOp,
    AsinhOp,
    AsinOp,
    Atan2Op,
    AtanhOp,
    AtanOp,
    CbrtOp,
    CeilOp,
    CopySignOp,
    CoshOp,
    CosOp,
    CountLeadingZerosOp,
    CountTrailingZerosOp,
    CtPopOp,
    ErfOp,
    Exp2Op,
    ExpM1Op,
    ExpOp,
    FloatingPointLikeUnaryMathOperation,
    FloorOp,
    FmaOp,
    FPowIOp,
    IPowIOp,
    Log1pOp,
    Log2Op,
    Log10Op,
    LogOp,
    PowFOp,
    RoundEvenOp,
    RoundOp,
    RsqrtOp,
    SinhOp,
    SinOp,
    SqrtOp,
    TanhOp,
    TanOp,
    TruncOp,
    floatingPointLike,
)
from xdsl.dialects.math import Math as UpstreamMath
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from pallasite.dialects.arith import FastMathFlagsAttr
from pallasite.dialects.constraints import DerivedFrom, boolean_like
from pallasite.dialects.derive import derive


class _Classification(IRDLOperation, ABC):
    """A yes-or-no question about each element."""

    T: ClassVar = VarConstraint("T", floatingPointLike)

    operand = operand_def(T)
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))
    result = result_def(DerivedFrom((T,), boolean_like))

    traits = traits_def(Pure())
    assembly_format = "$operand (`fastmath` `` $fastmath^)? attr-dict `:` type($operand)"

    def __init__(self, operand: Operation | SSAValue) -> None:
        value = SSAValue.get(operand)
        super().__init__(operands=[value], result_types=[boolean_like(value.type)])


@irdl_op_definition
class IsFiniteOp(_Classification):
    """Whether an element is neither infinite nor NaN."""

    name = "math.isfinite"


@irdl_op_definition
class IsInfOp(_Classification):
    """Whether an element is infinite."""

    name = "math.isinf"


@irdl_op_definition
class IsNaNOp(_Classification):
    """Whether an element is NaN."""

    name = "math.isnan"


@irdl_op_definition
class IsNormalOp(_Classification):
    """Whether an element is finite, not zero and not denormal."""

    name = "math.isnormal"


@irdl_op_definition
class ErfcOp(FloatingPointLikeUnaryMathOperation):
    """One minus the error function."""

    name = "math.erfc"
    traits = traits_def(Pure())


@irdl_op_definition
class ClampFOp(IRDLOperation):
    """`value` limited to the range from `min` to `max`."""

    name = "math.clampf"

    T: ClassVar = VarConstraint("T", floatingPointLike)

    value = operand_def(T)
    min = operand_def(T)
    max = operand_def(T)
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))
    result = result_def(T)

    traits = traits_def(Pure())
    assembly_format = (
        "$value `to` `[` $min `,` $max `]` (`fastmath` `` $fastmath^)? attr-dict `:` type($value)"
    )


@irdl_op_definition
class SincosOp(IRDLOperation):
    """Sine and cosine at once."""

    name = "math.sincos"

    T: ClassVar = VarConstraint("T", floatingPointLike)

    operand = operand_def(T)
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))
    sin = result_def(T)
    cos = result_def(T)

    traits = traits_def(Pure())
    assembly_format = "$operand (`fastmath` `` $fastmath^)? attr-dict `:` type($operand)"


Math = derive(
    UpstreamMath,
    [IsFiniteOp, IsInfOp, IsNaNOp, IsNormalOp, ErfcOp, ClampFOp, SincosOp],
)

__all__ = [
    "AbsFOp",
    "AbsIOp",
    "AcosOp",
    "AcoshOp",
    "AsinOp",
    "AsinhOp",
    "Atan2Op",
    "AtanOp",
    "AtanhOp",
    "CbrtOp",
    "CeilOp",
    "ClampFOp",
    "CopySignOp",
    "CosOp",
    "CoshOp",
    "CountLeadingZerosOp",
    "CountTrailingZerosOp",
    "CtPopOp",
    "ErfOp",
    "ErfcOp",
    "Exp2Op",
    "ExpM1Op",
    "ExpOp",
    "FPowIOp",
    "FloorOp",
    "FmaOp",
    "IPowIOp",
    "IsFiniteOp",
    "IsInfOp",
    "IsNaNOp",
    "IsNormalOp",
    "Log1pOp",
    "Log2Op",
    "Log10Op",
    "LogOp",
    "Math",
    "PowFOp",
    "RoundEvenOp",
    "RoundOp",
    "RsqrtOp",
    "SinOp",
    "SincosOp",
    "SinhOp",
    "SqrtOp",
    "TanOp",
    "TanhOp",
    "TruncOp",
]
