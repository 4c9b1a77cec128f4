"""JAX is started before the modules here use it."""

from __future__ import annotations

from ..jax_on_cpu import INSTALLED, start

start()

if not INSTALLED:
    # Every module here imports JAX, directly or by what it imports.
    collect_ignore_glob = ["test_*.py"]
