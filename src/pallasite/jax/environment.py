"""The environment variable that switches a whole process over to the modelled TPU."""

from __future__ import annotations

import os

VARIABLE = "PALLASITE_SIMULATE"


def simulate_from_environment(default: str | None = None) -> bool:
    """Switches this process over if `PALLASITE_SIMULATE=TARGET[:FORM]` is set, or to `default`."""
    value = os.environ.get(VARIABLE) or default
    if not value:
        return False
    from pallasite.jax.simulation import simulate_process

    target, _, form = value.partition(":")
    simulate_process(target, form or "tiles")
    return True
