"""Grids whose size is known at run time only, of numbers that are none of steps.

JAX hands them on as they are, and the TPU compiler takes their bits for an int32: 4.0 would be
a thousand million steps.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from pallasite.diagnostics import Note, Unsupported
from pallasite.frontend.jaxprs.pipeline import STEPS, STEPS_ADVICE
from pallasite.jax.source_locations import beginning, calling_line

_COUNTS = ("int32", "uint32", "bool")
"""JAX makes words of booleans. Numbers of 64 bits are refused, as all of these, with the array."""


def check_bounds(avals: Sequence[Any], params: dict[str, Any]) -> None:
    """Raises `Unsupported` if a size of the grid, one of the first operands, is no word."""
    for aval in avals[: params["grid_mapping"].num_dynamic_grid_bounds]:
        if aval.dtype.name not in _COUNTS and aval.dtype.itemsize <= jnp.int32.dtype.itemsize:
            raise Unsupported(
                "unsupported-type",
                STEPS.format(aval.dtype.name),
                beginning(params["jaxpr"].debug_info) or calling_line(),
                [Note(STEPS_ADVICE)],
            )
