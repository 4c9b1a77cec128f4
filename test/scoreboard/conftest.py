"""Eight CPU devices, the largest mesh of the tests; asked for before JAX starts its backend."""

from __future__ import annotations

import importlib.util
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

if importlib.util.find_spec("jax") is None:
    # Every module here imports JAX, directly or by what it imports.
    collect_ignore_glob = ["test_*.py"]
elif "device_count" not in os.environ.get("XLA_FLAGS", ""):
    import jax

    jax.config.update("jax_num_cpu_devices", 8)
