"""JAX asks its plugins to set themselves up when a program first needs a device.

That is how `PALLASITE_SIMULATE` reaches a program that knows nothing of Pallasite: the entry point
`jax_plugins` of this package names this module.
"""

from __future__ import annotations

import sys

from pallasite.diagnostics import Diagnostic
from pallasite.jax.environment import VARIABLE, simulate_from_environment


def initialize() -> None:
    """Switches the process over if `PALLASITE_SIMULATE` is set; called by JAX, once.

    JAX shows exceptions of its plugins and goes on, so what the variable says wrongly is told in a
    line.
    """
    try:
        simulate_from_environment()
    except Diagnostic as error:
        print(f"{VARIABLE}: {error}; nothing is simulated", file=sys.stderr)
