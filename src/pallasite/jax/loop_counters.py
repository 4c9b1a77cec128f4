"""Counters that a kernel uses after their loop, of which JAX 0.10.2 lowers another number.

Its lowering for the TPU (`_scan_lowering_rule`, `_lower_while_via_fori`) says of a `scan` that
counts how many turns it had, wherever it began to count, and of a `while` that counts where it
ends, also if it began behind that. So does a TPU; the program is told.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from jax import lax
from jax._src import core
from jax._src.pallas import utils as pallas_utils

from pallasite.frontend.jaxprs.internals import jax_core
from pallasite.jax.odd_equations import warn_at

_SCAN = "the number of turns: count from 0, and add the start where it is used"
_WHILE = "the end: where the loop may begin behind it, use jnp.maximum(start, end)"


def warn_of_counters(jaxprs: Iterable[jax_core.Jaxpr]) -> None:
    """Warns of such counters in kernels that JAX is about to lower."""
    for jaxpr in jaxprs:
        used = {atom for eqn in jaxpr.eqns for atom in eqn.invars if isinstance(atom, core.Var)}
        used.update(atom for atom in jaxpr.outvars if isinstance(atom, core.Var))
        for eqn in jaxpr.eqns:
            given = _lowered_to(eqn)
            if given is not None and eqn.outvars[0] in used:
                warn_at(
                    eqn,
                    "loop-counter",
                    "the counter of this loop is used after it, where JAX lowers it to another "
                    "number than it is",
                    f"it is {given}",
                )
        warn_of_counters(core.subjaxprs(jaxpr))


def _lowered_to(eqn: jax_core.JaxprEqn) -> str | None:
    """What a TPU takes for the counter of a loop after it, if that may be another number."""
    params = eqn.params
    if eqn.primitive is lax.scan_p:
        consts, carries = params["num_consts"], params["num_carry"]
        if len(eqn.invars) != consts + carries or len(eqn.outvars) != carries:
            return None  # over the rows of arrays, which is refused
        _, counts = pallas_utils.pattern_match_scan_to_fori_loop(
            params["jaxpr"].jaxpr, consts, carries
        )
        return _SCAN if counts and _number(eqn.invars[consts]) != 0 else None
    if eqn.primitive is lax.while_p:
        test, body = params["cond_nconsts"], params["body_nconsts"]
        counted, _ = pallas_utils.pattern_match_while_to_fori_loop(
            params["cond_jaxpr"], test, params["body_jaxpr"], body
        )
        if counted is None:
            return None
        start, end = (_number(value) for value in eqn.invars[test + body : test + body + 2])
        # Loops from 0 go to lengths, which are not negative.
        in_order = start == 0 if end is None else start is not None and start <= end
        return None if in_order else _WHILE
    return None


def _number(value: Any) -> int | None:
    return int(value.val) if isinstance(value, core.Literal) and np.ndim(value.val) == 0 else None
