"""Explicit use of the matrix units: push, multiply, pop."""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np
from xdsl.dialects.builtin import VectorType, f32, i32
from xdsl.ir import Attribute, SSAValue

from pallasite.diagnostics import ExecutionError, SourceLocation
from pallasite.dialects import tpu
from pallasite.dialects.locations import source_location
from pallasite.dialects.types import element_type, grid_shape, register_rank, shape_of
from pallasite.interpreter.machine.mxu import MatrixUnit
from pallasite.interpreter.meanings import Facts, Function, effect
from pallasite.interpreter.ops.matmul import product
from pallasite.interpreter.ops.register_groups import to_matrix, to_tiles
from pallasite.interpreter.values import Array, carrier, is_float
from pallasite.layouts.registers import LANES, SUBLANES

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core


def _is_grid(value: SSAValue) -> bool:
    """Whether a matrix is a grid of native tiles, as in the `tiles` form."""
    return len(shape_of(value.type)) > 2


def _reader(value: SSAValue) -> Callable[[Array], Array]:
    """The function from the value of `value` to its matrix."""
    if not _is_grid(value):
        return lambda x: x
    rank = register_rank(cast(VectorType[Attribute], value.type))
    return lambda x: to_matrix(x, rank)


def _writer(value: SSAValue) -> tuple[tuple[int, int], Callable[[Array], Array]]:
    """The shape of the matrix of `value`, and the function from that matrix to the value."""
    if not _is_grid(value):
        rows, columns = shape_of(value.type)
        return (rows, columns), lambda x: x
    high, wide = grid_shape(cast(VectorType[Attribute], value.type))
    return (high * SUBLANES, wide * LANES), lambda x: to_tiles(x, (high, wide), 1)


@effect(tpu.MatmulPushRhsOp)
def matmul_push_rhs(op: tpu.MatmulPushRhsOp, facts: Facts) -> Function:
    """Stages the right-hand side, transposed if the op says so; `ExecutionError` where the register
    still holds one.
    """
    unit, register = op.mxu_index.value.data, op.staging_register.value.data
    element, at = element_type(op.rhs.type), source_location(op)
    transpose, read = bool(op.transpose.value.data), _reader(op.rhs)

    def function(core: Core, rhs: Array) -> None:
        rhs = read(rhs)
        core.mxus[unit].push(register, (rhs.T if transpose else rhs, element), at)

    return function


def _multiplier(op: tpu.MatmulAccLhsOp | tpu.MatmulLhsFifoOp) -> Function:
    """`fn(unit, lhs, accumulator of which shape and type)`, after loading what is to be loaded."""
    element, at = element_type(op.lhs.type), source_location(op)
    register = None if op.load_staged_rhs is None else op.load_staged_rhs.value.data
    read = _reader(op.lhs)

    def multiply(unit: MatrixUnit, lhs: Array, address: int | None) -> Array:
        lhs = read(lhs)
        if register is not None:
            unit.load(register, at)
        rhs, other = unit.rhs(at)
        _check_depth(lhs, rhs, at)
        result = _result_type(element, other)
        shape = (lhs.shape[0], rhs.shape[1])
        acc = np.zeros(shape, carrier(result))
        if address is not None:
            acc = unit.accumulated(address, shape, carrier(result), at)
        return product(element, other, result, None)(lhs, rhs, acc)

    return multiply


def _result_type(lhs: Attribute, rhs: Attribute) -> Attribute:
    return f32 if is_float(lhs) or is_float(rhs) else i32


def _check_depth(lhs: Array, rhs: Array, at: SourceLocation | None) -> None:
    if lhs.shape[1] != rhs.shape[0]:
        raise ExecutionError(
            "matmul-depth",
            f"the left operand has {lhs.shape[1]} columns, the active right-hand side "
            f"{rhs.shape[0]} rows",
            at,
        )


@effect(tpu.MatmulAccLhsOp)
def matmul_acc_lhs(op: tpu.MatmulAccLhsOp, facts: Facts) -> Function:
    """Adds the product to the accumulators at an address; they start as zeros."""
    index, address, multiply = op.mxu_index.value.data, op.acc.value.data, _multiplier(op)

    def function(core: Core, lhs: Array) -> None:
        unit = core.mxus[index]
        unit.accumulate(address, multiply(unit, lhs, address))

    return function


@effect(tpu.MatmulPopOp)
def matmul_pop(op: tpu.MatmulPopOp, facts: Facts) -> Function:
    """Takes the accumulators at an address, and sets them to zeros."""
    index, address, at = op.mxu_index.value.data, op.acc.value.data, source_location(op)
    shape, write = _writer(op.result)
    dtype = carrier(op.result.type)

    def function(core: Core) -> Array:
        return write(core.mxus[index].pop(address, shape, dtype, at))

    return function


@effect(tpu.MatmulLhsFifoOp)
def matmul_lhs_fifo(op: tpu.MatmulLhsFifoOp, facts: Facts) -> Function:
    """Appends the product to the queue of results."""
    index, multiply, at = op.mxu_index.value.data, _multiplier(op), source_location(op)

    def function(core: Core, lhs: Array) -> None:
        unit = core.mxus[index]
        unit.queue.append((multiply(unit, lhs, None), at))

    return function


@effect(tpu.MatmulPopFifoOp)
def matmul_pop_fifo(op: tpu.MatmulPopFifoOp, facts: Facts) -> Function:
    """Takes the oldest result of the queue."""
    index, at = op.mxu_index.value.data, source_location(op)
    shape, write = _writer(op.result)
    dtype = carrier(op.result.type)

    def function(core: Core) -> Array:
        return write(core.mxus[index].dequeue(shape, dtype, at))

    return function
