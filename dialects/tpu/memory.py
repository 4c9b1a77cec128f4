"""Loads and stores of vectors.

Store-like operations keep their operands in the order value, base, indices, mask; the text names
the base first (spec/tpu_dialect.md section 3.2).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerType,
    NoneAttr,
)
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.tpu.base import (
    BOOL_ATTR,
    FALSE,
    I32_ARRAY,
    INDEX,
    MEMREF,
    VECTOR,
    TpuOp,
    check_element_types,
    operand,
    operands,
    optional_operand,
)
from pallasite.dialects.tpu.cores import in_space
from pallasite.dialects.types import AnyMemRef, AnyVector, bit_width


@irdl_op_definition
class VectorLoadOp(TpuOp):
    """Loads a vector from VMEM."""

    name = "tpu.vector_load"

    base = operand(MEMREF)
    indices = operands(INDEX)
    mask = optional_operand(VECTOR)
    strides = prop_def(I32_ARRAY)
    result = result_def(VECTOR)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$base `[` $indices `]` (`masked` $mask^)? attr-dict"
        " `:` type($base) `,` type($result) `,` ` ` `` type($mask)"
    )

    def verify_(self) -> None:
        base, result = self.base.type, self.result.type
        check_indices(self.indices, base)
        check_no_strides(self.strides, base)
        check_vmem(base)
        check_rank(base, result)
        check_element_types(base, result)
        if self.mask is not None:
            check_maskable(result)
            check_load_mask(self.mask, result)


@irdl_op_definition
class VectorStoreOp(TpuOp):
    """Stores a vector, or adds it to memory."""

    name = "tpu.vector_store"

    value = operand(VECTOR)
    base = operand(MEMREF)
    indices = operands(INDEX)
    mask = optional_operand(VECTOR)
    strides = prop_def(I32_ARRAY)
    add = prop_def(BOOL_ATTR, default_value=FALSE)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$base `[` $indices `]` `,` $value (`masked` $mask^)? attr-dict"
        " `:` type($base) `,` type($value) `,` ` ` `` type($mask)"
    )

    def verify_(self) -> None:
        base, value = self.base.type, self.value.type
        check_no_strides(self.strides, base)
        check_indices(self.indices, base)
        check_vmem(base)
        check_rank(base, value)
        check_element_types(base, value)
        check_store_mask(self.mask, value)


@irdl_op_definition
class StridedLoadOp(TpuOp):
    """Loads every stride-th element in each dimension; stride 0 reads one element again."""

    name = "tpu.strided_load"

    base = operand(MEMREF)
    indices = operands(INDEX)
    strides = prop_def(I32_ARRAY)
    result = result_def(VECTOR)

    traits = traits_def(MemoryReadEffect())
    assembly_format = "$base `[` $indices `]` attr-dict `:` type($base) `,` type($result)"

    def verify_(self) -> None:
        check_strided(self.base.type, self.indices, self.strides, self.result.type, least=0)


@irdl_op_definition
class StridedStoreOp(TpuOp):
    """Stores to every stride-th element in each dimension."""

    name = "tpu.strided_store"

    value = operand(VECTOR)
    base = operand(MEMREF)
    indices = operands(INDEX)
    strides = prop_def(I32_ARRAY)

    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$base `[` $indices `]` `,` $value attr-dict `:` type($base) `,` type($value)"

    def verify_(self) -> None:
        check_strided(self.base.type, self.indices, self.strides, self.value.type, least=1)


def check_indices(indices: Sequence[SSAValue], base: AnyMemRef) -> None:
    """One index per dimension of the memref."""
    if len(indices) != base.get_num_dims():
        raise VerifyException(
            f"expected {base.get_num_dims()} indices for {base}, got {len(indices)}"
        )


def check_no_strides(strides: DenseArrayBase[IntegerType], base: AnyMemRef) -> None:
    """Mosaic has no general loads and stores with strides."""
    if not len(strides):
        return
    if len(strides) != base.get_num_dims():
        raise VerifyException(
            f"expected {base.get_num_dims()} strides for {base}, got {len(strides)}"
        )
    raise VerifyException(f"expected no strides for vectors, got {strides}")


def check_vmem(base: AnyMemRef) -> None:
    """The memref is in VMEM or does not say where it is."""
    if not isinstance(base.memory_space, NoneAttr) and not in_space(base, "vmem"):
        raise VerifyException(f"expected a memref in vmem, got {base}")


def check_rank(base: AnyMemRef, vector: AnyVector) -> None:
    """A vector is a box of the memref, of its trailing dimensions."""
    if vector.get_num_dims() > base.get_num_dims():
        raise VerifyException(f"expected a vector of at most the rank of {base}, got {vector}")


def check_maskable(vector: AnyVector) -> None:
    """Only 32-bit elements can be masked."""
    if bit_width(vector) != 32:
        raise VerifyException(f"expected 32-bit elements of a masked access, got {vector}")


def check_load_mask(mask: SSAValue[AnyVector], result: AnyVector) -> None:
    """The mask of a load has dimensions of the result's sizes, or of 1."""
    if not broadcasts_to(mask.type.get_shape(), result.get_shape()):
        raise VerifyException(f"expected a mask that can be broadcast to {result}, got {mask.type}")


def check_store_mask(mask: SSAValue[AnyVector] | None, value: AnyVector) -> None:
    """The mask of a store has the shape of the value."""
    if mask is None:
        return
    check_maskable(value)
    if mask.type.get_shape() != value.get_shape():
        raise VerifyException(f"expected a mask of the shape of {value}, got {mask.type}")


def broadcasts_to(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether trailing dimensions are equal or 1."""
    if len(shape) > len(target):
        return False
    trailing = target[len(target) - len(shape) :]
    return all(n in (1, m) for n, m in zip(shape, trailing, strict=True))


def check_strided(
    base: AnyMemRef,
    indices: Sequence[SSAValue],
    strides: DenseArrayBase[IntegerType],
    vector: AnyVector,
    *,
    least: int,
) -> None:
    """One index, stride and vector dimension per dimension of the memref; large enough strides."""
    ranks = (base.get_num_dims(), len(indices), len(strides), vector.get_num_dims())
    if len(set(ranks)) != 1:
        raise VerifyException(
            f"expected {ranks[0]} indices, strides and vector dimensions for {base}, "
            f"got {ranks[1]}, {ranks[2]} and {ranks[3]}"
        )
    for stride in strides.iter_values():
        if stride < least:
            raise VerifyException(f"expected strides of at least {least}, got {stride}")


OPERATIONS = (VectorLoadOp, VectorStoreOp, StridedLoadOp, StridedStoreOp)
