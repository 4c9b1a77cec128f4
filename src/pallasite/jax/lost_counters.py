"""Counters of loops that JAX takes for their bounds.

A `while` that counts up to a bound becomes a counted loop, and JAX 0.10.2 gives the bound for the
counter behind it (`_lower_while_via_fori` of its Mosaic lowering). Of a loop that makes no turn,
for it starts beyond its bound, the counter is where it starts. Form `pallas` has that, as the
program says; a TPU, and the forms of what JAX lowers, have the bound. The program is told.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jax import lax
from jax._src import core as jax_core
from jax._src.pallas import utils as pallas_utils

from pallasite.diagnostics import Diagnostic, Note, warn
from pallasite.dialects.locations import position_of
from pallasite.frontend.jaxprs.locations import location_of


def warn_of_lost_counters(jaxpr: Any) -> None:
    """Warns of every loop of a kernel whose counter is used behind it and may start too far."""
    for equation in _loops(jaxpr):
        start, end = equation.invars[_constants(equation) :][:2]
        known = isinstance(start, jax_core.Literal) and isinstance(end, jax_core.Literal)
        if not known or int(start.val) > int(end.val):
            _warn(equation)


def _loops(jaxpr: Any) -> Iterator[Any]:
    """Counted loops of a jaxpr, and of those that it calls, whose counter is looked at."""
    loops = [e for e in jaxpr.eqns if e.primitive is lax.while_p]
    used = {id(v) for e in jaxpr.eqns for v in e.invars} if loops else set[int]()
    used |= {id(v) for v in jaxpr.outvars}
    for equation in loops:
        if id(equation.outvars[0]) in used and _is_counted(equation.params):
            yield equation
    for inner in jax_core.subjaxprs(jaxpr):
        yield from _loops(inner)


def _is_counted(params: Any) -> bool:
    counted, _ = pallas_utils.pattern_match_while_to_fori_loop(
        params["cond_jaxpr"], params["cond_nconsts"], params["body_jaxpr"], params["body_nconsts"]
    )
    return counted is not None


def _constants(equation: Any) -> int:
    return equation.params["cond_nconsts"] + equation.params["body_nconsts"]


def _warn(equation: Any) -> None:
    location = location_of(equation.source_info)
    warn(
        Diagnostic(
            "lost-counter",
            "where this loop starts beyond its bound, and so makes no turn, a TPU has the bound "
            "for its counter behind it",
            None if location is None else position_of(location),
            [
                Note("JAX lowers the counter behind the loop to the bound"),
                Note("use jnp.maximum(start, bound) instead of the counter"),
            ],
            severity="warning",
        )
    )
