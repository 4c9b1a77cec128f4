"""Views of memory: slices, reshapes and casts of memrefs, none of which moves data."""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from pallasite.dialects.tpu.base import ANY, MEMREF, TpuOp


@irdl_op_definition
class MemrefSliceOp(TpuOp):
    """The box of a memref that starts at the given element offsets.

    `tpu.memref_slice %m[%i, %j] <%n> : memref<64x128xf32> -> memref<?x128xf32>`; one dynamic size
    per unknown dimension of the result.
    """

    name = "tpu.memref_slice"

    mem_ref = operand_def(MEMREF)
    base_idx = var_operand_def(i32)
    dynamic_sizes = var_operand_def(i32)
    result = result_def(MEMREF)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = traits_def(Pure())
    assembly_format = (
        "$mem_ref `[` $base_idx `]` (`<` $dynamic_sizes^ `>`)? attr-dict"
        " `:` type($mem_ref) `->` type($result)"
    )


@irdl_op_definition
class MemrefSqueezeOp(TpuOp):
    """The same memory without some dimensions of size 1."""

    name = "tpu.memref_squeeze"

    input = operand_def(MEMREF)
    result = result_def(MEMREF)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"


@irdl_op_definition
class MemrefReshapeOp(TpuOp):
    """The same memory under another shape of as many elements."""

    name = "tpu.memref_reshape"

    input = operand_def(MEMREF)
    result = result_def(MEMREF)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"


@irdl_op_definition
class MemrefBitcastOp(TpuOp):
    """The same memory read as another element type, which scales the second minor dimension."""

    name = "tpu.memref_bitcast"

    input = operand_def(MEMREF)
    result = result_def(MEMREF)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"


@irdl_op_definition
class ReinterpretCastOp(TpuOp):
    """The same memory, from an offset in elements of the result, under any other type."""

    name = "tpu.reinterpret_cast"

    input = operand_def(MEMREF)
    dynamic_offset = opt_operand_def(i32)
    dynamic_sizes = var_operand_def(i32)
    result = result_def(MEMREF)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = traits_def(Pure())
    assembly_format = (
        "$input ($dynamic_offset^)? (`<` $dynamic_sizes^ `>`)? attr-dict"
        " `:` type($input) `->` type($result)"
    )


@irdl_op_definition
class EraseMemrefLayoutOp(TpuOp):
    """The same memref with the layout left out of its type; readers look through it."""

    name = "tpu.erase_memref_layout"

    operand = operand_def(MEMREF)
    result = result_def(MEMREF)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"


@irdl_op_definition
class AssumeLayoutOp(TpuOp):
    """Its operand; a marker of layout passes."""

    name = "tpu.assume_layout"

    input = operand_def(ANY)
    result = result_def(ANY)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"


@irdl_op_definition
class InternalScratchOp(TpuOp):
    """A piece of memory that the compiler reserves for itself."""

    name = "tpu.internal_scratch"

    result = result_def(MEMREF)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict `:` type($result)"


OPERATIONS = (
    MemrefSliceOp,
    MemrefSqueezeOp,
    MemrefReshapeOp,
    MemrefBitcastOp,
    ReinterpretCastOp,
    EraseMemrefLayoutOp,
    AssumeLayoutOp,
    InternalScratchOp,
)
