"""Matrix products of every form, as one loop over groups (design note "Form 4", section 4).

BLAS may round differently for matrices of other shapes. To get the same bits in every form, each
product is cut into the same calls: 128 columns by 128 contracted positions, all rows at once; the
products of a column group are added to the accumulator in order. The MXU groups of every target are
multiples of these, and blocks of zeros change nothing, so the cut does not depend on how a lowering
groups tiles.
"""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import bf16
from xdsl.dialects.vector import CombiningKindFlag
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineDimExpr

from pallasite.dialects import arith, tpu, vector
from pallasite.dialects.products import check_product
from pallasite.dialects.tpu.keywords import ContractPrecision, ContractPrecisionAttr
from pallasite.dialects.types import AnyVector, shape_of
from pallasite.interpreter.meanings import Facts, Function, meaning
from pallasite.interpreter.ops.arithmetic import BINARY
from pallasite.interpreter.ops.kinds import is_vector, unsupported
from pallasite.interpreter.ops.shape import as_scalar
from pallasite.interpreter.process import about_to_multiply
from pallasite.interpreter.values import Array, carrier, is_float, rounder, width

GROUP = 128
"""Columns, and contracted positions, of one call."""
ROWS = 32
"""Rows are padded to whole native tiles of 8-bit data, the narrowest that floats have."""
_EXACT_DEPTH = 1024
"""Positions over which products of 8-bit integers sum exactly in float32: 2**14 * 1024 = 2**24."""

_CACHED = 1 << 17
"""Elements of sums that stay in the cache while they are computed."""
_NOTHING = np.float32(-0.0)
"""What leaves every number as it is that it is added to, a zero with its sign."""

Passes = Sequence[tuple[Array, Array]]


@dataclass(frozen=True)
class Product:
    """`acc + lhs @ rhs` for matrices, in three steps; the first two prepare one operand each."""

    left: Function
    right: Function
    add: Function
    """Of what the two make, and the accumulator."""

    def __call__(self, lhs: Array, rhs: Array, acc: Array) -> Array:
        return self.add(self.left(lhs), self.right(rhs), acc)


def product(
    left: Attribute, right: Attribute, acc: Attribute, precision: ContractPrecisionAttr | None
) -> Product:
    """The `Product` for matrices of the given types."""
    if is_float(left) or is_float(right) or is_float(acc):
        return _float(left, right, rounder(acc), precision)
    dtype, narrow = carrier(acc), max(width(left), width(right)) <= 8
    widen: Function = _as_float if narrow else lambda x: x.astype(np.int64)
    multiply: Function = _narrow_product if narrow else np.matmul

    def integers(lhs: Array, rhs: Array, total: Array) -> Array:
        rows, columns = total.shape
        depth = max(lhs.shape[1], rhs.shape[0])
        found = multiply(_fitted(lhs, rows, depth), _fitted(rhs, depth, columns)).astype(dtype)
        return found if _is_nothing(total) else np.add(total, found, out=found)

    return Product(widen, widen, integers)


def _float(
    left: Attribute, right: Attribute, finish: Function, precision: ContractPrecisionAttr | None
) -> Product:
    """A product of float32 matrices, in passes that add up.

    By default f32 operands are rounded to bf16; `fp32` keeps them; `bf16x3` splits each into a
    high and a low part and leaves out the product of the low parts. Integers beside floats become
    f32 first (spec/vreg_lowering.md 4.3, step 6), which bf16 holds as they are up to 8 bits.
    """
    mode = ContractPrecision.BF16 if precision is None else precision.data
    round_bf16 = rounder(bf16)
    wide = [width(t) == 32 if is_float(t) else width(t) > 8 for t in (left, right)]

    def plain(x: Array) -> Array:
        # Here rather than in each product that it meets.
        return _of_rows(_as_float(x))

    def rounded(x: Array) -> Array:
        return _of_rows(round_bf16(_as_float(x)))

    def halves(x: Array) -> Array:
        x = _as_float(x)
        high = round_bf16(x)
        return np.stack((high, round_bf16(x - high)))

    def single(lhs: Array, rhs: Array, acc: Array) -> Array:
        return finish(_float_product(((lhs, rhs),), acc))

    def three(lhs: Array, rhs: Array, acc: Array) -> Array:
        (high_l, low_l), (high_r, low_r) = lhs, rhs
        passes = (low_l, high_r), (high_l, low_r), (high_l, high_r)
        return finish(_float_product(passes, acc))

    if mode is ContractPrecision.BF16X3 and any(wide):
        return Product(halves, halves, three)
    left_step, right_step = (
        rounded if is_wide and mode is ContractPrecision.BF16 else plain for is_wide in wide
    )
    return Product(left_step, right_step, single)


def _is_nothing(x: Array) -> bool:
    """Whether `x` is known to be zero everywhere: one zero, broadcast."""
    return not any(x.strides) and x.size > 0 and not x[(0,) * x.ndim]


