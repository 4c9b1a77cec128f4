"""Operations of `vector` that take vectors apart by elements and put them together.

Part of `pallasite.dialects.vector`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    VectorType,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.constraints import DerivedFrom, VectorOf
from pallasite.dialects.types import AnyVector, vector_type


def _doubled(type: Attribute) -> Attribute:
    shape = cast(AnyVector, type).get_shape()
    *lead, size = shape or (1,)
    return VectorType(cast(AnyVector, type).element_type, (*lead, size * 2))


def _halved(type: Attribute) -> Attribute:
    shape = cast(AnyVector, type).get_shape()
    return VectorType(cast(AnyVector, type).element_type, (*shape[:-1], shape[-1] // 2))


@irdl_op_definition
class InterleaveOp(IRDLOperation):
    """Elements of two vectors alternately, along the last dimension."""

    name = "vector.interleave"

    T: ClassVar = VarConstraint("T", VectorOf(rank=0))

    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(DerivedFrom((T,), _doubled))

    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)"


@irdl_op_definition
class DeinterleaveOp(IRDLOperation):
    """The elements of even and of odd position, along the last dimension."""

    name = "vector.deinterleave"

    T: ClassVar = VarConstraint("T", VectorOf())

    source = operand_def(T)
    res1 = result_def(DerivedFrom((T,), _halved))
    res2 = result_def(DerivedFrom((T,), _halved))

    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($res1)"

    def verify_(self) -> None:
        if vector_type(self.source).get_shape()[-1] % 2:
            raise VerifyException(f"expected an even last dimension, got {self.source.type}")


@irdl_op_definition
class ToElementsOp(IRDLOperation):
    """Every element as a scalar, in row-major order."""

    name = "vector.to_elements"

    source = operand_def(VectorType)
    elements = var_result_def()

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ToElementsOp:
        name = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = _parse_vector(parser)
        return cls.create(
            operands=[parser.resolve_operand(name, type)],
            result_types=[type.element_type] * prod(type.get_shape()),
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        _print_elements(printer, self, self.source.type)

    def verify_(self) -> None:
        _verify_elements(vector_type(self.source), [e.type for e in self.elements])


@irdl_op_definition
class FromElementsOp(IRDLOperation):
    """A vector of scalars, in row-major order."""

    name = "vector.from_elements"

    elements = var_operand_def()
    dest = result_def(VectorType)

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> FromElementsOp:
        names = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = _parse_vector(parser)
        types = [type.element_type] * len(names or ())
        return cls.create(
            operands=parser.resolve_operands(names or (), types, parser.pos),
            result_types=[type],
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        _print_elements(printer, self, self.dest.type)

    def verify_(self) -> None:
        _verify_elements(vector_type(self.dest), [e.type for e in self.elements])


def _parse_vector(parser: Parser) -> AnyVector:
    type = parser.parse_type()
    if not isinstance(type, VectorType):
        parser.raise_error(f"expected a vector type, got {type}")
    return cast(AnyVector, type)


def _print_elements(printer: Printer, op: IRDLOperation, type: Attribute) -> None:
    printer.print_string(" ")
    printer.print_list(op.operands, printer.print_operand)
    printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    printer.print_attribute(type)


def _verify_elements(type: AnyVector, elements: Sequence[Attribute]) -> None:
    count = prod(type.get_shape())
    if len(elements) != count or any(e != type.element_type for e in elements):
        got = ", ".join(map(str, dict.fromkeys(elements))) or "none"
        raise VerifyException(
            f"expected {count} scalars of type {type.element_type} for {type}, "
            f"got {len(elements)} of type {got}"
        )


ELEMENT_OPS = (InterleaveOp, DeinterleaveOp, ToElementsOp, FromElementsOp)
