"""Narrow elements packed into 32-bit words and taken out of them (spec/tpu_dialect.md 3.4)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    bf16,
    f32,
    i32,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    BaseAttr,
    irdl_op_definition,
    opt_prop_def,
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
    I32_ARRAY,
    I32_ATTR,
    TRUE,
    VECTOR,
    VECTOR_F32_OR_INTEGER,
    VECTOR_INTEGER,
    Elementwise,
    HasCanonicalForms,
    TpuOp,
    check_positions,
    check_same_types,
    check_widths,
    is_signless,
    operand,
    operands,
)
from pallasite.dialects.tpu.keywords import PackFormat, PackFormatAttr
from pallasite.dialects.types import bit_width

PACK_FORMAT = BaseAttr(PackFormatAttr)


@irdl_op_definition
class PackElementwiseOp(TpuOp):
    """Elements of several vectors in one word each, source 0 in the lowest bits."""

    name = "tpu.pack_elementwise"

    sources = operands(VECTOR_F32_OR_INTEGER)
    target_type = prop_def(ANY)
    result = result_def(VECTOR_INTEGER)

    traits = traits_def(Pure(), Elementwise())
    assembly_format = "$sources attr-dict `:` type($sources) `->` type($result)"

    def verify_(self) -> None:
        if not self.sources:
            raise VerifyException("expected at least one source")
        check_same_types(self.sources)
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

    traits = traits_def(Pure(), Elementwise())
    assembly_format = "$source `,` $index attr-dict `:` type($source) `->` type($result)"

    def verify_(self) -> None:
        result, narrow = self.result.type, self.source_type
        if bit_width(self.source.type) != bit_width(result):
            raise VerifyException(
                f"expected elements of one width, got {self.source.type} and {result}"
            )
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

    traits = traits_def(Pure())
    assembly_format = "$sources attr-dict `:` type($sources) `->` type($result)"

    @staticmethod
    def in_order(
        sources: Sequence[SSAValue], type: Attribute, pack_format: PackFormat
    ) -> PackSubelementsOp:
        """Source number i becomes part i of each word of the result, which has `type`."""
        positions = DenseArrayBase.from_list(i32, list(range(len(sources))))
        return PackSubelementsOp(
            operands=[sources],
            result_types=[type],
            properties={"positions": positions, "pack_format": PackFormatAttr(pack_format)},
        )

    def verify_(self) -> None:
        if not self.sources:
            raise VerifyException("expected at least one source")
        check_same_types(self.sources)
        check_widths(self.sources[0].type, self.result.type)
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

    traits = traits_def(Pure(), HasCanonicalForms())
    assembly_format = "$source `,` $index attr-dict `:` type($source) `->` type($result)"

    def __post_init__(self) -> None:
        # The old C++ passes called the property `sign_extended`.
        for data in (self.properties, self.attributes):
            if (old := data.pop("sign_extended", None)) is not None:
                self.properties["integer_extended"] = old
        super().__post_init__()

    def verify_(self) -> None:
        source, result = self.source.type, self.result.type
        check_widths(source, result)
        if bit_width(source) >= bit_width(result):
            raise VerifyException(
                f"expected a source of narrower elements than {result}, got {source}"
            )
        check_part(self.index.value.data, bit_width(result) // bit_width(source))
        if self.unsigned_integers.value.data and not is_signless(source.element_type):
            raise VerifyException(f"unsigned_integers is for signless integers, got {source}")


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
    PackElementwiseOp,
    UnpackElementwiseOp,
    PackSubelementsOp,
    UnpackSubelementsOp,
)
