"""Reductions of values over some of their dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, StringAttr, VectorType, i1, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
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
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.pallas.base import PallasOp, check_type, integers_of, value_type
from pallasite.dialects.tpu.base import I32_ATTR, I64_ARRAY
from pallasite.dialects.types import dense_integers, is_float, vector_type

KINDS = ("add", "max", "min", "or", "and")
ARG_KINDS = ("max", "min")


@irdl_custom_directive
class Kind(CustomDirective):
    """The kind of a reduction: a bare word for a string attribute."""

    kind: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.kind.set(state, StringAttr(parser.parse_identifier()))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        attribute = self.kind.get(op)
        printer.print_string(attribute.data if isinstance(attribute, StringAttr) else "")
        state.last_was_punctuation = False


@irdl_op_definition
class ReduceOp(PallasOp):
    """The sum, maximum or minimum along `axes`; of a mask, whether any or all elements are true.

    The result does not have the reduced axes; a reduction over all axes is a scalar. `add`, `max`
    and `min` take floats and signed integers, `or` and `and` take i1. If an element is NaN, so are
    the maximum and the minimum.

    Example: `%m = pallas.reduce max %x axes [1] : vector<8x128xf32> -> vector<8xf32>`
    """

    name = "pallas.reduce"

    value = operand_def(VectorType)
    kind = prop_def(StringAttr)
    axes = prop_def(I64_ARRAY)
    result = result_def()

    traits = traits_def(Pure())
    custom_directives = (Kind,)
    assembly_format = (
        "custom<Kind>($kind) $value `axes` $axes attr-dict `:` type($value) `->` type($result)"
    )

    def __init__(self, kind: str, value: SSAValue, axes: Sequence[int]):
        super().__init__(
            operands=[value],
            properties={"kind": StringAttr(kind), "axes": dense_integers(axes)},
            result_types=[reduced_type(value, axes)],
        )

    def verify_(self) -> None:
        type, kind, axes = vector_type(self.value), self.kind.data, integers_of(self.axes)
        if kind not in KINDS:
            raise VerifyException(f"expected a kind of {', '.join(KINDS)}, got {kind}")
        if not axes or sorted(set(axes)) != list(axes):
            raise VerifyException(f"expected different axes in rising order, got {list(axes)}")
        for axis in axes:
            if not 0 <= axis < type.get_num_dims():
                raise VerifyException(f"axis {axis} is out of range for {type}")
        if (kind in ("or", "and")) != (type.element_type == i1):
            legal = "or, and" if type.element_type == i1 else "add, max, min"
            raise VerifyException(f"expected a reduction of {type} by {legal}, got {kind}")
        check_type(self.result.type, reduced_type(self.value, axes), "a result")


@irdl_op_definition
class ArgReduceOp(PallasOp):
    """The index of the largest or smallest element along `axis`; of equal ones, the first.

    Example: `%p = pallas.arg_reduce max %x axis 1 : vector<8x128xf32> -> vector<8xi32>`
    """

    name = "pallas.arg_reduce"

    value = operand_def(VectorType)
    kind = prop_def(StringAttr)
    axis = prop_def(I32_ATTR)
    result = result_def()

    traits = traits_def(Pure())
    custom_directives = (Kind,)
    assembly_format = (
        "custom<Kind>($kind) $value `axis` $axis attr-dict `:` type($value) `->` type($result)"
    )

    def __init__(self, kind: str, value: SSAValue, axis: int):
        super().__init__(
            operands=[value],
            properties={"kind": StringAttr(kind), "axis": IntegerAttr(axis, i32)},
            result_types=[reduced_type(value, (axis,), i32)],
        )

    def verify_(self) -> None:
        type, kind, axis = vector_type(self.value), self.kind.data, self.axis.value.data
        if kind not in ARG_KINDS:
            raise VerifyException(f"expected a kind of {', '.join(ARG_KINDS)}, got {kind}")
        if not 0 <= axis < type.get_num_dims():
            raise VerifyException(f"axis {axis} is out of range for {type}")
        if not is_float(type.element_type):
            raise VerifyException(f"expected floats, got {type}")
        result = self.result.type
        index = result.element_type if isinstance(result, VectorType) else result
        check_type(result, reduced_type(self.value, (axis,), index), "a result")


def reduced_type(
    value: SSAValue, axes: Sequence[int], element: Attribute | None = None
) -> Attribute:
    """The type of `value` without `axes`: a scalar if none is left."""
    type = vector_type(value)
    shape = [n for dim, n in enumerate(type.get_shape()) if dim not in axes]
    return value_type(shape, type.element_type if element is None else element)
