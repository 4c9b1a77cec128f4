"""`scf`: loops over any integer type, unsigned loops, every branch checked against its results.

Upstream's operations name each other as parents and terminators, so that all of them are ours;
only `parallel` and its reductions stay upstream's. Formats are MLIR's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IndexType, SignlessIntegerConstraint, UnitAttr, i1
from xdsl.dialects.scf import ParallelOp, ReduceOp, ReduceReturnOp
from xdsl.dialects.scf import Scf as UpstreamScf
from xdsl.dialects.utils import parse_assignment, print_assignment
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.pattern_rewriter import RewritePattern
from xdsl.printer import Printer
from xdsl.traits import (
    HasCanonicalizationPatternsTrait,
    HasParent,
    IsTerminator,
    Pure,
    RecursivelySpeculatable,
    RecursiveMemoryEffect,
)
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.constraints import verify_no_arguments
from pallasite.dialects.derive import derive
from pallasite.dialects.scf_regions import (
    Body,
    YieldOp,
    parse_body,
    parse_results,
    print_body,
    print_results,
    verify_yield,
)
from pallasite.dialects.scf_switch import ExecuteRegionOp, IndexSwitchOp


def _types(types: Sequence[Attribute]) -> str:
    return "(" + ", ".join(str(t) for t in types) + ")"


class _IfPatterns(HasCanonicalizationPatternsTrait):
    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from pallasite.dialects.scf_patterns import InlineConstantIf

        return (InlineConstantIf(),)


class _ForPatterns(HasCanonicalizationPatternsTrait):
    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from pallasite.dialects.scf_patterns import InlineShortLoop

        return (InlineShortLoop(),)


@irdl_op_definition
class IfOp(IRDLOperation):
    """Runs one of two regions; the second may be missing if there are no results."""

    name = "scf.if"

    cond = operand_def(i1)
    output = var_result_def()
    true_region = region_def("single_block")
    false_region = region_def()

    traits = traits_def(RecursiveMemoryEffect(), RecursivelySpeculatable(), _IfPatterns())

    def __init__(
        self,
        cond: SSAValue | Operation,
        return_types: Sequence[Attribute],
        true_region: Body,
        false_region: Body | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            operands=[cond],
            result_types=[return_types],
            regions=[true_region, Region() if false_region is None else false_region],
            attributes=dict(attributes or {}),
        )

    @classmethod
    def parse(cls, parser: Parser) -> IfOp:
        cond = parser.parse_operand(i1)
        types = parse_results(parser)
        then = parse_body(parser)
        has_else = parser.parse_optional_keyword("else") is not None
        otherwise = parse_body(parser) if has_else else None
        return cls(cond, types, then, otherwise, parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.cond)
        types = tuple(self.output.types)
        print_results(printer, types)
        printer.print_string(" ")
        print_body(printer, self.true_region, terminator=bool(types))
        if self.false_region.blocks:
            printer.print_string(" else ")
            print_body(printer, self.false_region, terminator=bool(types))
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        types = tuple(self.output.types)
        verify_no_arguments(self.true_region, "the then region")
        verify_no_arguments(self.false_region, "the else region")
        verify_yield(self.true_region, types, "the then region")
        if self.false_region.blocks:
            if len(self.false_region.blocks) > 1:
                raise VerifyException("expected an else region of one block")
            verify_yield(self.false_region, types, "the else region")
        elif types:
            raise VerifyException("an scf.if with results needs an else region")


@irdl_op_definition
class ForOp(IRDLOperation):
    """Counts from `lb` to below `ub`; carried values enter as `iter_args` and leave as results."""

    name = "scf.for"

    T: ClassVar = VarConstraint("T", base(IndexType) | SignlessIntegerConstraint)

    lb = operand_def(T)
    ub = operand_def(T)
    step = operand_def(T)
    iter_args = var_operand_def()
    unsigned_cmp = opt_prop_def(UnitAttr, prop_name="unsignedCmp")
    res = var_result_def()
    body = region_def("single_block")

    traits = traits_def(RecursiveMemoryEffect(), _ForPatterns())

    def __init__(
        self,
        lb: SSAValue | Operation,
        ub: SSAValue | Operation,
        step: SSAValue | Operation,
        iter_args: Sequence[SSAValue | Operation],
        body: Body | Block,
        *,
        unsigned: bool = False,
    ) -> None:
        super().__init__(
            operands=[lb, ub, step, iter_args],
            result_types=[[SSAValue.get(a).type for a in iter_args]],
            regions=[[body] if isinstance(body, Block) else body],
            properties={"unsignedCmp": UnitAttr() if unsigned else None},
        )

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        unsigned = parser.parse_optional_keyword("unsigned") is not None
        induction = parser.parse_argument(expect_type=False)
        bounds: list[UnresolvedOperand] = []
        for word in ("=", "to", "step"):
            parser.parse_characters(word)
            bounds.append(parser.parse_unresolved_operand())
        arguments: list[Parser.UnresolvedArgument] = []
        initial: list[UnresolvedOperand] = []
        types: Sequence[Attribute] = ()
        position = parser.pos
        if parser.parse_optional_keyword("iter_args") is not None:
            pairs = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parse_assignment(parser)
            )
            arguments, initial = [a for a, _ in pairs], [v for _, v in pairs]
            types = parse_results(parser)
        if len(types) != len(arguments):
            message = f"expected a result type for each of {len(arguments)} arguments"
            parser.raise_error(message, position, parser.pos)
        index: Attribute = IndexType()
        if parser.parse_optional_punctuation(":") is not None:
            index = parser.parse_type()
        lb, ub, step = (parser.resolve_operand(b, index) for b in bounds)
        values = parser.resolve_operands(initial, types, position)
        named = [a.resolve(t) for a, t in zip(arguments, types, strict=True)]
        body = parser.parse_region((induction.resolve(index), *named))
        if not body.block.last_op or not body.block.last_op.has_trait(IsTerminator):
            body.block.add_op(YieldOp())
        op = cls(lb, ub, step, values, body, unsigned=unsigned)
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        induction, *arguments = self.body.block.args
        printer.print_string(" unsigned " if self.unsigned_cmp is not None else " ")
        printer.print_ssa_value(induction)
        for word, value in (("=", self.lb), ("to", self.ub), ("step", self.step)):
            printer.print_string(f" {word} ")
            printer.print_ssa_value(value)
        if arguments:
            printer.print_string(" iter_args(")
            printer.print_list(
                zip(arguments, self.iter_args, strict=True),
                lambda pair: print_assignment(printer, *pair),
            )
            printer.print_string(")")
            print_results(printer, tuple(self.res.types))
        if not isinstance(induction.type, IndexType):
            printer.print_string(" : ")
            printer.print_attribute(induction.type)
        printer.print_string(" ")
        print_body(printer, self.body, terminator=bool(arguments))
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        carried = tuple(self.iter_args.types)
        if tuple(self.res.types) != carried:
            raise VerifyException(
                f"expected results of types {_types(carried)}, got {_types(self.res.types)}"
            )
        arguments = tuple(a.type for a in self.body.block.args)
        expected = (self.lb.type, *carried)
        if arguments != expected:
            raise VerifyException(
                f"expected a body with arguments {_types(expected)}, got {_types(arguments)}"
            )
        verify_yield(self.body, carried, "the body")


@irdl_op_definition
class WhileOp(IRDLOperation):
    """Runs `before`, and while its condition holds `after`, which feeds `before` again."""

    name = "scf.while"

    arguments = var_operand_def()
    res = var_result_def()
    before_region = region_def("single_block")
    after_region = region_def("single_block")

    traits = traits_def(RecursiveMemoryEffect())

    def __init__(
        self,
        arguments: Sequence[SSAValue | Operation],
        result_types: Sequence[Attribute],
        before_region: Body,
        after_region: Body,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            operands=[arguments],
            result_types=[result_types],
            regions=[before_region, after_region],
            attributes=dict(attributes or {}),
        )

    @classmethod
    def parse(cls, parser: Parser) -> WhileOp:
        pairs = parser.parse_optional_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_assignment(parser)
        )
        pairs = pairs or []
        parser.parse_punctuation(":")
        position = parser.pos
        signature = parser.parse_function_type()
        types = signature.inputs.data
        if len(types) != len(pairs):
            message = f"expected a type for each of {len(pairs)} operands"
            parser.raise_error(message, position, parser.pos)
        values = [parser.resolve_operand(v, t) for (_, v), t in zip(pairs, types, strict=True)]
        named = [a.resolve(t) for (a, _), t in zip(pairs, types, strict=True)]
        before = parser.parse_region(named)
        parser.parse_keyword("do")
        after = parse_body(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        return cls(
            values, signature.outputs.data, before, after, attributes.data if attributes else None
        )

    def print(self, printer: Printer) -> None:
        arguments = self.before_region.block.args
        if arguments:
            printer.print_string(" (")
            printer.print_list(
                zip(arguments, self.arguments, strict=True),
                lambda pair: print_assignment(printer, *pair),
            )
            printer.print_string(")")
        printer.print_string(" : ")
        # Not print_operation_type, which prints the location too.
        printer.print_function_type(self.arguments.types, self.res.types)
        printer.print_string(" ")
        printer.print_region(self.before_region, print_entry_block_args=False)
        printer.print_string(" do ")
        printer.print_region(self.after_region)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    def verify_(self) -> None:
        entering, leaving = tuple(self.arguments.types), tuple(self.res.types)
        for region, expected in ((self.before_region, entering), (self.after_region, leaving)):
            types = tuple(a.type for a in region.block.args)
            if types != expected:
                raise VerifyException(
                    f"expected a region with arguments {_types(expected)}, got {_types(types)}"
                )
        last = self.before_region.block.last_op
        if not isinstance(last, ConditionOp) or tuple(last.args.types) != leaving:
            got = _types(last.args.types) if isinstance(last, ConditionOp) else "none"
            raise VerifyException(
                f"expected an scf.condition that passes on {_types(leaving)}, got {got}"
            )
        verify_yield(self.after_region, entering, "the after region")


@irdl_op_definition
class ConditionOp(IRDLOperation):
    """Ends the first region of `scf.while`: goes on with `args`, or leaves with them as results."""

    name = "scf.condition"

    condition = operand_def(i1)
    args = var_operand_def()

    traits = traits_def(HasParent(WhileOp), IsTerminator(), Pure())
    assembly_format = "`(` $condition `)` attr-dict ($args^ `:` type($args))?"

    def __init__(self, condition: SSAValue | Operation, *args: SSAValue | Operation) -> None:
        super().__init__(operands=[condition, args])


Scf = derive(
    UpstreamScf, [IfOp, ForOp, WhileOp, ConditionOp, YieldOp, IndexSwitchOp, ExecuteRegionOp]
)

__all__ = [
    "ConditionOp",
    "ExecuteRegionOp",
    "ForOp",
    "IfOp",
    "IndexSwitchOp",
    "ParallelOp",
    "ReduceOp",
    "ReduceReturnOp",
    "Scf",
    "WhileOp",
    "YieldOp",
]
