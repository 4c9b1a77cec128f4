"""Operations of `vector` that move elements about; part of `pallasite.dialects.vector`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    VectorType,
    i64,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.types import AnyVector, dense_integers, vector_type

Integers = ArrayAttr[IntegerAttr[I64]]


def integers(values: Sequence[int]) -> Integers:
    """`[values]` of i64."""
    return ArrayAttr([IntegerAttr(v, i64) for v in values])


def values_of(attribute: Integers) -> tuple[int, ...]:
    """The numbers of an array of integer attributes."""
    return tuple(v.value.data for v in attribute)


def verify_element_types(first: Attribute, second: Attribute) -> None:
    """A value that only moves keeps its element type."""
    one, two = (t.element_type if isinstance(t, VectorType) else t for t in (first, second))
    if one != two:
        raise VerifyException(f"expected one element type, got {first} and {second}")


@irdl_op_definition
class ShapeCastOp(IRDLOperation, HasFolderInterface):
    """The same elements in row-major order under another shape.

    Example: `%1 = vector.shape_cast %0 : vector<8x128xf32> to vector<1x8x128xf32>`
    """

    name = "vector.shape_cast"

    source = operand_def(VectorType)
    result = result_def(VectorType)

    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def __init__(self, source: SSAValue | Operation, result_type: Attribute) -> None:
        super().__init__(operands=[source], result_types=[result_type])

    def verify_(self) -> None:
        source, result = vector_type(self.source), vector_type(self.result)
        verify_element_types(source, result)
        if prod(source.get_shape()) != prod(result.get_shape()):
            raise VerifyException(f"expected as many elements in {result} as in {source}")

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        if self.source.type == self.result.type:
            return (self.source,)
        return None


@irdl_op_definition
class BroadcastOp(IRDLOperation, HasFolderInterface):
    """Repeats a scalar or vector along leading dimensions and dimensions of size 1.

    Example: `%1 = vector.broadcast %0 : vector<1x128xf32> to vector<8x128xf32>`
    """

    name = "vector.broadcast"

    source = operand_def()
    vector = result_def(VectorType)

    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($vector)"

    def __init__(self, source: Operation | SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[source], result_types=[result_type])

    def verify_(self) -> None:
        source, result = self.source.type, vector_type(self.vector)
        verify_element_types(source, result)
        shape = cast(AnyVector, source).get_shape() if isinstance(source, VectorType) else ()
        target = result.get_shape()
        if len(shape) > len(target):
            raise VerifyException(
                f"expected a source of at most the rank of {result}, got {source}"
            )
        for size, into in zip(reversed(shape), reversed(target), strict=False):
            if size not in (1, into):
                raise VerifyException(f"{source} does not broadcast to {result}")

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        if self.source.type == self.vector.type:
            return (self.source,)
        return None


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """Result dimension i is source dimension `permutation[i]`.

    Example: `%1 = vector.transpose %0, [1, 0] : vector<8x128xf32> to vector<128x8xf32>`
    """

    name = "vector.transpose"

    vector = operand_def(VectorType)
    permutation = prop_def(DenseArrayBase.constr(i64))
    result = result_def(VectorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$vector `,` $permutation attr-dict `:` type($vector) `to` type($result)"

    def __init__(self, source: SSAValue | Operation, permutation: Sequence[int]) -> None:
        value = SSAValue.get(source)
        type = vector_type(value)
        shape = [type.get_shape()[d] for d in permutation]
        super().__init__(
            operands=[value],
            result_types=[VectorType(type.element_type, shape)],
            properties={"permutation": dense_integers(permutation)},
        )

    def verify_(self) -> None:
        source, result = vector_type(self.vector), vector_type(self.result)
        permutation = self.permutation.get_values()
        verify_element_types(source, result)
        if sorted(permutation) != list(range(source.get_num_dims())):
            raise VerifyException(
                f"{list(permutation)} is no permutation of the {source.get_num_dims()} dimensions"
            )
        expected = tuple(source.get_shape()[d] for d in permutation)
        if expected != result.get_shape():
            raise VerifyException(f"expected result shape {list(expected)}, got {result}")


def _verify_box(
    type: AnyVector, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> None:
    if not len(offsets) == len(sizes) == len(strides) <= type.get_num_dims():
        raise VerifyException(
            f"expected at most {type.get_num_dims()} offsets, sizes and strides, as many of each, "
            f"got {len(offsets)}, {len(sizes)} and {len(strides)}"
        )
    for offset, size, stride, extent in zip(
        offsets, sizes, strides, type.get_shape(), strict=False
    ):
        last = offset + (size - 1) * stride
        if offset < 0 or size < 1 or stride < 1 or last >= extent:
            raise VerifyException(
                f"offset {offset}, size {size}, stride {stride} leave dimension of size {extent}"
            )


@irdl_op_definition
class ExtractStridedSliceOp(IRDLOperation):
    """A box of the source; dimensions that are not named are taken whole.

    Example: `%1 = vector.extract_strided_slice %0 {offsets = [0, 64], sizes = [8, 64],
    strides = [1, 1]} : vector<8x128xf32> to vector<8x64xf32>`
    """

    name = "vector.extract_strided_slice"

    source = operand_def(VectorType)
    offsets = prop_def(Integers)
    sizes = prop_def(Integers)
    strides = prop_def(Integers)
    result = result_def(VectorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def __init__(
        self,
        source: SSAValue | Operation,
        offsets: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> None:
        value = SSAValue.get(source)
        type = vector_type(value)
        shape = (*sizes, *type.get_shape()[len(sizes) :])
        super().__init__(
            operands=[value],
            result_types=[VectorType(type.element_type, shape)],
            properties={
                "offsets": integers(offsets),
                "sizes": integers(sizes),
                "strides": integers(strides or [1] * len(sizes)),
            },
        )

    def verify_(self) -> None:
        source, result = vector_type(self.source), vector_type(self.result)
        verify_element_types(source, result)
        sizes = values_of(self.sizes)
        _verify_box(source, values_of(self.offsets), sizes, values_of(self.strides))
        expected = (*sizes, *source.get_shape()[len(sizes) :])
        if expected != result.get_shape():
            raise VerifyException(f"expected result shape {list(expected)}, got {result}")


@irdl_op_definition
class InsertStridedSliceOp(IRDLOperation):
    """The destination with a box of it replaced by the source.

    Example: `%2 = vector.insert_strided_slice %0, %1 {offsets = [0, 64], strides = [1, 1]}
    : vector<8x64xf32> into vector<8x128xf32>`
    """

    name = "vector.insert_strided_slice"

    T: ClassVar = VarConstraint("T", base(VectorType))

    source = operand_def(VectorType)
    dest = operand_def(T)
    offsets = prop_def(Integers)
    strides = prop_def(Integers)
    result = result_def(T)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$source `,` $dest attr-dict `:` type($source) `into` type($dest)"

    def __init__(
        self,
        source: SSAValue | Operation,
        dest: SSAValue | Operation,
        offsets: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> None:
        target = SSAValue.get(dest)
        rank = vector_type(SSAValue.get(source)).get_num_dims()
        super().__init__(
            operands=[source, target],
            result_types=[target.type],
            properties={
                "offsets": integers(offsets),
                "strides": integers(strides or [1] * rank),
            },
        )

    def verify_(self) -> None:
        source, dest = vector_type(self.source), vector_type(self.dest)
        verify_element_types(source, dest)
        offsets, strides = values_of(self.offsets), values_of(self.strides)
        if len(offsets) != dest.get_num_dims() or len(strides) != source.get_num_dims():
            raise VerifyException(
                f"expected {dest.get_num_dims()} offsets and {source.get_num_dims()} strides, one "
                f"per dimension of {dest} and {source}, got {len(offsets)} and {len(strides)}"
            )
        added = len(offsets) - len(strides)
        sizes = (*(1,) * added, *source.get_shape())
        _verify_box(dest, offsets, sizes, (*(1,) * added, *strides))


SHAPE_OPS = (
    ShapeCastOp, BroadcastOp, TransposeOp, ExtractStridedSliceOp, InsertStridedSliceOp,
)  # fmt: skip
