"""Kernels that are derived by some of their operands, of which JAX makes a call that fits none.

Its rule for `jax.jvp` (`_pallas_call_jvp_rule` of 0.10.2) gives the kernel a ref per tangent that
is there, and the call a block per operand, whether it has a tangent or not. JAX finds out when it
lowers the kernel, by counts of which its message does not say what they are.
"""

from __future__ import annotations

from typing import Any

from pallasite.diagnostics import Note, Unsupported
from pallasite.jax.source_locations import beginning

_ADVICE = (
    "give every operand a tangent: jax.jvp(f, (x, y), (t, jnp.zeros_like(y)))",
    "or give the function that calls it a jax.custom_jvp, which second derivatives need, too",
)


def check_tangents(params: dict[str, Any]) -> None:
    """Raises `Unsupported` for such a call of a kernel of blocks."""
    mapping, jaxpr = params["grid_mapping"], params["jaxpr"]
    blocks = mapping.num_inputs + mapping.num_outputs
    if len(jaxpr.invars) >= mapping.num_index_operands + blocks + mapping.num_scratch_operands:
        return
    raise Unsupported(
        "partial-derivative",
        "JAX derives a kernel by all of its operands, and this one by some",
        beginning(jaxpr.debug_info),
        [Note(advice) for advice in _ADVICE],
    )
