"""The environment variable that switches a whole process over to the modelled TPU."""

from __future__ import annotations

import os
from typing import Any

VARIABLE = "PALLASITE_SIMULATE"


def simulate_from_environment(default: str | None = None) -> bool:
    """Switches this process over if `PALLASITE_SIMULATE=TARGET[:FORM[:PRODUCTS]]` is set, or to
    `default`.

    Programs that name no platform then run on the CPU, whatever devices JAX would look for.
    """
    value = os.environ.get(VARIABLE) or default
    if not value:
        return False
    import jax

    from pallasite.jax.simulation import simulate_process

    config: Any = jax.config
    if not config.jax_platforms:
        config.update("jax_platforms", "cpu")
    target, _, rest = value.partition(":")
    form, _, products = rest.partition(":")
    simulate_process(target, form or "tiles", products=products or "tpu")
    return True
