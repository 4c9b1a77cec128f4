"""Index maps: an affine map where it is one, else a region.

A map is affine if it is built from grid indices and constants with +, -, * by a constant, and `//`
and `%` by a positive constant. JAX's truncating division is a floor only of what is not negative,
and arithmetic wraps around where a value does not fit its type; the ranges of the grid's axes tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax
from xdsl.ir.affine import AffineExpr, AffineMap

from pallasite.frontend.jaxprs.internals import jax_core, pjit
from pallasite.frontend.jaxprs.locations import library_function


@dataclass(frozen=True)
class Term:
    """An affine expression and the values that it may take; None is no bound."""

    expression: AffineExpr
    low: int | None
    high: int | None

    @property
    def constant(self) -> int | None:
        """The only value that the term may take; None if there are several."""
        return self.low if self.low == self.high else None


Operation = Callable[[Term, Term], "Term | None"]


def affine_map(
    closed: jax_core.ClosedJaxpr, bounds: Sequence[int | None], results: int
) -> AffineMap | None:
    """The map over grid axes of sizes `bounds` (None if unknown), None if it is not affine."""
    jaxpr = closed.jaxpr
    if jaxpr.constvars or len(jaxpr.outvars) != results:
        return None
    axes = [
        Term(AffineExpr.dimension(axis), 0, None if bound is None else max(bound - 1, 0))
        for axis, bound in enumerate(bounds)
    ]
    # Scalar-prefetch refs follow the grid indices; a map that reads them is not affine.
    unknown: list[Term | None] = [None] * (len(jaxpr.invars) - len(axes))
    terms = _evaluate(jaxpr, [*axes, *unknown])
    if terms is None or any(term is None for term in terms):
        return None
    return AffineMap(len(axes), 0, tuple(term.expression for term in terms if term is not None))


def _evaluate(jaxpr: jax_core.Jaxpr, arguments: Sequence[Term | None]) -> list[Term | None] | None:
    values: dict[Any, Term | None] = dict(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> Term | None:
        if not hasattr(atom, "val"):
            return values.get(atom)
        if not jnp.issubdtype(atom.aval.dtype, jnp.integer) or atom.aval.shape:
            return None
        return _constant(int(atom.val))

    for equation in jaxpr.eqns:
        inputs = [read(atom) for atom in equation.invars]
        results = _apply(equation, inputs)
        if results is None:
            return None
        for variable, term in zip(equation.outvars, results, strict=True):
            number: Any = variable.aval
            values[variable] = term if term is None or _fits(term, number.dtype) else None
    return [read(atom) for atom in jaxpr.outvars]


def _apply(equation: jax_core.JaxprEqn, inputs: list[Term | None]) -> list[Term | None] | None:
    primitive = equation.primitive
    if primitive is pjit.jit_p:
        called = equation.params["jaxpr"]
        if called.consts:
            return None
        division = _DIVISIONS.get(called.jaxpr.debug_info.func_name)
        if division is not None and library_function(called.jaxpr.debug_info):
            left, right = inputs
            return None if left is None or right is None else [division(left, right)]
        return _evaluate(called.jaxpr, inputs)
    if primitive is lax.convert_element_type_p:
        integer = jnp.issubdtype(equation.params["new_dtype"], jnp.integer)
        return inputs if integer else None
    if primitive is lax.neg_p and inputs[0] is not None:
        return [_times(_constant(-1), inputs[0])]
    operation = _OPERATIONS.get(primitive)
    if operation is None or len(inputs) != 2:
        return None
    left, right = inputs
    return None if left is None or right is None else [operation(left, right)]


def _fits(term: Term, dtype: Any) -> bool:
    """Whether no value of `term` wraps around in `dtype`; grid indices of any size fit int32."""
    if not jnp.issubdtype(dtype, jnp.integer):
        return False
    limits = jnp.iinfo(dtype)
    if term.low is None or term.high is None:
        return bool(limits.bits >= 32 and limits.min < 0)
    return limits.min <= term.low and term.high <= limits.max


def _constant(value: int) -> Term:
    return Term(AffineExpr.constant(value), value, value)


def _plus(left: Term, right: Term) -> Term:
    low = None if left.low is None or right.low is None else left.low + right.low
    high = None if left.high is None or right.high is None else left.high + right.high
    return Term(left.expression + right.expression, low, high)


def _minus(left: Term, right: Term) -> Term | None:
    negative = _times(_constant(-1), right)
    return None if negative is None else _plus(left, negative)


def _times(left: Term, right: Term) -> Term | None:
    factor, term = left.constant, right
    if factor is None:
        factor, term = right.constant, left
    if factor is None:
        return None
    if term.constant is not None:
        return _constant(factor * term.constant)
    ends = [None if end is None else end * factor for end in (term.low, term.high)]
    low, high = ends if factor >= 0 else reversed(ends)
    return Term(term.expression * factor, low, high)


def _floor_division(left: Term, right: Term) -> Term | None:
    divisor = right.constant
    if divisor is None or divisor <= 0:
        return None
    low, high = (None if end is None else end // divisor for end in (left.low, left.high))
    return Term(left.expression // divisor, low, high)


def _remainder(left: Term, right: Term) -> Term | None:
    divisor = right.constant
    if divisor is None or divisor <= 0:
        return None
    return Term(left.expression % divisor, 0, divisor - 1)


def _of_natural(operation: Operation) -> Operation:
    """`operation`, where truncating and flooring division agree."""
    return lambda left, right: (
        operation(left, right) if left.low is not None and left.low >= 0 else None
    )


_OPERATIONS: dict[Any, Operation] = {
    lax.add_p: _plus,
    lax.sub_p: _minus,
    lax.mul_p: _times,
    lax.div_p: _of_natural(_floor_division),
    lax.rem_p: _of_natural(_remainder),
}
_DIVISIONS: dict[str, Operation] = {"floor_divide": _floor_division, "remainder": _remainder}
