"""Constants, undefined values and ops that leave their operand as it is."""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.ir import Operation

from pallasite.diagnostics import ExecutionError, Note
from pallasite.dialects import arith, tpu
from pallasite.dialects.locations import source_location
from pallasite.dialects.promises import is_rounded
from pallasite.dialects.types import dense_array
from pallasite.interpreter.meanings import Facts, Function, meaning
from pallasite.interpreter.ops.kinds import is_vector, unsupported
from pallasite.interpreter.values import carrier, round_to, scalar


@meaning(arith.ConstantOp)
def constant(op: arith.ConstantOp, facts: Facts) -> Function:
    """The same object every time; nobody writes into a value."""
    value = constant_value(op)
    return lambda: value


def constant_value(op: arith.ConstantOp) -> Any:
    """The carrier of the constant's value."""
    attribute, type = op.value, op.result.type
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        array = dense_array(attribute).astype(carrier(type), copy=False)
        return round_to(type, array) if array.dtype.kind == "f" else array
    if isinstance(attribute, IntegerAttr | FloatAttr) and not is_vector(type):
        return scalar(type, attribute.value.data)
    raise unsupported(op, f"constant {attribute}")


@meaning(tpu.AssumeLayoutOp, tpu.RelayoutOp)
def identity(op: Operation, facts: Facts) -> Function:
    """Layouts do not change the logical value."""
    return lambda value: value


@meaning(tpu.AssumeMultipleOp)
def assume_multiple(op: tpu.AssumeMultipleOp, facts: Facts) -> Function:
    """The value itself, which must be what the kernel promises; see `promises` for sizes."""
    if is_rounded(op):
        return lambda value: value
    at = source_location(op)
    multiple = op.multiple.value.data

    def fn(value: int) -> int:
        if value % multiple:
            raise ExecutionError(
                "broken-promise",
                f"expected a multiple of {multiple}, as pl.multiple_of promises, got {value}",
                at,
                [Note("the compiler relies on it: with another value it addresses other rows")],
            )
        return value

    return fn
