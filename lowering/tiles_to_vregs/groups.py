"""Unrolls operations on groups of registers: matrix products, transposes, reductions over the grid.

The register form takes a matmul or a 2-D transpose on a matrix, which `tpu.roll_vectors` builds
from registers in row-major order of their tiles, and which `tpu.unroll_vectors` splits into
registers again.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, VectorType, i64
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, grid, tpu
from pallasite.dialects.types import bit_width, element_of, vector_of
from pallasite.layouts.registers import LANES, native_tile
from pallasite.lowering.creation import Model, made
from pallasite.lowering.tiles_to_vregs.grids import Registers, as_grid
from pallasite.lowering.tiles_to_vregs.unroll import Unroller, rule

_FOLDS = {op.name: op for op in arith.Arith.operations}


def _roll(registers: Registers, kind: Attribute, op: Operation, u: Unroller) -> SSAValue:
    """Builds the matrix whose native tiles are the 2-D grid `registers`; poison becomes zeros."""
    element = cast(VectorType[Attribute], kind).element_type
    rows, columns = native_tile(bit_width(element))
    shape = (registers.shape[0] * rows, registers.shape[1] * columns)
    rolled = Model(tpu.RollVectorsOp, (vector_of(element, shape),), {}, location=op.location)
    return u.result(rolled, [u.present(r, kind) for r in registers.flat])


def _unroll(matrix: SSAValue, kind: Attribute, op: Operation, u: Unroller) -> Registers:
    """Splits `matrix` into its native tiles, registers of type `kind`, as a 2-D grid."""
    vector = cast(VectorType[Attribute], matrix.type)
    rows, columns = native_tile(bit_width(vector.element_type))
    shape = (vector.get_shape()[0] // rows, vector.get_shape()[1] // columns)
    count = shape[0] * shape[1]
    taken = made(tpu.UnrollVectorsOp, (matrix,), [kind] * count, location=op.location)
    return as_grid(u.emit(taken).results, shape)


def _padded(registers: Registers, shape: tuple[int, int]) -> Registers:
    """`registers` enlarged to `shape` with poison."""
    grown = np.full(shape, None, dtype=object)
    grown[: registers.shape[0], : registers.shape[1]] = registers
    return grown


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


@rule(grid.MatmulOp)
def unroll_matmul(op: grid.MatmulOp, u: Unroller) -> None:
    """Emits one `tpu.matmul` per group of registers of the size of the MXU.

    `op.contracting` and `op.columns` are the size of a group, in elements. Registers that a group
    lacks are zeros. Partial products of one block of columns are accumulated group by group.
    """
    lhs, rhs, acc = (u.registers(v) for v in (op.lhs, op.rhs, op.acc))
    transposed = op.transpose_rhs is not None and bool(op.transpose_rhs.value.data)
    left_rows, _ = native_tile(bit_width(element_of(op.lhs)))
    right_rows, _ = native_tile(bit_width(element_of(op.rhs)))
    acc_rows, _ = native_tile(32)
    deep = op.contracting.value.data
    wide = op.columns.value.data
    k_left = deep // LANES
    k_right = (deep // LANES) if transposed else (deep // right_rows)
    n_right = (wide // right_rows) if transposed else (wide // LANES)
    n_acc = wide // LANES
    k_axis, n_axis = (1, 0) if transposed else (0, 1)

    k_groups = max(-(-lhs.shape[1] // k_left), -(-rhs.shape[k_axis] // k_right))
    n_groups = max(-(-acc.shape[1] // n_acc), -(-rhs.shape[n_axis] // n_right))
    lhs = _padded(lhs, (lhs.shape[0], k_groups * k_left))
    k_size, n_size = k_groups * k_right, n_groups * n_right
    rhs = _padded(rhs, (n_size, k_size) if transposed else (k_size, n_size))
    rows = max(_round_up(acc.shape[0] * acc_rows, left_rows), lhs.shape[0] * left_rows)
    grown = _padded(acc, (rows // acc_rows, n_groups * n_acc))
    lhs = _padded(lhs, (rows // left_rows, lhs.shape[1]))

    kinds = [u.register_type(v.type) for v in (op.lhs, op.rhs, op.acc)]
    properties = _matmul_properties(op, transposed)
    for n in range(n_groups):
        columns = slice(n * n_acc, (n + 1) * n_acc)
        for k in range(k_groups):
            ks = slice(k * k_right, (k + 1) * k_right)
            ns = slice(n * n_right, (n + 1) * n_right)
            parts = (
                lhs[:, k * k_left : (k + 1) * k_left],
                rhs[ns, ks] if transposed else rhs[ks, ns],
                grown[:, columns],
            )
            rolled = [_roll(p, t, op, u) for p, t in zip(parts, kinds, strict=True)]
            product = made(
                tpu.MatmulOp, rolled, (rolled[2].type,), properties, location=op.location
            )
            grown[:, columns] = _unroll(u.emit(product).results[0], kinds[2], op, u)
    u.define(op.results[0], grown[: acc.shape[0], : acc.shape[1]])


def _matmul_properties(op: grid.MatmulOp, transposed: bool) -> dict[str, Attribute]:
    """The properties of the `tpu.matmul` operations for `op`, with rhs `transposed` or not."""
    numbers = (
        tpu.DotDimensionNumbersAttr.of([1], [1], [0], [0], [0, 0, 1, 0], [], [])
        if transposed
        else tpu.DotDimensionNumbersAttr.of([1], [0], [0], [1], [0, 0, 1, 1], [], [])
    )
    no = BoolAttr.from_bool(False)
    properties: dict[str, Attribute] = {
        "dimension_numbers": numbers,
        "transpose_lhs": no,
        "transpose_rhs": no,
        "transpose_lhs_hint": no,
    }
    if op.precision is not None:
        properties["precision"] = op.precision
    return properties


@rule(tpu.MatmulPushRhsOp, tpu.MatmulAccLhsOp, tpu.MatmulLhsFifoOp)
def unroll_feeding(
    op: tpu.MatmulPushRhsOp | tpu.MatmulAccLhsOp | tpu.MatmulLhsFifoOp, u: Unroller
) -> None:
    """Builds the matrix that is pushed into the matrix unit."""
    (operand,) = op.operands
    matrix = _roll(u.registers(operand), u.register_type(operand.type), op, u)
    u.emit(made(type(op), (matrix,), (), op.properties, location=op.location))


@rule(tpu.MatmulPopOp, tpu.MatmulPopFifoOp)
def unroll_popping(op: tpu.MatmulPopOp | tpu.MatmulPopFifoOp, u: Unroller) -> None:
    """Splits the matrix that is popped from the matrix unit into registers."""
    (result,) = op.results
    high, wide = u.grid(result.type)
    rows, columns = native_tile(32)
    matrix = vector_of(element_of(result), (high * rows, wide * columns))
    popped = made(type(op), (), (matrix,), op.properties, location=op.location)
    kind = u.register_type(result.type)
    u.define(result, _unroll(u.emit(popped).results[0], kind, op, u))


@rule(grid.TransposeBlocksOp)
def unroll_transpose(op: grid.TransposeBlocksOp, u: Unroller) -> None:
    """Emits one 2-D `tpu.transpose` per block of 128 rows and 128 columns.

    Registers that a block lacks are zeros. If only zeros follow in a block, the TPU compiler does
    not send them through the cross-lane unit, so its code is shorter than with other registers
    there.
    """
    source = u.registers(op.operands[0])
    kind = u.register_type(op.operands[0].type)
    rows, _ = native_tile(bit_width(element_of(op.operands[0])))
    side = LANES // rows
    result = np.full(_transposed_shape(op), None, dtype=object)
    for lead in np.ndindex(*source.shape[:-2]):
        matrix = source[lead]
        for r in range(0, matrix.shape[0], side):
            for c in range(matrix.shape[1]):
                block = matrix[r : r + side, c : c + 1]
                if all(v is None for v in block.flat):
                    continue
                rolled = _roll(_padded(block, (side, 1)), kind, op, u)
                properties = {"permutation": DenseArrayBase.from_list(i64, [1, 0])}
                transpose = made(
                    tpu.TransposeOp, (rolled,), (rolled.type,), properties, location=op.location
                )
                turned = _unroll(u.emit(transpose).results[0], kind, op, u)
                target = result[lead][c * side : (c + 1) * side, r // side]
                target[:] = turned[: target.shape[0], 0]
    u.define(op.results[0], result)


def _transposed_shape(op: grid.TransposeBlocksOp) -> tuple[int, ...]:
    """The grid of the result."""
    result = cast(VectorType[Attribute], op.results[0].type)
    trailing = 2 if bit_width(result.element_type) >= 32 else 3
    return tuple(result.get_shape()[:-trailing])


@rule(grid.ReduceOp)
def unroll_reduce(op: grid.ReduceOp, u: Unroller) -> None:
    """Folds registers along one grid dimension from the left, by a chain of the named operation."""
    source = u.registers(op.operands[0])
    axis = op.dim.value.data
    kind, register = _FOLDS[op.kind.data], u.register_type(op.operands[0].type)
    model = Model(kind, (register,), arith.default_properties(kind), location=op.location)
    folded = np.take(source, 0, axis=axis)
    for position in range(1, source.shape[axis]):
        step = np.take(source, position, axis=axis)
        pairs = zip(folded.reshape(-1), step.reshape(-1), strict=True)
        values = [_combine(model, a, b, u) for a, b in pairs]
        folded = as_grid(values, folded.shape)
    u.define(op.results[0], np.expand_dims(folded, axis))


def _combine(
    model: Model, left: SSAValue | None, right: SSAValue | None, u: Unroller
) -> SSAValue | None:
    """The operation of `model` on two registers; of a poison register and another one, the
    other."""
    if left is None or right is None:
        return right if left is None else left
    return u.result(model, (left, right))
