"""Matrix products as products of two matrices, in types that the MXU takes.

Every product becomes `tpu.matmul` of (M,K) by (K,N) or (N,K) with 32-bit accumulators. Operands are
transposed to batch, free, contracting order and reshaped to matrices; batches are split into single
products; and element types that the MXU lacks are widened (spec/vreg_lowering.md section 4.3).
"""

from __future__ import annotations

import math as pymath
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    BoolAttr,
    IntegerAttr,
    VectorType,
    bf16,
    f32,
    i32,
)
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, tpu, vector
from pallasite.dialects.products import check_product
from pallasite.dialects.types import bit_width, element_of, is_float, shape_of, splat, splat_value
from pallasite.dialects.vector_shapes import integers
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.canonicalize_mosaic.driver import (
    TOWARDS_ZERO,
    Legalizer,
    like,
    rule,
)
from pallasite.passes.canonicalize_mosaic.transposes import Transpose

_EXACT = 1 << 24
"""Up to which float32 holds all integers."""
_TRANSPOSED = 3
"""Operations that transpose registers of 128 columns."""
PLAIN = ([1], [0], [0], [1], [0, 0, 1, 1], [], [])
TRANSPOSED_RHS = ([1], [1], [0], [0], [0, 0, 1, 0], [], [])


def numbers_of(op: tpu.MatmulOp) -> tuple[tuple[int, ...], ...]:
    """The seven lists of dimensions, from the attribute or from the legacy flags."""
    if op.dimension_numbers is not None:
        return op.dimension_numbers.lists()
    left = 0 if op.transpose_lhs.value.data else 1
    right = 1 if op.transpose_rhs.value.data else 0
    return (left,), (right,), (1 - left,), (1 - right,), (0, 1 - left, 1, 1 - right), (), ()


@rule(tpu.MatmulOp)
def legalize_matmul(op: tpu.MatmulOp, r: Legalizer) -> SSAValue | None:
    """Legalises first the shapes, then the types."""
    check_product(op)
    numbers = numbers_of(op)
    if (turned := _turned_right(op, numbers, r)) is not None:
        return turned
    plain = numbers in _tuples(PLAIN, TRANSPOSED_RHS) and op.dimension_numbers is not None
    if plain and _ranks(op) == (2, 2, 2):
        return _legal_types(op, r)
    lhs_k, rhs_k, lhs_free, rhs_free, _, lhs_batch, rhs_batch = numbers
    lhs = r.ordered(op.lhs, (*lhs_batch, *lhs_free, *lhs_k))
    keep = len(rhs_free) == 1 and rhs_free[0] < min(rhs_k)
    order = (*rhs_batch, *rhs_free, *rhs_k) if keep else (*rhs_batch, *rhs_k, *rhs_free)
    rhs = r.ordered(op.rhs, order)
    left, right = shape_of(op.lhs.type), shape_of(op.rhs.type)
    batch = [left[d] for d in lhs_batch]
    m = pymath.prod(left[d] for d in lhs_free)
    k = pymath.prod(left[d] for d in lhs_k)
    n = pymath.prod(right[d] for d in rhs_free)
    count = pymath.prod(batch)
    right_matrix = (n, k) if keep else (k, n)
    lhs3 = _reshape(lhs, (count, m, k), r)
    rhs3 = _reshape(rhs, (count, *right_matrix), r)
    acc3 = _reshape(op.acc, (count, m, n), r)
    parts: list[SSAValue] = []
    for b in range(count):
        one = [_take(v, b, r) for v in (lhs3, rhs3, acc3)]
        product = make_matmul(one, TRANSPOSED_RHS if keep else PLAIN, op, r)
        parts.append(_reshape(product, (1, m, n), r))
    whole = parts[0] if count == 1 else _concatenate(parts, r)
    return _reshape(whole, shape_of(op.results[0].type), r)


def _turned_right(
    op: tpu.MatmulOp, numbers: Sequence[Sequence[int]], r: Legalizer
) -> SSAValue | None:
    """A product by a transpose that has no other use takes the untransposed matrix: the matrix unit
    transposes it."""
    made, forms = op.rhs.owner, _tuples(PLAIN, TRANSPOSED_RHS)
    if not isinstance(made, Transpose) or not op.rhs.has_one_use() or numbers not in forms:
        return None
    other = TRANSPOSED_RHS if numbers == forms[0] else PLAIN
    source = made.operands[0]
    rows, columns = shape_of(source.type)
    bits = bit_width(source.type)
    if other is PLAIN:
        # Bytes that the matrix unit lacks are widened where they fill lanes.
        pays = bits >= 16 or columns % LANES == 0
    else:
        # Contracted columns that end within a register are followed by zeros.
        cut = pymath.ceil(rows / (SUBLANES * packing(bits))) if columns % LANES else 0
        pays = cut <= _TRANSPOSED * pymath.ceil(rows / LANES) * pymath.ceil(columns / LANES)
    return make_matmul([op.lhs, source, op.acc], other, op, r) if pays else None


