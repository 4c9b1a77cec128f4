"""Elementwise operations, conversions, and the packing of narrow elements into words."""

from __future__ import annotations

from abc import ABC

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float8E4M3B11FNUZType,
    Float8E4M3FNType,
    Float8E5M2Type,
    IntegerType,
    TensorType,
    VectorType,
    f32,
    i1,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    BaseAttr,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.tpu.base import (
    ANY,
    BOOL_ATTR,
    FALSE,
    FLOAT_LIKE,
    SIGNLESS_LIKE,
    TRUE,
    VECTOR,
    VECTOR_F32,
    VECTOR_I32,
    Elementwise,
    ElementwiseOp,
    HasCanonicalForms,
    TpuOp,
    check_inferred,
    operand,
)
from pallasite.dialects.tpu.keywords import RoundingModeAttr
from pallasite.dialects.types import bit_width, is_float

STOCHASTIC_TARGETS = (
    BFloat16Type,
    Float8E5M2Type,
    Float8E4M3FNType,
    Float8E4M3B11FNUZType,
    Float4E2M1FNType,
)
i4 = IntegerType(4)
ROUNDING_MODE = BaseAttr(RoundingModeAttr)


@irdl_op_definition
class WeirdOp(ElementwiseOp):
    """Whether a float is infinite or NaN."""

    name = "tpu.weird"

    input = operand(ANY)
    result = result_def(ANY)

    def verify_(self) -> None:
        input, result = self.input.type, self.result.type
        if scalar_of(input) != f32 or scalar_of(result) != i1:
            raise VerifyException(f"expected f32 and i1, got {input} and {result}")


@irdl_op_definition
class ReciprocalOp(ElementwiseOp):
    """1/x, if `approx` only roughly."""

    name = "tpu.reciprocal"

    input = operand(VECTOR)
    approx = prop_def(BOOL_ATTR, default_value=FALSE)
    full_range = prop_def(BOOL_ATTR, default_value=TRUE)
    result = result_def(VECTOR)

    def verify_(self) -> None:
        check_inferred(self.result.type, self.input.type)
        if self.input.type.element_type != f32:
            raise VerifyException(f"expected a vector of f32, got {self.input.type}")


@irdl_op_definition
class LogisticOp(ElementwiseOp):
    """1/(1+exp(-x))."""

    name = "tpu.logistic"

    input = operand(VECTOR)
    result = result_def(VECTOR)

    def verify_(self) -> None:
        check_inferred(self.result.type, self.input.type)


class _FloatToIntegerOp(ElementwiseOp, ABC):
    """A number made into one of the other kind, rounded as `rounding_mode` says."""

    input = operand(FLOAT_LIKE)
    rounding_mode = prop_def(ROUNDING_MODE)
    result = result_def(SIGNLESS_LIKE)


@irdl_op_definition
class FptosiOp(_FloatToIntegerOp):
    """A float rounded to a signed integer."""

    name = "tpu.fptosi"

    traits = traits_def(HasCanonicalForms())


@irdl_op_definition
class FptouiOp(_FloatToIntegerOp):
    """A float rounded to an unsigned integer."""

    name = "tpu.fptoui"


class _IntegerToFloatOp(ElementwiseOp, ABC):
    """A number made into one of the other kind, rounded as `rounding_mode` says."""

    input = operand(SIGNLESS_LIKE)
    rounding_mode = prop_def(ROUNDING_MODE)
    result = result_def(FLOAT_LIKE)


@irdl_op_definition
class SitofpOp(_IntegerToFloatOp):
    """A signed integer as a float."""

    name = "tpu.sitofp"


@irdl_op_definition
class UitofpOp(_IntegerToFloatOp):
    """An unsigned integer as a float."""

    name = "tpu.uitofp"


@irdl_op_definition
class ExtfOp(ElementwiseOp):
    """A float as a wider float."""

    name = "tpu.extf"

    input = operand(FLOAT_LIKE)
    result = result_def(FLOAT_LIKE)

    traits = traits_def(HasCanonicalForms())

    def verify_(self) -> None:
        check_narrower(self.input.type, self.result.type)


@irdl_op_definition
class TruncfOp(ElementwiseOp):
    """A float rounded to a narrower float."""

    name = "tpu.truncf"

    input = operand(FLOAT_LIKE)
    rounding_mode = prop_def(ROUNDING_MODE)
    result = result_def(FLOAT_LIKE)

    traits = traits_def(HasCanonicalForms())

    def verify_(self) -> None:
        check_narrower(self.result.type, self.input.type)


@irdl_op_definition
class StochasticConvertOp(TpuOp):
    """A float rounded up or down at random, with odds by distance."""

    name = "tpu.stochastic_convert"

    input = operand(VECTOR_F32)
    random = operand(VECTOR_I32)
    result = result_def(VECTOR)

    traits = traits_def(Pure())
    assembly_format = (
        "$input `,` $random attr-dict `:` type($input) `,` type($random) `->` type($result)"
    )

    def verify_(self) -> None:
        shapes = {v.type.get_shape() for v in (self.input, self.random, self.result)}
        if len(shapes) != 1:
            raise VerifyException(
                f"expected one shape, got {self.input.type}, {self.random.type} "
                f"and {self.result.type}"
            )
        if not is_float(self.result.type.element_type):
            raise VerifyException(f"expected a result of floats, got {self.result.type}")
        check_narrower(self.result.type, self.input.type)


@irdl_op_definition
class StochasticConvertElementwiseOp(TpuOp):
    """A float rounded at random to `dst_type`, in the low bits of an i32."""

    name = "tpu.stochastic_convert_elementwise"

    input = operand(VECTOR_F32)
    random = operand(VECTOR_I32)
    dst_type = prop_def(ANY)
    result = result_def(VECTOR_I32)

    traits = traits_def(Pure(), Elementwise())
    assembly_format = (
        "$input `,` $random attr-dict `:` type($input) `,` type($random) `->` type($result)"
    )

    def verify_(self) -> None:
        if not isinstance(self.dst_type, STOCHASTIC_TARGETS) and self.dst_type != i4:
            raise VerifyException(
                f"expected bf16, f8E5M2, f8E4M3FN, f8E4M3B11FNUZ, f4E2M1FN or i4 as dst_type, "
                f"got {self.dst_type}"
            )


def scalar_of(type: Attribute) -> Attribute:
    """The element type of a vector or tensor, else the type itself."""
    return type.element_type if isinstance(type, VectorType | TensorType) else type


def check_narrower(narrow: Attribute, wide: Attribute) -> None:
    """One type of floats has fewer bits than the other; both may be the same."""
    one, other = scalar_of(narrow), scalar_of(wide)
    if one != other and bit_width(one) >= bit_width(other):
        raise VerifyException(f"expected {one} to be narrower than {other}")


OPERATIONS = (
    WeirdOp,
    ReciprocalOp,
    LogisticOp,
    FptosiOp,
    FptouiOp,
    SitofpOp,
    UitofpOp,
    ExtfOp,
    TruncfOp,
    StochasticConvertOp,
    StochasticConvertElementwiseOp,
)
