"""Waits that leave the count of a semaphore as it is, which JAX 0.10.2 lowers as if they did not.

Its lowering for the TPU looks at the flag as at a value of the kernel, which is true whatever it
holds; what hangs for that would be told as a deadlock of the program's own.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterable

from jax._src import core
from jax._src.pallas import primitives

from pallasite.diagnostics import Note, Unsupported
from pallasite.dialects.locations import position_of
from pallasite.frontend.jaxprs.internals import jax_core
from pallasite.frontend.jaxprs.locations import location_of
from pallasite.frontend.jaxprs.semaphores import COUNT_KEPT


def check_counts(jaxprs: Iterable[jax_core.Jaxpr]) -> None:
    """Raises `Unsupported` for such a wait in kernels."""
    for jaxpr in jaxprs:
        for eqn in jaxpr.eqns:
            if eqn.primitive is primitives.semaphore_wait_p and _keeps_count(eqn):
                message, advice = COUNT_KEPT
                location = location_of(eqn.source_info)
                raise Unsupported(
                    "unsupported-primitive",
                    message,
                    None if location is None else position_of(location),
                    [Note(advice)],
                )
        check_counts(core.subjaxprs(jaxpr))


def _keeps_count(eqn: jax_core.JaxprEqn) -> bool:
    *_, decrement = eqn.params["args_tree"].unflatten(eqn.invars)
    known = isinstance(decrement, core.Literal | bool)
    return known and not (decrement.val if isinstance(decrement, core.Literal) else decrement)