def _tuples(*forms: Sequence[Sequence[int]]) -> list[tuple[tuple[int, ...], ...]]:
    return [tuple(tuple(part) for part in form) for form in forms]


def _ranks(op: tpu.MatmulOp) -> tuple[int, ...]:
    return tuple(len(shape_of(v.type)) for v in op.operands)


def make_matmul(
    operands: Sequence[SSAValue], numbers: Sequence[Sequence[int]], op: tpu.MatmulOp, r: Legalizer
) -> SSAValue:
    """A `tpu.matmul` of matrices with the precision of `op`."""
    no = BoolAttr.from_bool(False)
    properties: dict[str, Attribute] = {
        "dimension_numbers": tpu.DotDimensionNumbersAttr.of(*numbers),
        "transpose_lhs": no,
        "transpose_rhs": no,
        "transpose_lhs_hint": no,
    }
    if op.precision is not None:
        properties["precision"] = op.precision
    return r.emit(
        tpu.MatmulOp.create(
            operands=operands, result_types=[operands[2].type], properties=properties
        )
    )


def _reshape(value: SSAValue, shape: Sequence[int], r: Legalizer) -> SSAValue:
    kind = VectorType(element_of(value), shape)
    if value.type == kind:
        return value
    return r.emit(vector.ShapeCastOp.create(operands=[value], result_types=[kind]))


def _take(value: SSAValue, index: int, r: Legalizer) -> SSAValue:
    """Matrix number `index` of a stack of matrices."""
    shape = shape_of(value.type)
    if shape[0] > 1:
        made = vector.ExtractStridedSliceOp.create(
            operands=[value],
            result_types=[VectorType(element_of(value), (1, *shape[1:]))],
            properties={
                "offsets": integers([index, 0, 0]),
                "sizes": integers([1, *shape[1:]]),
                "strides": integers([1, 1, 1]),
            },
        )
        value = r.emit(made)
    return _reshape(value, shape[1:], r)


def _concatenate(parts: Sequence[SSAValue], r: Legalizer) -> SSAValue:
    shape = shape_of(parts[0].type)
    kind = VectorType(element_of(parts[0]), (len(parts), *shape[1:]))
    return r.emit(
        tpu.ConcatenateOp.create(
            operands=parts,
            result_types=[kind],
            properties={"dimension": IntegerAttr(0, i32)},
        )
    )


def _legal_types(op: tpu.MatmulOp, r: Legalizer) -> SSAValue | None:
    """Widens operands to a pair of types that the MXU takes."""
    lhs, rhs = op.lhs, op.rhs
    pair = (str(element_of(lhs)), str(element_of(rhs)))
    numbers = numbers_of(op)
    full = op.precision is not None and op.precision.data == tpu.ContractPrecision.FP32
    if full and pair != ("f32", "f32") and is_float(element_of(op.acc)):
        # Only f32 is multiplied in full precision.
        return make_matmul([*(_as_float(v, f32, r) for v in (lhs, rhs)), op.acc], numbers, op, r)
    if pair in r.target.matmul_pairs:
        return None
    if is_float(element_of(op.acc)):
        return make_matmul([*_as_floats(op, r), op.acc], numbers, op, r)
    if is_float(element_of(lhs)) or is_float(element_of(rhs)):
        raise r.unsupported(
            op, "matmul-types", f"a product of {pair[0]} and {pair[1]} into {element_of(op.acc)} "
            f"is not supported on {r.target.name}", "its matrix unit has no such operand types",
            "convert both operands to bfloat16 and accumulate in float32",
        )  # fmt: skip
    return _integer_through_float(op, numbers, r)


def _as_floats(op: tpu.MatmulOp, r: Legalizer) -> list[SSAValue]:
    """Both operands as floats; only the integer one where the matrix unit takes the other as it
    is."""
    elements = [element_of(v) for v in (op.lhs, op.rhs)]
    kinds, floats = [str(e) for e in elements], [is_float(e) for e in elements]
    alone = [kind if known else "f32" for kind, known in zip(kinds, floats, strict=True)]
    if any(floats) and tuple(alone) in r.target.matmul_pairs:
        return [v if is_float(element_of(v)) else _as_float(v, f32, r) for v in (op.lhs, op.rhs)]
    widths = {bit_width(e) for e in elements}
    # In several passes, what bf16 does not hold of a half word is multiplied, too.
    split = op.precision is not None and "i16" in kinds
    wide = f32 if "f32" in kinds or len(widths) > 1 or split else bf16
    return [_as_float(v, wide, r) for v in (op.lhs, op.rhs)]


