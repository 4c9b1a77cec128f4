"""Loads and stores of registers, row by row, and of grids of them.

Operands and text are in the order of `memory.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, VectorType, i1, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
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
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.registers import BOX, STEPS
from pallasite.dialects.tpu.base import (
    ANY,
    BOOL_ATTR,
    FALSE,
    I1_ARRAY,
    I32_ARRAY,
    I32_ATTR,
    INDEX,
    MEMREF,
    VECTOR,
    HasCanonicalForms,
    TpuOp,
    operand,
    operands,
    optional_operand,
    sublane_counts,
)
from pallasite.dialects.tpu.memory import check_indices
from pallasite.dialects.types import AnyMemRef, AnyVector, split_grid

_ONE = IntegerAttr(1, 32)


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
class LoadOp(TpuOp):
    """Loads a register; sublane s comes from row `s * sublane_stride` after the indices."""

    name = "tpu.load"

    base = operand(MEMREF)
    indices = operands(INDEX)
    sublane_mask = prop_def(I1_ARRAY)
    sublane_stride = prop_def(I32_ATTR, default_value=_ONE)
    result = result_def(VECTOR)

    traits = traits_def(MemoryReadEffect())
    custom_directives = (BoolArray,)
    assembly_format = (
        "$base `[` $indices `]` `sublanes` custom<BoolArray>($sublane_mask)"
        " (`sublane_stride` $sublane_stride^)? attr-dict `:` type($base) `,` type($result)"
    )

    def verify_(self) -> None:
        check_registers(self, self.base.type, self.indices, self.result.type)


@irdl_op_definition
class StoreOp(TpuOp):
    """Stores the unmasked sublanes of a register."""

    name = "tpu.store"

    value = operand(VECTOR)
    base = operand(MEMREF)
    indices = operands(INDEX)
    mask = optional_operand(ANY)
    sublane_mask = prop_def(I1_ARRAY)
    sublane_stride = prop_def(I32_ATTR, default_value=_ONE)
    add = prop_def(BOOL_ATTR, default_value=FALSE)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryWriteEffect())
    custom_directives = (BoolArray,)
    assembly_format = (
        "$base `[` $indices `]` `,` $value (`masked` $mask^)?"
        " `sublanes` custom<BoolArray>($sublane_mask) (`sublane_stride` $sublane_stride^)?"
        " attr-dict `:` type($base) `,` type($value) `,` ` ` `` type($mask)"
    )

    def verify_(self) -> None:
        check_registers(self, self.base.type, self.indices, self.value.type)
        if self.mask is None or STEPS not in self.attributes:
            return
        split = split_grid(self.value.type)
        grid, register = split or ((), self.value.type.get_shape())
        # Of packed elements there is a flag for each, or one for all of a word.
        masks = [VectorType(i1, [*grid, *register[:rank]]) for rank in sorted({2, len(register)})]
        if self.mask.type not in masks:
            expected = " or ".join(map(str, masks))
            raise VerifyException(f"expected a mask of type {expected}, got {self.mask.type}")


@irdl_op_definition
class ShuffledLoadOp(TpuOp):
    """Loads a register whose sublane s comes from row `sublane_offsets[s]`."""

    name = "tpu.shuffled_load"

    base = operand(MEMREF)
    indices = operands(INDEX)
    sublane_mask = prop_def(I1_ARRAY)
    sublane_offsets = prop_def(I32_ARRAY)
    result = result_def(VECTOR)

    traits = traits_def(MemoryReadEffect(), HasCanonicalForms())
    assembly_format = "$base `[` $indices `]` attr-dict `:` type($base) `,` type($result)"

    def verify_(self) -> None:
        check_registers(self, self.base.type, self.indices, self.result.type)
        check_shuffle(self.sublane_mask, self.sublane_offsets, self.result.type)


@irdl_op_definition
class ShuffledStoreOp(TpuOp):
    """Stores a register whose sublane s goes to row `sublane_offsets[s]`."""

    name = "tpu.shuffled_store"

    value = operand(VECTOR)
    base = operand(MEMREF)
    indices = operands(INDEX)
    sublane_mask = prop_def(I1_ARRAY)
    sublane_offsets = prop_def(I32_ARRAY)

    traits = traits_def(MemoryWriteEffect(), HasCanonicalForms())
    assembly_format = "$base `[` $indices `]` `,` $value attr-dict `:` type($base) `,` type($value)"

    def verify_(self) -> None:
        check_registers(self, self.base.type, self.indices, self.value.type)
        check_shuffle(self.sublane_mask, self.sublane_offsets, self.value.type)
        if self.value.type.get_num_dims() != len(self.indices):
            raise VerifyException(
                f"expected a value of rank {len(self.indices)}, got {self.value.type}"
            )


def check_registers(
    op: Operation, base: AnyMemRef, indices: Sequence[SSAValue], vector: AnyVector
) -> None:
    """One index per dimension of the memref, and one of `grid.steps`, if there are any.

    Without steps any vector is taken, as by the C++ dialect; only a register has a meaning.
    """
    check_indices(indices, base)
    box = op.attributes.get(BOX)
    wanted = 3 * len(indices)
    if box is not None and not (isinstance(box, DenseArrayBase) and len(box) == wanted):
        raise VerifyException(f"expected {BOX} as array<i64> of {wanted} numbers, got {box}")
    steps = op.attributes.get(STEPS)
    if steps is None:
        return
    split = split_grid(vector)
    grid = split[0] if split else ()
    if not isinstance(steps, DenseArrayBase) or steps.elt_type != i64:
        raise VerifyException(f"expected {STEPS} as array<i64>, got {steps}")
    if grid and not len(steps) == len(grid) == len(indices):
        raise VerifyException(
            f"expected grid dimensions in {vector} and {STEPS} for {base}, {len(indices)} of "
            f"each, got {len(grid)} and {len(steps)}"
        )


def check_shuffle(
    mask: DenseArrayBase[IntegerType], offsets: DenseArrayBase[IntegerType], vector: AnyVector
) -> None:
    """One flag and one offset per sublane."""
    for values, what in ((mask, "flags"), (offsets, "offsets")):
        if len(values) not in sublane_counts(vector):
            raise VerifyException(
                f"expected {vector.get_shape()[0]} sublane {what} for {vector}, got {len(values)}"
            )


OPERATIONS = (LoadOp, StoreOp, ShuffledLoadOp, ShuffledStoreOp)
