"""Arithmetic that is known now or needs no constant: neutral operands, operations on constants,
doubling, loops that never run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import Float32Type, FloatAttr, IntegerAttr, IntegerType, VectorType, f32
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, scf
from pallasite.dialects.types import element_of, is_vector, splat, splat_value
from pallasite.passes.canonicalize_mosaic.driver import Legalizer, rule

_FLOATS: dict[type[Operation], Callable[[Any, Any], Any]] = {
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
}
_NEUTRAL: dict[type[Operation], int] = {
    arith.AddiOp: 0, arith.SubiOp: 0, arith.MuliOp: 1, arith.DivSIOp: 1, arith.DivUIOp: 1,
}  # fmt: skip


@rule(*_FLOATS)
def fold_splats(op: Operation, r: Legalizer) -> SSAValue | None:
    """An operation on f32 constants, scalars or splats, is a constant."""
    if not isinstance(element_of(op.results[0]), Float32Type):
        return None
    values = [_splat(v) for v in op.operands]
    if any(v is None for v in values):
        return None
    with np.errstate(all="ignore"):
        folded = float(_FLOATS[type(op)](*(np.float32(cast(float, v)) for v in values)))
    if not is_vector(op.results[0]):
        return r.emit(arith.ConstantOp(FloatAttr(folded, f32)))
    kind = cast(VectorType[Attribute], op.results[0].type)
    return r.emit(arith.ConstantOp(splat(kind, folded)))


@rule(arith.MulfOp)
def fold_product_with_one(op: arith.MulfOp, r: Legalizer) -> SSAValue | None:
    """`x * 1.0` is `x`, whatever the float type."""
    left, right = op.operands
    if _splat(right) == 1:
        return left
    return right if _splat(left) == 1 else None


@rule(arith.MulfOp)
def double_by_addition(op: arith.MulfOp, r: Legalizer) -> SSAValue | None:
    """`x * 2.0` is `x + x`, exactly, and takes no register of constants."""
    if not is_vector(op.results[0]):
        return None
    left, right = op.operands
    value = left if _splat(right) == 2 else right if _splat(left) == 2 else None
    return None if value is None else r.emit(arith.AddfOp(value, value, op.fastmath))


def _splat(value: SSAValue) -> int | float | None:
    """The number that every element of a constant is."""
    owner = value.owner
    if not isinstance(owner, arith.ConstantOp):
        return None
    return (
        owner.value.value.data if isinstance(owner.value, FloatAttr) else splat_value(owner.value)
    )


def _integer(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


@rule(*_NEUTRAL)
def fold_neutral(op: Operation, r: Legalizer) -> SSAValue | None:
    """`x + 0`, `x - 0`, `x * 1` and `x / 1` are `x`, for scalars."""
    if is_vector(op.results[0]) or not isinstance(op.results[0].type, IntegerType):
        return None
    neutral = _NEUTRAL[type(op)]
    if _integer(op.operands[1]) == neutral:
        return op.operands[0]
    commutes = isinstance(op, arith.AddiOp | arith.MuliOp)
    return op.operands[1] if commutes and _integer(op.operands[0]) == neutral else None


@rule(scf.ForOp)
def drop_empty_loop(op: scf.ForOp, r: Legalizer) -> SSAValue | None:
    """A loop from a value to the same value does not run."""
    if op.lb is not op.ub:
        return None
    for result, initial in zip(op.results, op.iter_args, strict=True):
        result.replace_all_uses_with(initial)
    op.detach()
    op.erase()
    return None