def _as_float(value: SSAValue, wide: Attribute, r: Legalizer) -> SSAValue:
    if not is_float(element_of(value)):
        value = r.emit(arith.SIToFPOp.create(operands=[value], result_types=[like(value, f32)]))
    return r.to_float(r.to_f32(value), wide)


def _integer_through_float(
    op: tpu.MatmulOp, numbers: Sequence[Sequence[int]], r: Legalizer
) -> SSAValue:
    """A product of integers of up to 8 bits as bf16, accumulated in f32 and converted back.

    The sum is split so that each part is exact in f32; the parts are added in i32, which wraps.
    """
    widths = [bit_width(element_of(v)) for v in (op.lhs, op.rhs)]
    if max(widths) > 8:
        raise r.unsupported(
            op, "matmul-types", f"a product of {element_of(op.lhs)} and {element_of(op.rhs)} is "
            f"not exact on {r.target.name}", "its matrix unit multiplies bfloat16",
            "cast the operands to int8, or split them into parts of 8 bits",
        )  # fmt: skip
    (lhs_k,), (rhs_k,) = numbers[:2]
    depth, most = shape_of(op.lhs.type)[lhs_k], _EXACT >> sum(widths) - 2
    lhs, rhs = (_as_float(v, bf16, r) for v in (op.lhs, op.rhs))
    kind = cast(VectorType[Attribute], like(op.acc, f32))
    zero = r.emit(arith.ConstantOp(splat(kind, 0.0)))
    total = op.acc
    for start in range(0, depth, most):
        size = min(most, depth - start)
        parts = [_part(lhs, lhs_k, start, size, r), _part(rhs, rhs_k, start, size, r)]
        product = make_matmul([*parts, zero], numbers, op, r)
        made = tpu.FptosiOp.create(
            operands=[product],
            result_types=[like(product, i32)],
            properties={"rounding_mode": TOWARDS_ZERO},
        )
        total = r.emit(arith.AddiOp(r.emit(made), total))
    return total


def _part(matrix: SSAValue, dim: int, start: int, size: int, r: Legalizer) -> SSAValue:
    """`size` rows or columns of a matrix."""
    shape = shape_of(matrix.type)
    if shape[dim] == size:
        return matrix
    offsets, sizes = [0, 0], list(shape)
    offsets[dim], sizes[dim] = start, size
    return r.emit(vector.ExtractStridedSliceOp(matrix, offsets, sizes))


@rule(vector.ContractOp)
def legalize_contract(op: vector.ContractOp, r: Legalizer) -> SSAValue | None:
    """A `vector.contract` of two matrices is a `tpu.matmul`."""
    if op.kind.data != "add":
        raise r.unsupported(
            op, "contract-kind", f"{op.name} of kind {op.kind.data.value} is not supported",
            "the matrix unit adds products up", "reduce the products of vectors instead",
        )  # fmt: skip
    maps = [str(m.data) for m in op.indexing_maps]
    forms = {
        "(d0, d1, d2) -> (d2, d1)": PLAIN,
        "(d0, d1, d2) -> (d1, d2)": TRANSPOSED_RHS,
    }
    if maps[0] != "(d0, d1, d2) -> (d0, d2)" or maps[2] != "(d0, d1, d2) -> (d0, d1)":
        raise r.unsupported(op, "contract-form", "only contractions of two matrices are supported")
    numbers = forms.get(maps[1])
    if numbers is None:
        raise r.unsupported(op, "contract-form", "only contractions of two matrices are supported")
    no = BoolAttr.from_bool(False)
    return r.emit(
        tpu.MatmulOp.create(
            operands=op.operands,
            result_types=[op.acc.type],
            properties={
                "dimension_numbers": tpu.DotDimensionNumbersAttr.of(*numbers),
                "transpose_lhs": no,
                "transpose_rhs": no,
                "transpose_lhs_hint": no,
            },
        )
    )


def is_zero(value: SSAValue) -> bool:
    """Whether `value` is a splat of zeros."""
    owner = value.owner
    return isinstance(owner, arith.ConstantOp) and splat_value(owner.value) == 0


@rule(arith.AddfOp, arith.AddiOp)
def fold_accumulator(op: arith.AddfOp | arith.AddiOp, r: Legalizer) -> SSAValue | None:
    """`matmul(a, b, 0) + x` is `matmul(a, b, x)`, only with the product on the left, as in the TPU
    compiler."""
    product = op.operands[0].owner
    if isinstance(product, tpu.MatmulOp) and is_zero(product.acc) and op.operands[0].has_one_use():
        made = tpu.MatmulOp.create(
            operands=[product.lhs, product.rhs, op.operands[1]],
            result_types=[op.results[0].type],
            properties=product.properties,
        )
        return r.emit(made)
    return None
