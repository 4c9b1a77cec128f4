"""Loads and stores of 32-bit elements at positions that vectors name; SparseCore only."""

from __future__ import annotations

from collections.abc import Sequence

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
    MASK,
    MEMREF_32,
    VECTOR_32,
    VECTOR_I32,
    TpuOp,
    check_element_types,
    operand,
    operands,
    optional_operand,
)
from pallasite.dialects.tpu.memory import (
    check_indices,
    check_load_mask,
    check_store_mask,
    check_vmem,
)
from pallasite.dialects.types import AnyMemRef, AnyVector


@irdl_op_definition
class VectorLoadIdxOp(TpuOp):
    """Gathers elements from memory at the positions that index vectors name."""

    name = "tpu.vector_load_idx"

    base = operand(MEMREF_32)
    indices = operands(VECTOR_I32)
    mask = optional_operand(MASK)
    result = result_def(VECTOR_32)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$base `[` $indices `]` (`masked` $mask^)? attr-dict"
        " `:` type($base) `[` type($indices) `]` `,` type($result) `,` ` ` `` type($mask)"
    )

    def verify_(self) -> None:
        base, result = self.base.type, self.result.type
        check_index_vectors(self.indices, base, result)
        check_vmem(base)
        check_element_types(base, result)
        if self.mask is not None:
            check_load_mask(self.mask, result)


@irdl_op_definition
class VectorStoreIdxOp(TpuOp):
    """Scatters elements to memory; of two to one address the higher lane wins (or both add)."""

    name = "tpu.vector_store_idx"

    value = operand(VECTOR_32)
    base = operand(MEMREF_32)
    indices = operands(VECTOR_I32)
    mask = optional_operand(MASK)
    add = prop_def(BOOL_ATTR, default_value=FALSE)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$base `[` $indices `]` `,` $value (`masked` $mask^)? attr-dict"
        " `:` type($base) `[` type($indices) `]` `,` type($value) `,` ` ` `` type($mask)"
    )

    def verify_(self) -> None:
        base, value = self.base.type, self.value.type
        if value.get_num_dims() != 1:
            raise VerifyException(f"expected a value of rank 1, got {value}")
        check_index_vectors(self.indices, base, value)
        check_vmem(base)
        check_element_types(base, value)
        check_store_mask(self.mask, value)


def check_index_vectors(
    indices: Sequence[SSAValue[AnyVector]], base: AnyMemRef, vector: AnyVector
) -> None:
    """One vector of positions per dimension of the memref, each of the shape of the value."""
    check_indices(indices, base)
    for index in indices:
        if index.type.get_shape() != vector.get_shape():
            raise VerifyException(f"expected indices of the shape of {vector}, got {index.type}")


OPERATIONS = (
    VectorLoadIdxOp,
    VectorStoreIdxOp,
)
