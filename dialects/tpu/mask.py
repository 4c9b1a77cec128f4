"""Operations that make and reshape masks of registers."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, i1, i32
from xdsl.irdl import (
    IRDLOperation,
    SameVariadicOperandSize,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    ParsingState,
    PrintingState,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.tpu.base import (
    ANY,
    I32_ATTR,
    INDEX,
    MASK,
    TpuOp,
    UnaryOp,
    VectorOf,
    array_of,
    check_positions,
    check_same_types,
    operand,
    operands,
)
from pallasite.dialects.types import AnyVector, split_grid

REGISTER_MASK = VectorOf((i1,), rank=2)


@irdl_op_definition
class CreateMaskOp(TpuOp):
    """True in the box from `low` to `high`, the latter excluded."""

    name = "tpu.create_mask"

    low = operands(INDEX)
    high = operands(INDEX)
    result = result_def(ANY)

    irdl_options = (SameVariadicOperandSize(),)
    traits = traits_def(Pure())
    assembly_format = "`[` $low `]` `[` $high `]` attr-dict `:` type($result)"


@irdl_op_definition
class CreateSubelementMaskOp(TpuOp):
    """True in rows `from` to `to`, counted in sub-elements; if from > to, false in [to, from)."""

    name = "tpu.create_subelement_mask"

    from_ = prop_def(I32_ATTR, prop_name="from")
    to = prop_def(I32_ATTR)
    result = result_def(REGISTER_MASK)

    traits = traits_def(Pure())
    assembly_format = "$from `,` $to attr-dict `:` type($result)"


@irdl_op_definition
class MaskCastOp(UnaryOp):
    """A mask of registers of one packing as a mask of another."""

    name = "tpu.mask_cast"

    input = operand(MASK)
    result = result_def(MASK)

    traits = traits_def(Pure())

    def verify_(self) -> None:
        source, result = self.input.type, self.result.type
        if source.get_shape()[:2] != result.get_shape()[:2]:
            raise VerifyException(f"expected equal leading dimensions, got {source} and {result}")
        flags = sorted((mask_packing(source), mask_packing(result)))
        if flags[1] % flags[0] or _positions(source) != _positions(result):
            raise VerifyException(f"expected masks of the same registers, got {source}, {result}")


@irdl_custom_directive
class MaskSources(CustomDirective):
    """Operands, after which the old C++ passes printed one more comma."""

    sources: VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        operands: list[UnresolvedOperand] = []
        while (operand := parser.parse_optional_unresolved_operand()) is not None:
            operands.append(operand)
            if parser.parse_optional_punctuation(",") is None:
                break
        self.sources.set(state, operands)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.sources.print(printer, state, op)


@irdl_op_definition
class PackVmskOp(TpuOp):
    """Masks of wide registers packed into one of a narrow register at the given positions."""

    name = "tpu.pack_vmsk"

    sources = operands(REGISTER_MASK)
    positions = prop_def(array_of(i32))
    result = result_def(REGISTER_MASK)

    traits = traits_def(Pure())
    custom_directives = (MaskSources,)
    assembly_format = (
        "custom<MaskSources>($sources) attr-dict `:` type($sources) `->` type($result)"
    )

    def __post_init__(self) -> None:
        # The operation of the old C++ passes had no positions: low half, high half.
        if "positions" not in self.properties:
            order = range(len(self.operands))
            self.properties["positions"] = DenseArrayBase.from_list(i32, list(order))
        super().__post_init__()

    def verify_(self) -> None:
        if not self.sources:
            raise VerifyException("expected at least one source")
        check_same_types(self.sources)
        source, result = self.sources[0].type, self.result.type
        factor = mask_packing(result) // mask_packing(source)
        check_positions(self.positions, len(self.sources), factor)
        if _positions(source) != _positions(result):
            raise VerifyException(f"expected registers of one size, got {source} and {result}")


def mask_packing(mask: AnyVector) -> int:
    """The flags per 32-bit word of a register mask, which may be a grid of registers."""
    split = split_grid(mask)
    register = split[1] if split else mask.get_shape()
    return register[-1] if len(register) > 2 else 1


def _positions(mask: AnyVector) -> tuple[int, ...]:
    """The grid, sublanes and lanes of a register mask."""
    grid, register = split_grid(mask) or ((), mask.get_shape())
    if len(register) > 3:
        raise VerifyException(f"expected a mask of registers, got {mask}")
    return (*grid, *register[:2])


OPERATIONS = (CreateMaskOp, CreateSubelementMaskOp, MaskCastOp, PackVmskOp)
