"""Loads and stores of vectors and registers.

Store-like operations keep their operands in the order value, base, indices, mask; the text names
the base first (spec/tpu_dialect.md section 3.2).
"""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, i1, i32
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from pallasite.dialects.tpu.base import (
    ANY,
    BOOL_ATTR,
    FALSE,
    I32_ATTR,
    MASK,
    MEMREF,
    MEMREF_32,
    VECTOR,
    VECTOR_32,
    VECTOR_I32,
    TpuOp,
    array_of,
)

INDEX = IndexType()
I1_ARRAY = array_of(i1)
I32_ARRAY = array_of(i32)
ONE = IntegerAttr(1, 32)


@irdl_custom_directive
class BoolArray(CustomDirective):
    """An `array<i1>` as `[true, false]`; the plain directive would print integers."""

    values: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        flags = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_boolean)
        self.values.set(state, DenseArrayBase.from_list(i1, flags))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        attr = self.values.get(op)
        flags = attr.get_values() if isinstance(attr, DenseArrayBase) else ()
        printer.print_string("[" + ", ".join("true" if f else "false" for f in flags) + "]")


@irdl_op_definition
class VectorLoadOp(TpuOp):
    """Loads a vector from VMEM."""

    name = "tpu.vector_load"

    base = operand_def(MEMREF)
    indices = var_operand_def(INDEX)
    mask = opt_operand_def(VECTOR)
    strides = prop_def(I32_ARRAY)
    result = result_def(VECTOR)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$base `[` $indices `]` (`masked` $mask^)? attr-dict"
        " `:` type($base) `,` type($result) `,` ` ` `` type($mask)"
    )


@irdl_op_definition
class VectorStoreOp(TpuOp):
    """Stores a vector, or adds it to memory."""

    name = "tpu.vector_store"

    value = operand_def(VECTOR)
    base = operand_def(MEMREF)
    indices = var_operand_def(INDEX)
    mask = opt_operand_def(VECTOR)
    strides = prop_def(I32_ARRAY)
    add = prop_def(BOOL_ATTR, default_value=FALSE)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$base `[` $indices `]` `,` $value (`masked` $mask^)? attr-dict"
        " `:` type($base) `,` type($value) `,` ` ` `` type($mask)"
    )


@irdl_op_definition
class StridedLoadOp(TpuOp):
    """Loads every stride-th element in each dimension; stride 0 reads one element again."""

    name = "tpu.strided_load"

    base = operand_def(MEMREF)
    indices = var_operand_def(INDEX)
    strides = prop_def(I32_ARRAY)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$base `[` $indices `]` attr-dict `:` type($base) `,` type($result)"


@irdl_op_definition
class StridedStoreOp(TpuOp):
    """Stores to every stride-th element in each dimension."""

    name = "tpu.strided_store"

    value = operand_def(VECTOR)
    base = operand_def(MEMREF)
    indices = var_operand_def(INDEX)
    strides = prop_def(I32_ARRAY)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$base `[` $indices `]` `,` $value attr-dict `:` type($base) `,` type($value)"


@irdl_op_definition
class LoadOp(TpuOp):
    """Loads a register; sublane s comes from row `s * sublane_stride` after the indices."""

    name = "tpu.load"

    base = operand_def(MEMREF)
    indices = var_operand_def(INDEX)
    sublane_mask = prop_def(I1_ARRAY)
    sublane_stride = prop_def(I32_ATTR, default_value=ONE)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(MemoryReadEffect())
    custom_directives = (BoolArray,)
    assembly_format = (
        "$base `[` $indices `]` `sublanes` custom<BoolArray>($sublane_mask)"
        " (`sublane_stride` $sublane_stride^)? attr-dict `:` type($base) `,` type($result)"
    )


@irdl_op_definition
class StoreOp(TpuOp):
    """Stores the unmasked sublanes of a register."""

    name = "tpu.store"

    value = operand_def(VECTOR)
    base = operand_def(MEMREF)
    indices = var_operand_def(INDEX)
    mask = opt_operand_def(ANY)
    sublane_mask = prop_def(I1_ARRAY)
    sublane_stride = prop_def(I32_ATTR, default_value=ONE)
    add = prop_def(BOOL_ATTR, default_value=FALSE)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = traits_def(MemoryWriteEffect())
    custom_directives = (BoolArray,)
    assembly_format = (
        "$base `[` $indices `]` `,` $value (`masked` $mask^)?"
        " `sublanes` custom<BoolArray>($sublane_mask) (`sublane_stride` $sublane_stride^)?"
        " attr-dict `:` type($base) `,` type($value) `,` ` ` `` type($mask)"
    )


@irdl_op_definition
class ShuffledLoadOp(TpuOp):
    """Loads a register whose sublane s comes from row `sublane_offsets[s]`."""

    name = "tpu.shuffled_load"

    base = operand_def(MEMREF)
    indices = var_operand_def(INDEX)
    sublane_mask = prop_def(I1_ARRAY)
    sublane_offsets = prop_def(I32_ARRAY)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$base `[` $indices `]` attr-dict `:` type($base) `,` type($result)"


@irdl_op_definition
class ShuffledStoreOp(TpuOp):
    """Stores a register whose sublane s goes to row `sublane_offsets[s]`."""

    name = "tpu.shuffled_store"

    value = operand_def(VECTOR)
    base = operand_def(MEMREF)
    indices = var_operand_def(INDEX)
    sublane_mask = prop_def(I1_ARRAY)
    sublane_offsets = prop_def(I32_ARRAY)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$base `[` $indices `]` `,` $value attr-dict `:` type($base) `,` type($value)"


@irdl_op_definition
class VectorLoadIdxOp(TpuOp):
    """Gathers elements from memory at the positions that index vectors name."""

    name = "tpu.vector_load_idx"

    base = operand_def(MEMREF_32)
    indices = var_operand_def(VECTOR_I32)
    mask = opt_operand_def(MASK)
    result = result_def(VECTOR_32)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$base `[` $indices `]` (`masked` $mask^)? attr-dict"
        " `:` type($base) `[` type($indices) `]` `,` type($result) `,` ` ` `` type($mask)"
    )


@irdl_op_definition
class VectorStoreIdxOp(TpuOp):
    """Scatters elements to memory; of two to one address the higher lane wins (or both add)."""

    name = "tpu.vector_store_idx"

    value = operand_def(VECTOR_32)
    base = operand_def(MEMREF_32)
    indices = var_operand_def(VECTOR_I32)
    mask = opt_operand_def(MASK)
    add = prop_def(BOOL_ATTR, default_value=FALSE)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$base `[` $indices `]` `,` $value (`masked` $mask^)? attr-dict"
        " `:` type($base) `[` type($indices) `]` `,` type($value) `,` ` ` `` type($mask)"
    )


OPERATIONS = (
    VectorLoadOp,
    VectorStoreOp,
    StridedLoadOp,
    StridedStoreOp,
    LoadOp,
    StoreOp,
    ShuffledLoadOp,
    ShuffledStoreOp,
    VectorLoadIdxOp,
    VectorStoreIdxOp,
)
