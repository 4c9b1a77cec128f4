"""JAX asks its plugins to set themselves up when a program first needs a device.

That is how `PALLASITE_SIMULATE` reaches a program that knows nothing of Pallasite: the entry point
`jax_plugins` of this package names this module.
"""

from __future__ import annotations

from pallasite.jax.environment import simulate_from_environment


def initialize() -> None:
    """Switches the process over if `PALLASITE_SIMULATE` is set; called by JAX, once."""
    simulate_from_environment()
