"""Structured choice and plain regions: `scf.index_switch`, `scf.execute_region`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, IndexType, i64
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    traits_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.constraints import verify_no_arguments
from pallasite.dialects.scf_regions import (
    parse_body,
    parse_results,
    print_body,
    print_results,
    verify_yield,
)


@irdl_op_definition
class IndexSwitchOp(IRDLOperation):
    """Runs the region of the case that equals the operand, else the default region."""

    name = "scf.index_switch"

    arg = operand_def(IndexType)
    cases = prop_def(DenseArrayBase.constr(i64))
    output = var_result_def()
    default_region = region_def("single_block")
    case_regions = var_region_def("single_block")

    traits = traits_def(RecursiveMemoryEffect())

    def __init__(
        self,
        arg: Operation | SSAValue,
        cases: Sequence[int] | DenseArrayBase[Any],
        default_region: Region,
        case_regions: Sequence[Region],
        result_types: Sequence[Attribute],
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        if not isinstance(cases, DenseArrayBase):
            cases = DenseArrayBase.from_list(i64, list(cases))
        super().__init__(
            operands=[arg],
            properties={"cases": cases},
            result_types=[result_types],
            regions=[default_region, case_regions],
            attributes=dict(attributes or {}),
        )

    @classmethod
    def parse(cls, parser: Parser) -> IndexSwitchOp:
        arg = parser.parse_operand(IndexType())
        attributes = parser.parse_optional_attr_dict()
        types = list(parse_results(parser))
        if types:
            while parser.parse_optional_punctuation(",") is not None:
                types.append(parser.parse_type())
        cases: list[int] = []
        regions: list[Region] = []
        while parser.parse_optional_keyword("case") is not None:
            cases.append(parser.parse_integer())
            regions.append(parse_body(parser))
        parser.parse_keyword("default")
        return cls(arg, cases, parse_body(parser), regions, types, attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.arg)
        printer.print_op_attributes(self.attributes)
        types = tuple(self.output.types)
        if types:
            # MLIR's list here has no parentheses.
            printer.print_string(" -> ")
            printer.print_list(types, printer.print_attribute)
        for case, region in zip(self.cases.iter_values(), self.case_regions, strict=True):
            printer.print_string(f"\ncase {case} ")
            print_body(printer, region, terminator=True)
        printer.print_string("\ndefault ")
        print_body(printer, self.default_region, terminator=True)

    def verify_(self) -> None:
        cases = list(self.cases.iter_values())
        if len(cases) != len(self.case_regions):
            raise VerifyException(f"expected {len(cases)} regions, got {len(self.case_regions)}")
        if len(set(cases)) != len(cases):
            raise VerifyException(f"a case occurs twice in {cases}")
        types = tuple(self.output.types)
        verify_no_arguments(self.default_region, "the default region")
        verify_yield(self.default_region, types, "the default region")
        for case, region in zip(cases, self.case_regions, strict=True):
            verify_no_arguments(region, f"the region of case {case}")
            verify_yield(region, types, f"the region of case {case}")


@irdl_op_definition
class ExecuteRegionOp(IRDLOperation):
    """Runs its region once."""

    name = "scf.execute_region"

    outs = var_result_def()
    region = region_def()

    traits = traits_def(RecursiveMemoryEffect())

    def __init__(
        self,
        result_types: Sequence[Attribute],
        region: Region,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            result_types=[result_types], regions=[region], attributes=dict(attributes or {})
        )

    @classmethod
    def parse(cls, parser: Parser) -> ExecuteRegionOp:
        types = parse_results(parser)
        region = parser.parse_region()
        return cls(types, region, parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        print_results(printer, tuple(self.outs.types))
        printer.print_string(" ")
        # MLIR refuses a region without its terminator here.
        print_body(printer, self.region, terminator=True)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        if not self.region.blocks:
            raise VerifyException("expected a region with at least one block")
        verify_no_arguments(self.region, "the region")
