"""What a kernel prints, and what its index maps may do besides computing."""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType, i64
from xdsl.irdl import (
    irdl_op_definition,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.cf import AssertOp
from pallasite.dialects.tpu.base import (
    ANY,
    BOOL_ATTR,
    FALSE,
    MEMREF,
    STRING_ATTR,
    TpuOp,
    array_of,
    operand,
    operands,
)
from pallasite.dialects.tpu.cores import SCALAR_SUBCORE, TENSOR_CORE, own_core


@irdl_op_definition
class LogOp(TpuOp):
    """Prints `tag`, in which `$n` stands for input n if it is formatted."""

    name = "tpu.log"

    inputs = operands(ANY)
    tag = prop_def(STRING_ATTR)
    formatted = prop_def(BOOL_ATTR, default_value=FALSE)

    assembly_format = "$tag attr-dict (`:` `[` $inputs^ `]` `:` type($inputs))?"

    def verify_(self) -> None:
        core = own_core(self)
        if core == TENSOR_CORE:
            return
        if self.formatted.value.data:
            raise VerifyException(f"formatted logs are for {TENSOR_CORE}, got {core}")
        if len(self.inputs) > 1:
            raise VerifyException(f"expected at most one input on {core}, got {len(self.inputs)}")
        if core == SCALAR_SUBCORE and any(isinstance(t, VectorType) for t in self.inputs.types):
            raise VerifyException(f"vectors cannot be logged on {core}")


@irdl_op_definition
class LogBufferOp(TpuOp):
    """Prints `tag` and the logical `shape` of a memref's content."""

    name = "tpu.log_buffer"

    input = operand(MEMREF)
    shape = prop_def(array_of(i64))
    tag = prop_def(STRING_ATTR)

    assembly_format = "$tag attr-dict `:` $input `:` type($input)"

    def verify_(self) -> None:
        if len(self.shape) != self.input.type.get_num_dims():
            raise VerifyException(
                f"expected one size per dimension of {self.input.type}, got {len(self.shape)}"
            )


OPERATIONS = (LogOp, LogBufferOp)

ACTS_OF_MAPS = (*OPERATIONS, AssertOp)
"""What an index map may do besides computing and reading: it tells, and changes nothing."""
