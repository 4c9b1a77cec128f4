"""Products: `tpu.matmul` with dimension numbers, or a multiplication and a sum along the lanes.

The sum stands for a product with a single row, contracted along the lanes of both, unless both
are f32 (spec/pallas_semantics.md section 4.6): that is a matrix times a vector, which the matrix
unit would do with one useful column.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import BoolAttr, VectorType, f32
from xdsl.dialects.vector import CombiningKindFlag
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, pallas, tpu, vector
from pallasite.dialects.tpu.base import is_float
from pallasite.dialects.types import element_type, shape_of
from pallasite.lowering.pallas_to_mosaic.driver import Converter, rule, with_element


@rule(pallas.DotOp)
def lower_dot(op: pallas.DotOp, c: Converter) -> Sequence[SSAValue]:
    if _is_matrix_times_vector(op):
        return [_multiply_and_sum(op, c)]
    result = op.result.type
    numbers = dimension_numbers(op)
    false = BoolAttr.from_bool(False)
    # Contracting the second minor dimension of the left operand transposes it.
    transposed = len(shape_of(op.lhs.type)) - 2 in numbers.lists()[0]
    properties: dict[str, Attribute] = {
        "dimension_numbers": numbers,
        "transpose_lhs": false,
        "transpose_rhs": false,
        "transpose_lhs_hint": BoolAttr.from_bool(c.fuse_transposed_lhs and transposed),
    }
    if (precision := op.precision) is not None:
        properties["precision"] = precision
    zero = c.splat(result, 0)
    matmul = tpu.MatmulOp.create(
        operands=[op.lhs, op.rhs, zero], result_types=[result], properties=properties
    )
    return [c.emit(matmul)]


def dimension_numbers(op: pallas.DotOp) -> tpu.DotDimensionNumbersAttr:
    """The seven lists of `tpu.matmul`: the result has batch, left free, right free dimensions."""
    (left_k, right_k), (left_batch, right_batch) = op.contracting, op.batch
    left_free, right_free = (
        [d for d in range(len(shape_of(value.type))) if d not in taken]
        for value, taken in ((op.lhs, left_k + left_batch), (op.rhs, right_k + right_batch))
    )
    order = [n for d in (*left_batch, *left_free) for n in (0, d)]
    order += [n for d in right_free for n in (1, d)]
    return tpu.DotDimensionNumbersAttr.of(
        left_k, right_k, left_free, right_free, order, left_batch, right_batch
    )


def _is_matrix_times_vector(op: pallas.DotOp) -> bool:
    left, right = shape_of(op.lhs.type), shape_of(op.rhs.type)
    numbers = dimension_numbers(op).lists()
    if len(left) != 2 or len(right) != 2 or right[0] != 1 or numbers[:2] != ((1,), (1,)):
        return False
    elements = {element_type(value.type) for value in (op.lhs, op.rhs)}
    result = element_type(op.result.type)
    widened = all(is_float(e) and result in (e, f32) for e in elements)
    return widened and elements != {f32}


def _multiply_and_sum(op: pallas.DotOp, c: Converter) -> SSAValue:
    """In the element type of the result."""
    shape, element = shape_of(op.lhs.type), element_type(op.result.type)
    type = VectorType(element, shape)
    factors: list[SSAValue] = []
    for value in (op.lhs, op.rhs):
        if element_type(value.type) != element:
            value = c.emit(arith.ExtFOp.create(
                operands=[value], result_types=[with_element(value.type, element)]
            ))  # fmt: skip
        if value.type != type:
            value = c.emit(vector.BroadcastOp(value, type))
        factors.append(value)
    product = c.emit(arith.MulfOp(factors[0], factors[1]))
    start = c.splat(VectorType(element, shape[:1]), 0.0)
    total = c.emit(vector.MultiReductionOp(product, start, [1], CombiningKindFlag.ADD))
    return c.reshape(total, shape_of(op.result.type))
