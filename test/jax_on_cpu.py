"""JAX as the tests use it: on eight devices of the CPU, the largest mesh, compiling quickly.

Most programs of tests run once, on small arrays: XLA takes longer to compile than to run them.
"""

from __future__ import annotations

import importlib.util
import os

QUICKLY = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
"""Halves the time that XLA takes to compile."""
INSTALLED = importlib.util.find_spec("jax") is not None


def start() -> None:
    """Starts JAX's backend, before anything else does; the environment stays as it is.

    The flags are for this process alone, since the TPU compiler would read them, too. Those of the
    environment come last and win.
    """
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if not INSTALLED:
        return
    import jax

    given = os.environ.get("XLA_FLAGS")
    if "device_count" not in (given or ""):
        jax.config.update("jax_num_cpu_devices", 8)
    os.environ["XLA_FLAGS"] = f"{QUICKLY} {given or ''}"
    try:
        jax.devices()
    finally:
        del os.environ["XLA_FLAGS"]
        if given is not None:
            os.environ["XLA_FLAGS"] = given
