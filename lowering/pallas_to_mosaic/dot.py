"""Products: `tpu.matmul` with dimension numbers, or a multiplication and a sum along the lanes.

Accumulators are 32 bits wide; a narrower result is rounded from them. An (M, K) matrix of floats
times the transpose of a (1, K) one would use a single column of the matrix unit, so, as in JAX, it
is a multiplication and a sum along the lanes unless both are f32 (spec/pallas_semantics.md section
4.6).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import BoolAttr, VectorType, f32, i32
from xdsl.dialects.vector import CombiningKindFlag
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, pallas, tpu, vector
from pallasite.dialects.pallas.dot import free_dimensions, is_one_matmul
from pallasite.dialects.types import element_type, is_float, shape_of
from pallasite.lowering.pallas_to_mosaic.driver import Converter, rule, with_element


@rule(pallas.DotOp)
def lower_dot(op: pallas.DotOp, c: Converter) -> Sequence[SSAValue]:
    """Accumulates in f32 or i32, then converts to the element type of the result."""
    result = op.result.type
    sum_type = VectorType(f32 if is_float(result.element_type) else i32, result.get_shape())
    wide = _multiply_and_sum if op.is_matrix_times_vector else _product
    value = wide(op, sum_type, c)
    if result == sum_type:
        return [value]
    narrow = arith.TruncFOp if is_float(result.element_type) else arith.TruncIOp
    return [c.emit(narrow.create(operands=[value], result_types=[result]))]


def _product(op: pallas.DotOp, type: VectorType[Attribute], c: Converter) -> SSAValue:
    dot = op if is_one_matmul(op) else _merged(op, c)
    numbers = dimension_numbers(dot)
    false = BoolAttr.from_bool(False)
    # Contracting the second minor dimension of the left operand transposes it.
    transposed = len(shape_of(dot.lhs.type)) - 2 in numbers.lists()[0]
    properties: dict[str, Attribute] = {
        "dimension_numbers": numbers,
        "transpose_lhs": false,
        "transpose_rhs": false,
        "transpose_lhs_hint": BoolAttr.from_bool(c.fuse_transposed_lhs and transposed),
    }
    if (precision := op.precision) is not None:
        properties["precision"] = precision
    result = VectorType(type.element_type, shape_of(dot.result.type))
    operands = [dot.lhs, dot.rhs, c.splat(result, 0)]
    if dot is not op:
        dot.erase()
    product = c.emit(
        tpu.MatmulOp.create(operands=operands, result_types=[result], properties=properties)
    )
    return c.reshape(product, type.get_shape())


def dimension_numbers(op: pallas.DotOp) -> tpu.DotDimensionNumbersAttr:
    """The seven lists of dimensions of `tpu.matmul`.

    A free dimension is neither contracted nor batched. The result has first the batch dimensions,
    then the free ones of the left operand, then those of the right.
    """
    (left_k, right_k), (left_batch, right_batch) = op.contracting, op.batch
    left_free, right_free = free_dimensions(op)
    order = [n for d in (*left_batch, *left_free) for n in (0, d)]
    order += [n for d in right_free for n in (1, d)]
    return tpu.DotDimensionNumbersAttr.of(
        left_k, right_k, left_free, right_free, order, left_batch, right_batch
    )


def _merged(op: pallas.DotOp, c: Converter) -> pallas.DotOp:
    """A product equal to `op`, not inserted, that `is_one_matmul`: its operands are reshaped.

    All batch dimensions become one leading dimension, all free ones of an operand one dimension,
    and all contracted ones another. With a batch of 2 and contracted dimensions of 4 and 8,
    `2x3x5x4x8` becomes `2x15x32`. The contracted dimension comes last in the left operand; in the
    right one it comes before the free one unless the dimensions are already in this order.
    """
    batched = bool(op.batch[0])
    operands: list[SSAValue] = []
    contracting: list[int] = []
    for value, summed, batch, free in zip(
        (op.lhs, op.rhs), op.contracting, op.batch, free_dimensions(op), strict=True
    ):
        shape = shape_of(value.type)
        summed_last = not operands or (*batch, *free, *summed) == tuple(range(len(shape)))
        inner = (*free, *summed) if summed_last else (*summed, *free)
        kept = [shape[d] for d in free]
        at = len(kept) if summed_last else 0
        kept.insert(at, prod(shape[d] for d in summed))
        contracting.append(at + batched)
        together = [prod(shape[d] for d in batch)] if batched else []
        operands.append(c.reshape(c.ordered(value, (*batch, *inner)), together + kept))
    first = ((0,), (0,)) if batched else ((), ())
    lhs, rhs = operands
    pairs = contracting[:1], contracting[1:]
    return pallas.DotOp(lhs, rhs, pairs, element_type(op.result.type), batch=first)


def _multiply_and_sum(op: pallas.DotOp, type: VectorType[Attribute], c: Converter) -> SSAValue:
    """The product as a multiplication and a sum along the lanes, both in f32."""
    wide = VectorType(f32, shape_of(op.lhs.type))
    factors: list[SSAValue] = []
    for value in (op.lhs, op.rhs):
        if element_type(value.type) != f32:
            extended = with_element(value.type, f32)
            value = c.emit(arith.ExtFOp.create(operands=[value], result_types=[extended]))
        factors.append(value if value.type == wide else c.emit(vector.BroadcastOp(value, wide)))
    product = c.emit(arith.MulfOp(factors[0], factors[1]))
    start = c.splat(VectorType(f32, wide.get_shape()[:1]), 0.0)
    total = c.emit(vector.MultiReductionOp(product, start, [1], CombiningKindFlag.ADD))
    return c.reshape(total, type.get_shape())