def _as_float(x: Array) -> Array:
    return x.astype(np.float32, copy=False)


def _padded(x: Array, rows: int, columns: int) -> Array:
    """A contiguous copy of `x` with zeros up to whole multiples of `rows` and `columns`."""
    height, width_ = x.shape
    shape = (-(-height // rows) * rows, -(-width_ // columns) * columns)
    if shape == x.shape:
        return np.array(x, order="C")
    grown = np.zeros(shape, x.dtype)
    grown[:height, :width_] = x
    return grown


def _fitted(x: Array, rows: int, columns: int) -> Array:
    """`x` cut or grown with zeros to the given shape."""
    if x.shape == (rows, columns):
        return x
    x = x[:rows, :columns]
    height, width_ = x.shape
    # Many times faster than `np.pad`.
    grown = np.zeros((rows, columns), x.dtype)
    grown[:height, :width_] = x
    return grown


def _float_product(passes: Passes, acc: Array) -> Array:
    about_to_multiply()
    rows, columns = acc.shape
    height, width_ = (-(-n // whole) * whole for n, whole in ((rows, ROWS), (columns, GROUP)))
    padded = (height, width_) != acc.shape
    # What the products are added to: once it is `total`, in place.
    before = _padded(acc, ROWS, GROUP) if padded else acc
    total = before if padded else np.empty(acc.shape, np.float32)
    for lhs, rhs in passes:
        depth = -(-max(lhs.shape[1], rhs.shape[0]) // GROUP) * GROUP
        lhs, rhs = _fitted(lhs, height, depth), _fitted(rhs, depth, width_)
        for k in range(0, depth, GROUP):
            _accumulate(lhs[:, k : k + GROUP], rhs[k : k + GROUP], before, total)
            before = total
    if before is not total:
        total[...] = before
    return total[:rows, :columns] if padded else total


def _accumulate(lhs: Array, rhs: Array, before: Array, total: Array) -> None:
    """Sets `total` to `before` and the products of one contracted group; both may be the same."""
    deep, rhs, (rows, width_) = _of_rows(lhs), _of_rows(rhs), total.shape
    # Sums of whole rows are quicker, but for what the cache does not hold.
    wide = width_ if total.size <= _CACHED else GROUP
    apart = np.empty((rows, wide), np.float32) if before is total else None
    for first in range(0, width_, wide):
        part = slice(first, first + wide)
        products = total[:, part] if apart is None else apart
        for n in range(0, wide, GROUP):
            group = rhs[:, first + n : first + n + GROUP]
            # Padding contributes nothing; but zero times infinity would be NaN.
            if group[0, 0] or group.any() or not np.isfinite(deep).all():
                np.matmul(deep, group, out=products[:, n : n + GROUP])
            else:
                products[:, n : n + GROUP] = _NOTHING
        np.add(before[:, part], products, out=total[:, part])


def _of_rows(x: Array) -> Array:
    """`x` with the elements of a row adjacent in memory, which BLAS needs; where the rows are makes
    no difference to its results."""
    row, element = x.strides
    return x if element == x.itemsize and row >= x.shape[1] * element else np.ascontiguousarray(x)


def _narrow_product(lhs: Array, rhs: Array) -> Array:
    """A product of narrow types that is exact, so that its order does not matter; sums over several
    chunks of the depth are kept in float64."""
    about_to_multiply()
    depth = lhs.shape[1]
    if depth <= _EXACT_DEPTH:
        return lhs @ rhs
    total = np.zeros((lhs.shape[0], rhs.shape[1]), np.float64)
    for k in range(0, depth, _EXACT_DEPTH):
        total += lhs[:, k : k + _EXACT_DEPTH] @ rhs[k : k + _EXACT_DEPTH]
    return total.astype(np.int64)


class Contraction:
    """A contraction as a batch of matrix products of operands whose dimensions are transposed and
    merged."""

    def __init__(
        self,
        left: AnyVector,
        right: AnyVector,
        contracting: tuple[Sequence[int], Sequence[int]],
        free: tuple[Sequence[int], Sequence[int]],
        batch: tuple[Sequence[int], Sequence[int]],
    ):
        self.left_order = (*batch[0], *free[0], *contracting[0])
        self.right_order = (*batch[1], *contracting[1], *free[1])
        self.batch_shape = tuple(left.get_shape()[d] for d in batch[0])
        self.left_free = tuple(left.get_shape()[d] for d in free[0])
        self.right_free = tuple(right.get_shape()[d] for d in free[1])
        depth = prod(left.get_shape()[d] for d in contracting[0])
        self.batches, rows, columns = map(prod, (self.batch_shape, self.left_free, self.right_free))
        self.left_shape = (self.batches, rows, depth)
        self.right_shape = (self.batches, depth, columns)
        self.acc_shape = (self.batches, rows, columns)
        self.result_shape = (*self.batch_shape, *self.left_free, *self.right_free)

    def function(self, multiply: Function) -> Function:
        """The function on operands; the accumulator has batch, left free, right free dimensions."""

        def run(lhs: Array, rhs: Array, acc: Array) -> Array:
            lhs = lhs.transpose(self.left_order).reshape(self.left_shape)
            rhs = rhs.transpose(self.right_order).reshape(self.right_shape)
            acc = acc.reshape(self.acc_shape)
            if self.batches == 1:
                return multiply(lhs[0], rhs[0], acc[0]).reshape(self.result_shape)
            parts = [multiply(lhs[b], rhs[b], acc[b]) for b in range(self.batches)]
            return np.stack(parts).reshape(self.result_shape)

        return run


def _rest(rank: int, *used: Sequence[int]) -> tuple[int, ...]:
    taken = {d for dims in used for d in dims}
    return tuple(d for d in range(rank) if d not in taken)


@meaning(tpu.MatmulOp)
def matmul(op: tpu.MatmulOp, facts: Facts) -> Function:
    """Batch, left free and right free dimensions, in this order; two-dimensional operands without
    dimension numbers may be transposed (spec/tpu_dialect.md section 3.5).
    """
    # The C++ dialect takes accumulators of any shape.
    check_product(op)
    left, right = op.lhs.type, op.rhs.type
    numbers = op.dimension_numbers
    if numbers is None:
        contracting = (
            (0 if op.transpose_lhs.value.data else 1,),
            (1 if op.transpose_rhs.value.data else 0,),
        )
        free = (_rest(2, contracting[0]), _rest(2, contracting[1]))
        batch: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    else:
        lists = numbers.lists()
        contracting, free, batch = (lists[0], lists[1]), (lists[2], lists[3]), (lists[5], lists[6])
    multiply = product(left, right, op.acc.type, op.precision)
    return Contraction(left, right, contracting, free, batch).function(multiply)


def _loops(op: vector.ContractOp, operand: int) -> tuple[int, ...]:
    """The loop that each dimension of an operand runs over."""
    results = op.indexing_maps.data[operand].data.results
    loops = tuple(e.position for e in results if isinstance(e, AffineDimExpr))
    if len(loops) != len(results) or len(set(loops)) != len(loops):
        raise unsupported(op, f"indexing map {op.indexing_maps.data[operand]}")
    return loops


@meaning(vector.ContractOp)
def contract(op: vector.ContractOp, facts: Facts) -> Function:
    """Loops of both operands are contracted or batched; loops of one are its free dimensions."""
    if op.kind.data is not CombiningKindFlag.ADD:
        raise unsupported(op, f"kind {op.kind}")
    left, right, out = (_loops(op, i) for i in range(3))
    summed = [x for x in left if x in right and x not in out]
    shared = [x for x in left if x in right and x in out]
    if {*left, *right} - {*summed} != {*out}:
        raise unsupported(op, "a reduction over a loop of one operand")
    contracting, batch = (
        ([left.index(x) for x in loops], [right.index(x) for x in loops])
        for loops in (summed, shared)
    )
    free = (
        _rest(len(left), contracting[0], batch[0]),
        _rest(len(right), contracting[1], batch[1]),
    )
    natural = [*shared, *(left[d] for d in free[0]), *(right[d] for d in free[1])]
    to_natural = [out.index(x) for x in natural]
    from_natural = [natural.index(x) for x in out]
    types = cast(AnyVector, op.lhs.type), cast(AnyVector, op.rhs.type)
    multiply = product(*types, op.acc.type, None)
    run = Contraction(*types, contracting, free, batch).function(multiply)
    if is_vector(op.acc.type):
        return lambda lhs, rhs, acc: run(lhs, rhs, acc.transpose(to_natural)).transpose(
            from_natural
        )
    scalar, dtype = as_scalar(op.acc.type), carrier(op.acc.type)
    return lambda lhs, rhs, acc: scalar(run(lhs, rhs, np.asarray(acc, dtype))[()])


@meaning(vector.OuterProductOp)
def outer_product(op: vector.OuterProductOp, facts: Facts) -> Function:
    """Products of all pairs, added to the accumulator if there is one."""
    if op.kind.data is not CombiningKindFlag.ADD:
        raise unsupported(op, f"kind {op.kind}")
    result = op.result.type
    of_floats = is_float(result)
    multiply = BINARY[arith.MulfOp if of_floats else arith.MuliOp](result)
    add = BINARY[arith.AddfOp if of_floats else arith.AddiOp](result)
    wide, dtype = len(shape_of(op.rhs.type)) == 1, carrier(result)

    def function(lhs: Array, rhs: Any, *acc: Array) -> Array:
        pairs = multiply(lhs[:, None] if wide else lhs, np.asarray(rhs, dtype))
        return add(acc[0], pairs) if acc else pairs

    return function
