"""Casts of `arith` between scalars or vectors of one shape; part of `pallasite.dialects.arith`."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.arith import FastMathFlagsAttr, IntegerOverflowAttr
from xdsl.dialects.builtin import (
    I32,
    IndexType,
    IntegerAttr,
    IntegerType,
    UnitAttr,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.arith_cast_rules import (
    verify_index_cast,
    verify_kind,
    verify_one_width,
    verify_same_shape,
    verify_width,
)
from pallasite.dialects.directives import ROUNDING_MODES, RoundingMode
from pallasite.dialects.integers import unsigned, wrap


def rounding_of(op: _RoundingCast | ScalingTruncFOp) -> str:
    """How `op` rounds, by MLIR's name of the mode; raises a `VerifyException` if there is none."""
    number = 0 if op.roundingmode is None else op.roundingmode.value.data
    if not 0 <= number < len(ROUNDING_MODES):
        raise VerifyException(f"expected a rounding mode below {len(ROUNDING_MODES)}, got {number}")
    return ROUNDING_MODES[number]


class Cast(IRDLOperation, ABC):
    """One value of one kind made into another kind, elementwise."""

    input = operand_def()
    result = result_def()

    traits = traits_def(Pure())

    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    FROM_KIND: ClassVar[str] = "integer"
    TO_KIND: ClassVar[str] = "integer"
    WIDENS: ClassVar[bool | None] = None

    def __init__(self, input_arg: SSAValue | Operation, target_type: Attribute) -> None:
        super().__init__(operands=[input_arg], result_types=[target_type])

    def verify_(self) -> None:
        source, target = self.input.type, self.result.type
        verify_same_shape(source, target)
        verify_kind(source, self.FROM_KIND)
        verify_kind(target, self.TO_KIND)
        if self.WIDENS is not None:
            verify_width(source, target, widens=self.WIDENS)


class IntegerCast(Cast, HasFolderInterface, ABC):
    """A cast between integers; of a constant it is a constant."""

    SIGNED: ClassVar[bool] = True

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        value = ConstantLike.get_constant_value(self.input)
        target = self.result.type
        if not isinstance(value, IntegerAttr) or not isinstance(target, IntegerType | IndexType):
            return None
        data = value.value.data
        source = value.type
        if isinstance(source, IntegerType):
            data = (wrap if self.SIGNED else unsigned)(data, source.bitwidth)
        return (IntegerAttr(data, target, truncate_bits=True),)


class _UnsignedCast(Cast, ABC):
    """A cast of an integer without sign; `nneg` promises that its highest bit is not set."""

    non_neg = opt_prop_def(UnitAttr, prop_name="nonNeg")
    assembly_format = "$input (`nneg` $nonNeg^)? attr-dict `:` type($input) `to` type($result)"


class _RoundingCast(Cast, ABC):
    """A cast between floats that rounds to nearest even unless `roundingmode` says otherwise."""

    FROM_KIND: ClassVar[str] = "float"
    TO_KIND: ClassVar[str] = "float"
    roundingmode = opt_prop_def(IntegerAttr[I32])
    fastmath = opt_prop_def(FastMathFlagsAttr)
    custom_directives = (RoundingMode,)
    assembly_format = (
        "$input custom<RoundingMode>($roundingmode) (`fastmath` `` $fastmath^)? attr-dict"
        " `:` type($input) `to` type($result)"
    )

    def verify_(self) -> None:
        super().verify_()
        rounding_of(self)


@irdl_op_definition
class IndexCastOp(IntegerCast):
    """Converts between `index` and a signed integer."""

    name = "arith.index_cast"

    def verify_(self) -> None:
        verify_index_cast(self.input.type, self.result.type)


@irdl_op_definition
class IndexCastUIOp(_UnsignedCast, IntegerCast):
    """Converts between `index` and an unsigned integer."""

    name = "arith.index_castui"

    SIGNED: ClassVar[bool] = False

    def verify_(self) -> None:
        verify_index_cast(self.input.type, self.result.type)


@irdl_op_definition
class BitcastOp(Cast):
    """The same bits as a number of another type."""

    name = "arith.bitcast"

    def verify_(self) -> None:
        source, target = self.input.type, self.result.type
        verify_same_shape(source, target)
        verify_kind(source, "integer or float", memory=True)
        verify_kind(target, "integer or float", memory=True)
        verify_one_width(source, target)


@irdl_op_definition
class FPToSIOp(Cast):
    """Rounds a float towards zero to a signed integer."""

    name = "arith.fptosi"
    FROM_KIND: ClassVar[str] = "float"


@irdl_op_definition
class FPToUIOp(Cast):
    """Rounds a float towards zero to an unsigned integer."""

    name = "arith.fptoui"
    FROM_KIND: ClassVar[str] = "float"


