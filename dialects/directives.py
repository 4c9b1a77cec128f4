"""Pieces of syntax that several derived dialects share and the format language cannot spell."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

ROUNDING_MODES = ("to_nearest_even", "downward", "upward", "toward_zero", "to_nearest_away")
"""MLIR's `arith::RoundingMode`, in the order of its values."""


def _integer(attribute: object) -> int | None:
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None


def _keyword(parser: Parser, words: tuple[str, ...]) -> int | None:
    for value, word in enumerate(words):
        if parser.parse_optional_keyword(word) is not None:
            return value
    return None


@irdl_custom_directive
class RoundingMode(CustomDirective):
    """An optional rounding mode: a bare word for an i32 attribute."""

    mode: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        value = _keyword(parser, ROUNDING_MODES)
        if value is not None:
            self.mode.set(state, IntegerAttr(value, i32))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        value = _integer(self.mode.get(op))
        if value is None:
            return
        state.print_whitespace(printer)
        printer.print_string(ROUNDING_MODES[value])
        state.last_was_punctuation = False


CMPI_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
CMPF_PREDICATES = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
    "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip


def _parse_word(parser: Parser, words: tuple[str, ...]) -> Attribute:
    word = parser.parse_identifier()
    if word not in words:
        parser.raise_error(f"expected a predicate, one of {', '.join(words)}")
    return IntegerAttr(words.index(word), i64)


def _print_word(
    printer: Printer, state: PrintingState, words: tuple[str, ...], attribute: Attribute | None
) -> None:
    state.print_whitespace(printer)
    printer.print_string(words[_integer(attribute) or 0])
    state.last_was_punctuation = False


@irdl_custom_directive
class CmpiPredicate(CustomDirective):
    """The predicate of an integer comparison: a bare word for an i64 attribute."""

    predicate: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.predicate.set(state, _parse_word(parser, CMPI_PREDICATES))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        _print_word(printer, state, CMPI_PREDICATES, self.predicate.get(op))


@irdl_custom_directive
class CmpfPredicate(CustomDirective):
    """The predicate of a float comparison: a bare word for an i64 attribute."""

    predicate: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.predicate.set(state, _parse_word(parser, CMPF_PREDICATES))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        _print_word(printer, state, CMPF_PREDICATES, self.predicate.get(op))
