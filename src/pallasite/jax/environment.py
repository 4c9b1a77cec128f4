"""The environment variable that switches a whole process over to the modelled TPU."""

from __future__ import annotations

import os
from typing import Any

VARIABLE = "PALLASITE_SIMULATE"


def simulate_from_environment(default: str | None = None) -> bool:
    """Switches this process over if `PALLASITE_SIMULATE=TARGET[:FORM[:PRODUCTS[:CHECKS]]]` is
    set, or to `default`. What is left empty is as if it was not said: `v5e:::race,init`.

    Programs that name no platform then run on the CPU, whatever devices JAX would look for.
    """
    value = os.environ.get(VARIABLE) or default
    if not value:
        return False
    from pallasite.jax.versions import check_version

    check_version()
    import jax

    from pallasite.jax.simulation import simulate_process

    config: Any = jax.config
    if not config.jax_platforms:
        config.update("jax_platforms", "cpu")
    target, form, products, checks = (*value.split(":", 3), "", "", "")[:4]
    simulate_process(target, form or "tiles", checks, products=products or "tpu")
    return True