@irdl_op_definition
class SIToFPOp(Cast):
    """The float nearest to a signed integer."""

    name = "arith.sitofp"
    TO_KIND: ClassVar[str] = "float"


@irdl_op_definition
class UIToFPOp(_UnsignedCast):
    """The float nearest to an unsigned integer."""

    name = "arith.uitofp"
    TO_KIND: ClassVar[str] = "float"


@irdl_op_definition
class ExtSIOp(IntegerCast):
    """A wider integer with the sign bit repeated."""

    name = "arith.extsi"
    WIDENS: ClassVar[bool | None] = True


@irdl_op_definition
class ExtUIOp(_UnsignedCast, IntegerCast):
    """A wider integer with zeros above."""

    name = "arith.extui"
    SIGNED: ClassVar[bool] = False
    WIDENS: ClassVar[bool | None] = True


@irdl_op_definition
class TruncIOp(IntegerCast):
    """The low bits of an integer."""

    name = "arith.trunci"
    WIDENS: ClassVar[bool | None] = False
    overflow_flags = prop_def(
        IntegerOverflowAttr,
        default_value=IntegerOverflowAttr("none"),
        prop_name="overflowFlags",
    )
    assembly_format = (
        "$input (`overflow` `` $overflowFlags^)? attr-dict `:` type($input) `to` type($result)"
    )


@irdl_op_definition
class ExtFOp(Cast):
    """A wider float of the same value."""

    name = "arith.extf"
    FROM_KIND: ClassVar[str] = "float"
    TO_KIND: ClassVar[str] = "float"
    WIDENS: ClassVar[bool | None] = True
    fastmath = opt_prop_def(FastMathFlagsAttr)
    assembly_format = (
        "$input (`fastmath` `` $fastmath^)? attr-dict `:` type($input) `to` type($result)"
    )


@irdl_op_definition
class TruncFOp(_RoundingCast):
    """A narrower float, rounded to nearest even unless `roundingmode` says otherwise."""

    name = "arith.truncf"
    WIDENS: ClassVar[bool | None] = False

    def __init__(
        self,
        input_arg: SSAValue | Operation,
        target_type: Attribute,
        roundingmode: IntegerAttr | None = None,
    ) -> None:
        IRDLOperation.__init__(
            self,
            operands=[input_arg],
            result_types=[target_type],
            properties={"roundingmode": roundingmode},
        )


@irdl_op_definition
class ConvertFOp(_RoundingCast):
    """A float of the same width in another format."""

    name = "arith.convertf"

    def verify_(self) -> None:
        super().verify_()
        verify_one_width(self.input.type, self.result.type)


class _ScalingCast(IRDLOperation, ABC):
    """A conversion of block-scaled numbers: the scale has a power of two per element."""

    input = operand_def()
    scale = operand_def()
    result = result_def()

    traits = traits_def(Pure())

    WIDENS: ClassVar[bool]

    def verify_(self) -> None:
        for type in (self.input.type, self.scale.type, self.result.type):
            verify_kind(type, "float")
        verify_same_shape(self.input.type, self.result.type)
        verify_same_shape(self.input.type, self.scale.type)
        verify_width(self.input.type, self.result.type, widens=self.WIDENS)


@irdl_op_definition
class ScalingExtFOp(_ScalingCast):
    """Widens a float and multiplies it by its scale."""

    name = "arith.scaling_extf"
    WIDENS: ClassVar[bool] = True
    fastmath = opt_prop_def(FastMathFlagsAttr)
    assembly_format = (
        "$input `,` $scale (`fastmath` `` $fastmath^)? attr-dict"
        " `:` type($input) `,` type($scale) `to` type($result)"
    )


@irdl_op_definition
class ScalingTruncFOp(_ScalingCast):
    """Divides a float by its scale and narrows it."""

    name = "arith.scaling_truncf"
    WIDENS: ClassVar[bool] = False
    roundingmode = opt_prop_def(IntegerAttr[I32])
    fastmath = opt_prop_def(FastMathFlagsAttr)
    custom_directives = (RoundingMode,)
    assembly_format = (
        "$input `,` $scale custom<RoundingMode>($roundingmode) (`fastmath` `` $fastmath^)?"
        " attr-dict `:` type($input) `,` type($scale) `to` type($result)"
    )

    def verify_(self) -> None:
        super().verify_()
        rounding_of(self)


CASTS = (
    BitcastOp,
    IndexCastOp,
    IndexCastUIOp,
    FPToSIOp,
    FPToUIOp,
    SIToFPOp,
    UIToFPOp,
    ExtSIOp,
    ExtUIOp,
    TruncIOp,
    ExtFOp,
    TruncFOp,
    ConvertFOp,
    ScalingExtFOp,
    ScalingTruncFOp,
)
