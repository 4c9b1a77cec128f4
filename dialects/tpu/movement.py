"""Operations that move elements of vectors without computing on them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Self, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AnyAttr,
    BaseAttr,
    VarConstraint,
    attr_def,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.arith import known_integer
from pallasite.dialects.tpu.attrs import VectorPadAttr
from pallasite.dialects.tpu.base import (
    ANY_RANK_VECTOR,
    I32_ARRAY,
    I32_ATTR,
    I64_ARRAY,
    VECTOR,
    HasCanonicalForms,
    TpuOp,
    UnaryOp,
    check_element_types,
    check_inferred,
    check_widths,
    operand,
    operands,
)
from pallasite.dialects.types import AnyVector, bit_width

LAYOUTS = BaseAttr(ArrayAttr)
SAME = VarConstraint("T", AnyAttr())


@irdl_op_definition
class ReshapeOp(TpuOp):
    """The same elements in row-major order under another shape."""

    name = "tpu.reshape"

    source = operand(VECTOR)
    result = result_def(VECTOR)

    traits = traits_def(Pure(), HasCanonicalForms())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def verify_(self) -> None:
        source, result = self.source.type, self.result.type
        check_element_types(source, result)
        if prod(source.get_shape()) != prod(result.get_shape()):
            raise VerifyException(
                f"expected a result of as many elements as {source}, got {result}"
            )


@irdl_op_definition
class TransposeOp(TpuOp):
    """Dimension d of the result is dimension `permutation[d]` of the operand."""

    name = "tpu.transpose"

    vector = operand(ANY_RANK_VECTOR)
    permutation = prop_def(I64_ARRAY)
    result = result_def(ANY_RANK_VECTOR)

    traits = traits_def(Pure())
    assembly_format = "$vector `,` $permutation attr-dict `:` type($vector) `->` type($result)"

    @classmethod
    def of(cls, vector: SSAValue, permutation: Sequence[int]) -> Self:
        """`vector` with dimension `permutation[d]` as dimension d."""
        type = cast(AnyVector, vector.type)
        result = VectorType(type.element_type, [type.get_shape()[d] for d in permutation])
        properties = {"permutation": DenseArrayBase.from_list(i64, list(permutation))}
        return cls(operands=[vector], result_types=[result], properties=properties)

    def verify_(self) -> None:
        source, result = self.vector.type, self.result.type
        check_element_types(source, result)
        permutation = self.permutation.get_values()
        shapes = source.get_shape(), result.get_shape()
        if len(shapes[0]) != len(shapes[1]) or sorted(permutation) != list(range(len(shapes[0]))):
            raise VerifyException(
                f"expected a permutation of the dimensions of {source} and {result}, "
                f"got {list(permutation)}"
            )
        if shapes[1] != tuple(shapes[0][d] for d in permutation):
            raise VerifyException(
                f"permutation {list(permutation)} of {source} does not give {result}"
            )


@irdl_op_definition
class ConcatenateOp(TpuOp):
    """Its operands one after the other along `dimension`."""

    name = "tpu.concatenate"

    sources = operands(VECTOR)
    dimension = prop_def(I32_ATTR)
    result = result_def(VECTOR)

    traits = traits_def(Pure())
    assembly_format = "$sources `in` $dimension attr-dict `:` type($sources) `->` type($result)"

    def verify_(self) -> None:
        if len(self.sources) < 2:
            raise VerifyException(f"expected at least 2 operands, got {len(self.sources)}")
        types = [source.type for source in self.sources]
        first, dim = types[0], self.dimension.value.data
        if not 0 <= dim < first.get_num_dims():
            raise VerifyException(f"dimension {dim} is out of range for {first}")
        shape = list(first.get_shape())
        shape[dim] = 0
        for type in types:
            check_element_types(first, type)
            other = type.get_shape()
            if len(other) != len(shape) or any(
                n != m for d, (n, m) in enumerate(zip(shape, other, strict=True)) if d != dim
            ):
                raise VerifyException(
                    f"expected operands that differ in dimension {dim} only, got {first} and {type}"
                )
            shape[dim] += other[dim]
        check_inferred(self.result.type, VectorType(first.element_type, shape))


@irdl_op_definition
class RepeatOp(TpuOp):
    """Its operand `times` times along `dimension`."""

    name = "tpu.repeat"

    source = operand(VECTOR)
    dimension = prop_def(I32_ATTR)
    times = prop_def(I32_ATTR)
    result = result_def(VECTOR)

    traits = traits_def(Pure())
    assembly_format = (
        "$source `,` $dimension `x` $times attr-dict `:` type($source) `->` type($result)"
    )

    def verify_(self) -> None:
        source, dim, times = self.source.type, self.dimension.value.data, self.times.value.data
        check_dimensions([dim], source.get_num_dims())
        if times < 1:
            raise VerifyException(f"expected at least one time, got {times}")
        shape = list(source.get_shape())
        shape[dim] *= times
        check_inferred(self.result.type, VectorType(source.element_type, shape))


@irdl_op_definition
class BitcastOp(UnaryOp):
    """The bits of a vector as another element type, which scales the second minor dimension."""

    name = "tpu.bitcast"

    input = operand(VECTOR)
    result = result_def(VECTOR)

    traits = traits_def(Pure())

    def verify_(self) -> None:
        source, result = self.input.type, self.result.type
        check_widths(source, result)
        widths = bit_width(source), bit_width(result)
        shapes = list(source.get_shape()), list(result.get_shape())
        if widths[0] != widths[1]:
            if min(map(len, shapes)) < 2:
                raise VerifyException(
                    f"expected ranks of at least 2 for another width, got {source} and {result}"
                )
            for shape, width in zip(shapes, widths, strict=True):
                shape[-2] *= width
        if shapes[0] != shapes[1]:
            raise VerifyException(
                f"expected as many bits in each dimension, got {source} and {result}"
            )


@irdl_op_definition
class BitcastVregOp(UnaryOp):
    """The bits of a register as another register type."""

    name = "tpu.bitcast_vreg"

    input = operand(VECTOR)
    result = result_def(VECTOR)

    traits = traits_def(Pure(), HasCanonicalForms())

    def verify_(self) -> None:
        source, result = self.input.type, self.result.type
        check_widths(source, result)
        if source != result and words_of(source) != words_of(result):
            raise VerifyException(f"expected as many words, got {source} and {result}")


@irdl_op_definition
class RelayoutOp(UnaryOp):
    """The same values in another vector layout; only jaxlib up to 0.10 has it."""

    name = "tpu.relayout"

    input = operand(VECTOR)
    # jaxlib has these as discardable attributes, which its verifier then wants.
    in_layout = attr_def(LAYOUTS)
    out_layout = attr_def(LAYOUTS)
    result = result_def(VECTOR)

    traits = traits_def(Pure())

    def verify_(self) -> None:
        check_inferred(self.result.type, self.input.type)
        for layouts in (self.in_layout.data, self.out_layout.data):
            if len(layouts) != 1 or not isinstance(layouts[0], VectorPadAttr):
                raise VerifyException(f"expected an array of one #tpu.vpad, got {layouts}")


@irdl_op_definition
class IotaOp(TpuOp):
    """Counts row-major over `dimensions` in their listed order."""

    name = "tpu.iota"

    dimensions = prop_def(I32_ARRAY)
    result = result_def(VECTOR)

    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def verify_(self) -> None:
        result = self.result.type
        if not isinstance(result.element_type, IntegerType | IndexType):
            raise VerifyException(f"expected a vector of integers, got {result}")
        check_dimensions(self.dimensions.get_values(), result.get_num_dims())


@irdl_op_definition
class RollVectorsOp(TpuOp):
    """Several registers taken as one vector."""

    name = "tpu.roll_vectors"

    input = operands(ANY_RANK_VECTOR)
    output = result_def(ANY_RANK_VECTOR)

    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `->` type($output)"


@irdl_op_definition
class UnrollVectorsOp(TpuOp):
    """One vector taken as several registers."""

    name = "tpu.unroll_vectors"

    input = operand(ANY_RANK_VECTOR)
    output = var_result_def(ANY_RANK_VECTOR)

    traits = traits_def(Pure(), HasCanonicalForms())
    assembly_format = "$input attr-dict `:` type($input) `->` type($output)"


@irdl_op_definition
class AssumeMultipleOp(TpuOp):
    """Its operand, which the kernel's author promises to be a multiple."""

    name = "tpu.assume_multiple"

    value = operand(SAME)
    multiple = prop_def(I32_ATTR)
    result = result_def(SAME)

    traits = traits_def(Pure())
    assembly_format = "$value `,` $multiple attr-dict `:` type($result)"

    @classmethod
    def of(cls, value: SSAValue, multiple: int) -> Self:
        """That `value` is a multiple of `multiple`."""
        properties = {"multiple": IntegerAttr(multiple, i32)}
        return cls(operands=[value], result_types=[value.type], properties=properties)

    def verify_(self) -> None:
        type, multiple = self.value.type, self.multiple.value.data
        if not isinstance(type, IntegerType | IndexType):
            raise VerifyException(f"expected an integer or index, got {type}")
        if multiple == 0:
            raise VerifyException(f"expected a multiple of at least 1, got {multiple}")
        if (constant := known_integer(self.value)) is not None and constant % multiple:
            raise VerifyException(f"constant {constant} is no multiple of {multiple}")


def words_of(register: AnyVector) -> tuple[int, ...]:
    """The shape of the words of registers, whose last dimension is within them if they are packed.

    Raises for a vector that is none.
    """
    shape, width = register.get_shape(), bit_width(register)
    if width == 32:
        return shape
    if width > 32 or 32 % width or len(shape) < 2 or shape[-1] != 32 // width:
        raise VerifyException(f"expected registers of words, got {register}")
    return shape[:-1]


def check_dimensions(dims: Sequence[int], rank: int) -> None:
    """The dimensions exist and differ."""
    if len(set(dims)) != len(dims):
        raise VerifyException(f"expected different dimensions, got {list(dims)}")
    for dim in dims:
        if not 0 <= dim < rank:
            raise VerifyException(f"dimension {dim} is out of range for rank {rank}")


OPERATIONS = (
    ReshapeOp,
    TransposeOp,
    ConcatenateOp,
    RepeatOp,
    BitcastOp,
    BitcastVregOp,
    RelayoutOp,
    IotaOp,
    RollVectorsOp,
    UnrollVectorsOp,
    AssumeMultipleOp,
)
