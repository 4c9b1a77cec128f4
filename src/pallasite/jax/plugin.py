"""JAX asks its plugins to set themselves up when a program first needs a device.

That is how `PALLASITE_SIMULATE` reaches a program that knows nothing of Pallasite: the entry point
`jax_plugins` of this package names this module.
"""

from __future__ import annotations

import os
from typing import Any

from pallasite.jax.environment import VARIABLE, simulate_from_environment


def initialize() -> None:
    """Switches the process over if `PALLASITE_SIMULATE` is set; called by JAX, once."""
    if not os.environ.get(VARIABLE):
        return
    import jax

    config: Any = jax.config
    if not config.jax_platforms:
        config.update("jax_platforms", "cpu")
    simulate_from_environment()
