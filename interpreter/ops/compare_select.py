"""Comparisons and selects.

Mosaic's `cmpf one` is what JAX emits for `!=`, and the TPU compiler executes it as such: it is true
on NaN, which makes `jnp.isnan` (x != x) work (spec/pallas_semantics.md section 4.2, note). So `one`
means the same as `une` here; every other predicate is MLIR's.
"""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import operator
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Attribute

from pallasite.dialects import arith, math, tpu
from pallasite.dialects.predicates import ORDERS, is_unsigned
from pallasite.dialects.types import shape_of
from pallasite.interpreter.meanings import Facts, Function, knows_many, many_of, meaning, stacking
from pallasite.interpreter.ops.kinds import is_vector, to_signed, to_unsigned
from pallasite.interpreter.values import carrier, width

_BLEND = 4096
"""Elements from which a bitwise choice is faster than `numpy.where`."""


def _unordered(a: Any, b: Any) -> Any:
    return (a != a) | (b != b)


_FLOAT: dict[str, Function] = {
    "false": lambda a, b: (a == a) & False,
    "oeq": operator.eq,
    "ogt": operator.gt,
    "oge": operator.ge,
    "olt": operator.lt,
    "ole": operator.le,
    "one": operator.ne,
    "ord": lambda a, b: (a == a) & (b == b),
    "ueq": lambda a, b: (a == b) | _unordered(a, b),
    "ugt": lambda a, b: np.logical_not(a <= b),
    "uge": lambda a, b: np.logical_not(a < b),
    "ult": lambda a, b: np.logical_not(a >= b),
    "ule": lambda a, b: np.logical_not(a > b),
    "une": operator.ne,
    "uno": _unordered,
    "true": lambda a, b: (a == a) | True,
}
"""The comparison of each predicate of `arith.cmpf`; `one` is true on NaN, as in Mosaic."""


def _as_i1(type: Attribute, function: Function) -> Function:
    if is_vector(type):
        return function
    return lambda *operands: bool(function(*operands))


@meaning(arith.CmpiOp, by_element=True)
def cmpi(op: arith.CmpiOp, facts: Facts) -> Function:
    """In signed comparisons, a true i1 counts as -1."""
    name, type = op.predicate_name, op.lhs.type
    compare, unsigned = ORDERS[name[-2:]], is_unsigned(name)
    if name in ("eq", "ne") or (not unsigned and width(type) != 1):
        return compare
    value = to_unsigned(type) if unsigned else to_signed(type)
    return lambda a, b: compare(value(a), value(b))


@meaning(arith.CmpfOp, by_element=True)
def cmpf(op: arith.CmpfOp, facts: Facts) -> Function:
    """The comparison of `_FLOAT`; scalars give a Python bool."""
    return _as_i1(op.lhs.type, _FLOAT[op.predicate_name])


@meaning(arith.SelectOp)
def select(op: arith.SelectOp, facts: Facts) -> Function:
    """A scalar condition selects a whole operand, a vector selects element by element."""
    condition, value = op.cond.type, op.result.type
    if not is_vector(condition):
        return lambda cond, a, b: a if cond else b
    return _blend(carrier(value)) if prod(shape_of(value)) >= _BLEND else np.where


def _blend(dtype: np.dtype[Any]) -> Function:
    """A bitwise selection, which takes the same time whatever the mask is; `numpy.where`
    branches."""
    if dtype == np.bool_:
        return np.where
    bits = np.dtype(f"int{8 * dtype.itemsize}")

    def choose(cond: Any, a: Any, b: Any) -> Any:
        other = b.view(bits)
        result = a.view(bits) ^ other
        # Where `cond` is 0, nothing of it is left.
        np.multiply(result, cond, out=result)
        result ^= other
        return result.view(dtype)

    return stacking(choose, _select_many, spreads=True)


def _select_many(cond: Any, a: Any, b: Any) -> Any:
    """The same of operands that NumPy broadcasts."""
    if a.dtype != b.dtype or a.dtype == np.bool_:
        return np.where(cond, a, b)
    bits = np.dtype(f"int{8 * a.dtype.itemsize}")
    other = b.view(bits)
    result = np.multiply(a.view(bits) ^ other, cond)
    result ^= other
    return result.view(a.dtype)


knows_many(np.where, _select_many)


def is_select(fn: Function) -> bool:
    """Whether `fn` selects element by element, as the meaning of `arith.select` of vectors does."""
    many = many_of(fn)
    return many is not None and many.call is _select_many


@meaning(math.IsFiniteOp, by_element=True)
def is_finite(op: math.IsFiniteOp, facts: Facts) -> Function:
    """False of infinities and NaNs."""
    return _as_i1(op.operand.type, np.isfinite)


@meaning(math.IsInfOp, by_element=True)
def is_inf(op: math.IsInfOp, facts: Facts) -> Function:
    """True of infinities of both signs."""
    return _as_i1(op.operand.type, np.isinf)


@meaning(math.IsNaNOp, by_element=True)
def is_nan(op: math.IsNaNOp, facts: Facts) -> Function:
    """True of NaNs, whatever their bits."""
    return _as_i1(op.operand.type, np.isnan)


@meaning(tpu.WeirdOp, by_element=True)
def weird(op: tpu.WeirdOp, facts: Facts) -> Function:
    """True of infinities and NaNs (spec/tpu_dialect.md section 3.4)."""
    return _as_i1(op.input.type, lambda x: np.logical_not(np.isfinite(x)))
