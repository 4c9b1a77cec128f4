"""Elementwise operations, conversions, and the packing of narrow elements into words."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float8E4M3B11FNUZType,
    Float8E4M3FNType,
    Float8E5M2Type,
    IntegerType,
    bf16,
    f32,
    i1,
    i32,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    BaseAttr,
    ParsePropInAttrDict,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.tpu.attrs import PackFormatAttr, RoundingModeAttr
from pallasite.dialects.tpu.base import (
    ANY,
    BOOL_ATTR,
    FALSE,
    FLOAT_LIKE,
    I32_ATTR,
    SIGNLESS_LIKE,
    TRUE,
    VECTOR,
    VECTOR_F32,
    VECTOR_F32_OR_INTEGER,
    VECTOR_I32,
    VECTOR_INTEGER,
    AnyVector,
    Elementwise,
    TpuOp,
    array_of,
    check_positions,
    check_same_types,
    is_signless,
    operand,
    operands,
)
from pallasite.dialects.types import bit_width, element_type

I32_ARRAY = array_of(i32)
STOCHASTIC_TARGETS = (
    BFloat16Type,
    Float8E5M2Type,
    Float8E4M3FNType,
    Float8E4M3B11FNUZType,
    Float4E2M1FNType,
)
i4 = IntegerType(4)
ROUNDING_MODE = BaseAttr(RoundingModeAttr)
PACK_FORMAT = BaseAttr(PackFormatAttr)
ELEMENTWISE = (Pure(), Elementwise())
UNARY_FORMAT = "$input attr-dict `:` type($input) `->` type($result)"


@irdl_op_definition
class WeirdOp(TpuOp):
    """Whether a float is infinite or NaN."""

    name = "tpu.weird"

    input = operand(ANY)
    result = result_def(ANY)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(*ELEMENTWISE)
    assembly_format = UNARY_FORMAT

    def verify_(self) -> None:
        types = self.input.type, self.result.type
        if element_type(types[0]) != f32 or element_type(types[1]) != i1:
            raise VerifyException(f"expected f32 and i1, got {types[0]} and {types[1]}")


@irdl_op_definition
class ReciprocalOp(TpuOp):
    """1/x, if `approx` only roughly."""

    name = "tpu.reciprocal"

    input = operand(VECTOR)
    approx = prop_def(BOOL_ATTR, default_value=FALSE)
    full_range = prop_def(BOOL_ATTR, default_value=TRUE)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(*ELEMENTWISE)
    assembly_format = UNARY_FORMAT

    def verify_(self) -> None:
        check_same_type(self.input.type, self.result.type)
        if self.input.type.element_type != f32:
            raise VerifyException(f"expected a vector of f32, got {self.input.type}")


@irdl_op_definition
class LogisticOp(TpuOp):
    """1/(1+exp(-x))."""

    name = "tpu.logistic"

    input = operand(VECTOR)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(*ELEMENTWISE)
    assembly_format = UNARY_FORMAT

    def verify_(self) -> None:
        check_same_type(self.input.type, self.result.type)


@irdl_op_definition
class FptosiOp(TpuOp):
    """A float rounded to a signed integer."""

    name = "tpu.fptosi"

    input = operand(FLOAT_LIKE)
    rounding_mode = prop_def(ROUNDING_MODE)
    result = result_def(SIGNLESS_LIKE)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(*ELEMENTWISE)
    assembly_format = UNARY_FORMAT


@irdl_op_definition
class FptouiOp(TpuOp):
    """A float rounded to an unsigned integer."""

    name = "tpu.fptoui"

    input = operand(FLOAT_LIKE)
    rounding_mode = prop_def(ROUNDING_MODE)
    result = result_def(SIGNLESS_LIKE)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(*ELEMENTWISE)
    assembly_format = UNARY_FORMAT


@irdl_op_definition
class SitofpOp(TpuOp):
    """A signed integer as a float."""

    name = "tpu.sitofp"

    input = operand(SIGNLESS_LIKE)
    rounding_mode = prop_def(ROUNDING_MODE)
    result = result_def(FLOAT_LIKE)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(*ELEMENTWISE)
    assembly_format = UNARY_FORMAT


@irdl_op_definition
class UitofpOp(TpuOp):
    """An unsigned integer as a float."""

    name = "tpu.uitofp"

    input = operand(SIGNLESS_LIKE)
    rounding_mode = prop_def(ROUNDING_MODE)
    result = result_def(FLOAT_LIKE)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(*ELEMENTWISE)
    assembly_format = UNARY_FORMAT


@irdl_op_definition
class ExtfOp(TpuOp):
    """A float as a wider float."""

    name = "tpu.extf"

    input = operand(FLOAT_LIKE)
    result = result_def(FLOAT_LIKE)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(*ELEMENTWISE)
    assembly_format = UNARY_FORMAT


@irdl_op_definition
class TruncfOp(TpuOp):
    """A float rounded to a narrower float."""

    name = "tpu.truncf"

    input = operand(FLOAT_LIKE)
    rounding_mode = prop_def(ROUNDING_MODE)
    result = result_def(FLOAT_LIKE)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(*ELEMENTWISE)
    assembly_format = UNARY_FORMAT


@irdl_op_definition
class StochasticConvertOp(TpuOp):
    """A float rounded up or down at random, with odds by distance."""

    name = "tpu.stochastic_convert"

    input = operand(VECTOR_F32)
    random = operand(VECTOR_I32)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
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


@irdl_op_definition
class StochasticConvertElementwiseOp(TpuOp):
    """A float rounded at random to `dst_type`, in the low bits of an i32."""

    name = "tpu.stochastic_convert_elementwise"

    input = operand(VECTOR_F32)
    random = operand(VECTOR_I32)
    dst_type = prop_def(ANY)
    result = result_def(VECTOR_I32)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(*ELEMENTWISE)
    assembly_format = (
        "$input `,` $random attr-dict `:` type($input) `,` type($random) `->` type($result)"
    )

    def verify_(self) -> None:
        if not isinstance(self.dst_type, STOCHASTIC_TARGETS) and self.dst_type != i4:
            raise VerifyException(
                f"expected bf16, f8E5M2, f8E4M3FN, f8E4M3B11FNUZ, f4E2M1FN or i4 as dst_type, "
                f"got {self.dst_type}"
            )


@irdl_op_definition
class PackElementwiseOp(TpuOp):
    """Elements of several vectors in one word each, source 0 in the lowest bits."""

    name = "tpu.pack_elementwise"

    sources = operands(VECTOR_F32_OR_INTEGER)
    target_type = prop_def(ANY)
    result = result_def(VECTOR_INTEGER)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(*ELEMENTWISE)
    assembly_format = "$sources attr-dict `:` type($sources) `->` type($result)"

    def verify_(self) -> None:
        if not self.sources:
            raise VerifyException("expected at least one source")
        check_same_types(self.sources, "sources")
        source, result, target = self.sources[0].type, self.result.type, self.target_type
        if bit_width(source) != bit_width(result):
            raise VerifyException(f"expected elements of one width, got {source} and {result}")
        if not is_signless(result.element_type):
            raise VerifyException(f"expected a result of signless integers, got {result}")
        check_packable(source.element_type, target)
        ratio = bit_width(source) // bit_width(target)
        if len(self.sources) != ratio:
            raise VerifyException(f"expected {ratio} sources for {target}, got {len(self.sources)}")


@irdl_op_definition
class UnpackElementwiseOp(TpuOp):
    """Field `index` of each word, widened; index 0 is in the lowest bits."""

    name = "tpu.unpack_elementwise"

    source = operand(VECTOR_INTEGER)
    source_type = prop_def(ANY)
    index = prop_def(I32_ATTR)
    result = result_def(VECTOR_F32_OR_INTEGER)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(*ELEMENTWISE)
    assembly_format = "$source `,` $index attr-dict `:` type($source) `->` type($result)"

    def verify_(self) -> None:
        source, result, narrow = self.source.type, self.result.type, self.source_type
        if bit_width(source) != bit_width(result):
            raise VerifyException(f"expected elements of one width, got {source} and {result}")
        if not is_signless(source.element_type):
            raise VerifyException(f"expected a source of signless integers, got {source}")
        check_packable(result.element_type, narrow)
        check_part(self.index.value.data, bit_width(result) // bit_width(narrow))


@irdl_op_definition
class PackSubelementsOp(TpuOp):
    """Registers of wide elements packed into one of narrow elements at the given positions."""

    name = "tpu.pack_subelements"

    sources = operands(VECTOR)
    positions = prop_def(I32_ARRAY)
    pack_format = prop_def(PACK_FORMAT)
    unsigned_integers = opt_prop_def(BOOL_ATTR, default_value=FALSE)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$sources attr-dict `:` type($sources) `->` type($result)"

    def verify_(self) -> None:
        if not self.sources:
            raise VerifyException("expected at least one source")
        check_same_types(self.sources, "sources")
        factor = bit_width(self.sources[0].type) // bit_width(self.result.type)
        check_positions(self.positions, len(self.sources), factor)


@irdl_op_definition
class UnpackSubelementsOp(TpuOp):
    """Part `index` of a register of narrow elements, widened."""

    name = "tpu.unpack_subelements"

    source = operand(VECTOR)
    index = prop_def(I32_ATTR)
    pack_format = prop_def(PACK_FORMAT)
    integer_extended = prop_def(BOOL_ATTR, default_value=TRUE)
    unsigned_integers = prop_def(BOOL_ATTR, default_value=FALSE)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$source `,` $index attr-dict `:` type($source) `->` type($result)"

    def __post_init__(self) -> None:
        # The old C++ passes called the property `sign_extended`.
        for data in (self.properties, self.attributes):
            if (old := data.pop("sign_extended", None)) is not None:
                self.properties["integer_extended"] = old
        super().__post_init__()

    def verify_(self) -> None:
        source, result = self.source.type, self.result.type
        check_part(self.index.value.data, bit_width(result) // bit_width(source))
        if self.unsigned_integers.value.data and not is_signless(source.element_type):
            raise VerifyException(f"unsigned_integers is for signless integers, got {source}")


def check_same_type(input: AnyVector, result: AnyVector) -> None:
    """Operand and result have one type."""
    if input != result:
        raise VerifyException(f"expected result {input}, got {result}")


def check_packable(wide: Attribute, narrow: Attribute) -> None:
    """f32 is packed as bf16, a signless integer as a signless integer."""
    if (wide == f32 and narrow == bf16) or (is_signless(wide) and is_signless(narrow)):
        return
    raise VerifyException(f"expected f32 and bf16 or two signless integers, got {wide}, {narrow}")


def check_part(index: int, parts: int) -> None:
    """The index names one of the parts."""
    if not 0 <= index < parts:
        raise VerifyException(f"expected an index in [0, {parts}), got {index}")


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
    PackElementwiseOp,
    UnpackElementwiseOp,
    PackSubelementsOp,
    UnpackSubelementsOp,
)
