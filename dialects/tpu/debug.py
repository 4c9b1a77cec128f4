"""What a kernel prints."""

from __future__ import annotations

from xdsl.dialects.builtin import i64
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    prop_def,
    var_operand_def,
)

from pallasite.dialects.tpu.base import (
    ANY,
    BOOL_ATTR,
    FALSE,
    MEMREF,
    STRING_ATTR,
    TpuOp,
    array_of,
)


@irdl_op_definition
class LogOp(TpuOp):
    """Prints `tag`, in which `$n` stands for input n if it is formatted."""

    name = "tpu.log"

    inputs = var_operand_def(ANY)
    tag = prop_def(STRING_ATTR)
    formatted = prop_def(BOOL_ATTR, default_value=FALSE)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$tag attr-dict (`:` `[` $inputs^ `]` `:` type($inputs))?"


@irdl_op_definition
class LogBufferOp(TpuOp):
    """Prints `tag` and the logical `shape` of a memref's content."""

    name = "tpu.log_buffer"

    input = operand_def(MEMREF)
    shape = prop_def(array_of(i64))
    tag = prop_def(STRING_ATTR)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$tag attr-dict `:` $input `:` type($input)"


OPERATIONS = (LogOp, LogBufferOp)
