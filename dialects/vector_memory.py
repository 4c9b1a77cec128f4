"""Operations of `vector` that fill vectors from memory and positions: loads, stores, masks, steps.

Part of `pallasite.dialects.vector`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    I64,
    BoolAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    TensorType,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.constraints import broken_alignment
from pallasite.dialects.types import vector_type


@irdl_op_definition
class StepOp(IRDLOperation):
    """The numbers 0, 1, 2, ..."""

    name = "vector.step"

    result = result_def(VectorType)

    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, result_type: Attribute) -> None:
        super().__init__(result_types=[result_type])

    def verify_(self) -> None:
        type = vector_type(self.result)
        if type.get_num_dims() != 1 or not isinstance(type.element_type, IndexType):
            raise VerifyException(f"expected a vector of index of rank 1, got {type}")


@irdl_op_definition
class ConstantMaskOp(IRDLOperation):
    """A mask that holds in the box from zero to the given sizes."""

    name = "vector.constant_mask"

    mask_dim_sizes = prop_def(DenseArrayBase.constr(i64))
    result = result_def(VectorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$mask_dim_sizes attr-dict `:` type($result)"

    def verify_(self) -> None:
        type, sizes = vector_type(self.result), self.mask_dim_sizes.get_values()
        if type.element_type != i1:
            raise VerifyException(f"expected a vector of i1, got {type}")
        if len(sizes) != max(type.get_num_dims(), 1):
            raise VerifyException(f"expected a size for each dimension of {type}, got {len(sizes)}")
        extents = type.get_shape() or (1,)
        if any(not 0 <= size <= extent for size, extent in zip(sizes, extents, strict=True)):
            raise VerifyException(f"expected sizes from 0 to those of {type}, got {list(sizes)}")
        if 0 in sizes and any(sizes):
            raise VerifyException(f"expected all sizes to be 0 if one is, got {list(sizes)}")


class _Memory(IRDLOperation):
    """What loads and stores of a vector through a memref share."""

    alignment = opt_prop_def(IntegerAttr[I64])

    def _check(self, base: SSAValue, indices: Sequence[SSAValue], value: SSAValue) -> None:
        ref, type = cast(MemRefType[Attribute], base.type), vector_type(value)
        if len(indices) != ref.get_num_dims():
            raise VerifyException(
                f"expected {ref.get_num_dims()} indices for {ref}, got {len(indices)}"
            )
        if ref.element_type != type and type.get_num_dims() > ref.get_num_dims():
            raise VerifyException(f"expected a vector of at most the rank of {ref}, got {type}")
        if ref.element_type not in (type.element_type, type):
            raise VerifyException(f"element types of {ref} and {type} differ")
        if (rule := broken_alignment(self.alignment)) is not None:
            raise VerifyException(rule)


@irdl_op_definition
class LoadOp(_Memory):
    """Reads a box of a memref.

    Example: `%0 = vector.load %ref[%i, %j] : memref<16x128xf32>, vector<8x128xf32>`
    """

    name = "vector.load"

    base = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    nontemporal = opt_prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    result = result_def(VectorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$base `[` $indices `]` attr-dict `:` type($base) `,` type($result)"

    def __init__(
        self,
        ref: SSAValue | Operation,
        indices: Sequence[SSAValue | Operation],
        result_type: Attribute,
    ) -> None:
        super().__init__(operands=[ref, indices], result_types=[result_type])

    def verify_(self) -> None:
        self._check(self.base, self.indices, self.result)


@irdl_op_definition
class StoreOp(_Memory):
    """Writes a box of a memref."""

    name = "vector.store"

    vector = operand_def(VectorType)
    base = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    nontemporal = opt_prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$vector `,` $base `[` $indices `]` attr-dict `:` type($base) `,` type($vector)"
    )

    def __init__(
        self,
        vector: SSAValue | Operation,
        ref: SSAValue | Operation,
        indices: Sequence[SSAValue | Operation],
    ) -> None:
        super().__init__(operands=[vector, ref, indices])

    def verify_(self) -> None:
        self._check(self.base, self.indices, self.vector)


@irdl_op_definition
class GatherOp(IRDLOperation):
    """Loads one element per position of `indices`, where the mask holds."""

    name = "vector.gather"

    base = operand_def()
    offsets = var_operand_def(IndexType)
    indices = operand_def(VectorType)
    mask = operand_def(VectorType)
    pass_thru = operand_def(VectorType)
    result = result_def(VectorType)

    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$base `[` $offsets `]` `[` $indices `]` `,` $mask `,` $pass_thru attr-dict `:` type($base)"
        " `,` type($indices) `,` type($mask) `,` type($pass_thru) `into` type($result)"
    )

    def verify_(self) -> None:
        result, base = vector_type(self.result), self.base.type
        indices, mask = vector_type(self.indices), vector_type(self.mask)
        if not isinstance(base, MemRefType | TensorType):
            raise VerifyException(f"expected a memref or tensor, got {base}")
        shaped = cast("MemRefType[Attribute] | TensorType[Attribute]", base)
        if len(self.offsets) != shaped.get_num_dims():
            raise VerifyException(
                f"expected {shaped.get_num_dims()} indices for {base}, got {len(self.offsets)}"
            )
        if self.pass_thru.type != result or shaped.element_type != result.element_type:
            raise VerifyException(
                f"expected elements of {base} and pass_thru of the type of the result, "
                f"got {self.pass_thru.type} and {result}"
            )
        if not isinstance(indices.element_type, IntegerType | IndexType):
            raise VerifyException(f"expected indices that are integers, got {indices}")
        if mask.element_type != i1:
            raise VerifyException(f"expected a mask of i1, got {mask}")
        if not indices.get_shape() == mask.get_shape() == result.get_shape():
            raise VerifyException(
                f"expected indices and mask of the shape of {result}, got {indices} and {mask}"
            )


MEMORY_OPS = (StepOp, ConstantMaskOp, LoadOp, StoreOp, GatherOp)
