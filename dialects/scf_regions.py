"""What the structured operations share: yields, bodies with implicit terminators, result lists."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.utils import AbstractYieldOperation
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import irdl_op_definition, lazy_traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsTerminator, OpTrait, Pure
from xdsl.utils.exceptions import VerifyException

Body = Region | Sequence[Block] | Sequence[Operation]


def _yield_traits() -> tuple[OpTrait, ...]:
    from pallasite.dialects.scf import ExecuteRegionOp, ForOp, IfOp, IndexSwitchOp, WhileOp

    return (
        IsTerminator(),
        HasParent(ForOp, IfOp, ExecuteRegionOp, WhileOp, IndexSwitchOp),
        Pure(),
    )


@irdl_op_definition
class YieldOp(AbstractYieldOperation[Attribute]):
    """Ends a region and hands its values to the operation around it."""

    name = "scf.yield"

    traits = lazy_traits_def(_yield_traits)


def parse_body(parser: Parser) -> Region:
    """A region of one block whose empty `scf.yield` may be left out."""
    region = parser.parse_region()
    if not region.blocks:
        region.add_block(Block())
    block = region.blocks[-1]
    if block.last_op is None or not block.last_op.has_trait(IsTerminator):
        block.add_op(YieldOp())
    return region


def print_body(printer: Printer, region: Region, *, terminator: bool) -> None:
    """A region without its arguments; its empty yield is left out unless it carries attributes."""
    last = region.blocks[-1].last_op if region.blocks else None
    empty = isinstance(last, YieldOp) and not last.arguments and not last.attributes
    printer.print_region(
        region,
        print_entry_block_args=False,
        print_block_terminators=terminator or not empty,
    )


def parse_results(parser: Parser) -> Sequence[Attribute]:
    """`-> (types)`, `-> type` or nothing."""
    if parser.parse_optional_punctuation("->") is None:
        return ()
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return types if types is not None else (parser.parse_type(),)


def print_results(printer: Printer, types: Sequence[Attribute]) -> None:
    """` -> (types)` unless there are none."""
    if types:
        printer.print_string(" -> (")
        printer.print_list(types, printer.print_attribute)
        printer.print_string(")")


def verify_yield(region: Region, expected: Sequence[Attribute], name: str) -> None:
    """The region ends in a yield of values of the `expected` types."""
    last = region.blocks[-1].last_op if region.blocks else None
    if not isinstance(last, YieldOp):
        raise VerifyException(f"expected {name} to end in scf.yield")
    types = tuple(last.arguments.types)
    if types != tuple(expected):
        want, have = (", ".join(str(t) for t in ts) for ts in (expected, types))
        raise VerifyException(f"expected {name} to yield ({want}), got ({have})")
