"""Comparisons and selects of `arith`, of scalars and of vectors.

Part of `pallasite.dialects.arith`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.arith import (
    FastMathFlagsAttr,
    floatingPointLike,
    signlessIntegerLike,
)
from xdsl.dialects.builtin import (
    I64,
    BoolAttr,
    IntegerAttr,
    IntegerType,
    ShapedType,
    i1,
    i64,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.constraints import DerivedFrom, boolean_like
from pallasite.dialects.directives import (
    CMPF_PREDICATES,
    CMPI_PREDICATES,
    CmpfPredicate,
    CmpiPredicate,
)
from pallasite.dialects.predicates import holds


class _Comparison(IRDLOperation, ABC):
    """An elementwise comparison; the result is i1 of the operands' shape."""

    PREDICATES: ClassVar[tuple[str, ...]]

    traits = traits_def(Pure())

    @property
    def predicate_name(self) -> str:
        """The predicate as MLIR writes it."""
        number = cast("IntegerAttr[I64]", self.properties["predicate"])
        return self.PREDICATES[number.value.data]

    def _check(self, predicate: IntegerAttr) -> None:
        if not 0 <= predicate.value.data < len(self.PREDICATES):
            raise VerifyException(
                f"expected a predicate from 0 to {len(self.PREDICATES) - 1}, "
                f"got {predicate.value.data}"
            )


def _predicate(words: tuple[str, ...], word: int | str) -> IntegerAttr:
    if isinstance(word, str):
        if word not in words:
            raise ValueError(f"expected a predicate, one of {', '.join(words)}, got {word}")
        word = words.index(word)
    return IntegerAttr(word, i64)


@irdl_op_definition
class CmpiOp(_Comparison, HasFolderInterface):
    """Compares integers elementwise.

    Example: `%m = arith.cmpi slt, %a, %b : vector<8x128xi32>`
    """

    name = "arith.cmpi"
    PREDICATES: ClassVar[tuple[str, ...]] = CMPI_PREDICATES

    T: ClassVar = VarConstraint("T", signlessIntegerLike)

    predicate = prop_def(IntegerAttr[I64])
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(DerivedFrom((T,), boolean_like))

    custom_directives = (CmpiPredicate,)
    assembly_format = "custom<CmpiPredicate>($predicate) `,` $lhs `,` $rhs attr-dict `:` type($lhs)"

    def __init__(
        self, operand1: Operation | SSAValue, operand2: Operation | SSAValue, arg: int | str
    ) -> None:
        lhs = SSAValue.get(operand1)
        super().__init__(
            operands=[lhs, operand2],
            result_types=[boolean_like(lhs.type)],
            properties={"predicate": _predicate(CMPI_PREDICATES, arg)},
        )

    def verify_(self) -> None:
        self._check(self.predicate)

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        lhs = ConstantLike.get_constant_value(self.lhs)
        rhs = ConstantLike.get_constant_value(self.rhs)
        if not isinstance(lhs, IntegerAttr) or not isinstance(rhs, IntegerAttr):
            return None
        bits = lhs.type.bitwidth if isinstance(lhs.type, IntegerType) else 64
        return (
            BoolAttr.from_bool(holds(self.predicate_name, lhs.value.data, rhs.value.data, bits)),
        )


@irdl_op_definition
class CmpfOp(_Comparison):
    """Compares floats elementwise; predicates with `u` hold for unordered operands too.

    Example: `%m = arith.cmpf olt, %a, %b : vector<8x128xf32>`
    """

    name = "arith.cmpf"
    PREDICATES: ClassVar[tuple[str, ...]] = CMPF_PREDICATES

    T: ClassVar = VarConstraint("T", floatingPointLike)

    predicate = prop_def(IntegerAttr[I64])
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(DerivedFrom((T,), boolean_like))

    custom_directives = (CmpfPredicate,)
    assembly_format = (
        "custom<CmpfPredicate>($predicate) `,` $lhs `,` $rhs (`fastmath` `` $fastmath^)?"
        " attr-dict `:` type($lhs)"
    )

    def __init__(
        self,
        operand1: Operation | SSAValue,
        operand2: Operation | SSAValue,
        arg: int | str,
        fastmath: FastMathFlagsAttr | None = None,
    ) -> None:
        lhs = SSAValue.get(operand1)
        super().__init__(
            operands=[lhs, operand2],
            result_types=[boolean_like(lhs.type)],
            properties={"predicate": _predicate(CMPF_PREDICATES, arg), "fastmath": fastmath},
        )

    def verify_(self) -> None:
        self._check(self.predicate)


@irdl_op_definition
class SelectOp(IRDLOperation, HasFolderInterface):
    """Takes each element from `lhs` where the condition holds, else from `rhs`.

    The condition is one i1 for the whole value, or an i1 vector of its shape.

    Example: `%s = arith.select %m, %a, %b : vector<8x128xi1>, vector<8x128xf32>`
    """

    name = "arith.select"

    T: ClassVar = VarConstraint("T", AnyAttr())

    cond = operand_def()
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)

    traits = traits_def(Pure())

    def __init__(
        self,
        operand1: Operation | SSAValue,
        operand2: Operation | SSAValue,
        operand3: Operation | SSAValue,
    ) -> None:
        lhs = SSAValue.get(operand2)
        super().__init__(operands=[operand1, lhs, operand3], result_types=[lhs.type])

    @classmethod
    def parse(cls, parser: Parser) -> SelectOp:
        names = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            names.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        condition: Attribute = i1
        value = parser.parse_type()
        if parser.parse_optional_punctuation(",") is not None:
            condition, value = value, parser.parse_type()
        operands = parser.resolve_operands(names, [condition, value, value], parser.pos)
        return cls.create(operands=operands, result_types=[value], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if self.cond.type != i1:
            printer.print_attribute(self.cond.type)
            printer.print_string(", ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        if self.cond.type != i1 and (
            not isinstance(self.result.type, ShapedType)
            or self.cond.type != boolean_like(self.result.type)
        ):
            raise VerifyException(
                f"expected a condition of type i1 or {boolean_like(self.result.type)},"
                f" got {self.cond.type}"
            )

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        if self.lhs is self.rhs:
            return (self.lhs,)
        condition = ConstantLike.get_constant_value(self.cond)
        if isinstance(condition, IntegerAttr):
            return (self.lhs if condition.value.data else self.rhs,)
        return None
