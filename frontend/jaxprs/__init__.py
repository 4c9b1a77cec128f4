"""Kernels from JAX programs: jaxprs become modules in `pallas` form.

One file per family of primitives registers its rules (`rules.py`); `tracer.py` walks jaxprs with
them, `kernel.py` makes modules of whole kernels. Imports JAX, so that only `pallasite.jax` imports
it.
"""

from importlib import import_module

from pallasite.frontend.jaxprs.kernel import trace_call, trace_mesh
from pallasite.frontend.jaxprs.rules import RULES

FAMILIES = (
    "casts", "compare", "control", "debug", "devices", "dot", "elementwise", "mxu", "packing",
    "pipeline", "random", "reductions", "refs", "scoped", "semaphores", "shapes",
    "subcore_accesses", "subcore_registers", "subcore_sync", "subcore_transfers", "transfers",
)  # fmt: skip
"""The modules whose import registers the rules."""

for family in FAMILIES:
    import_module(f"{__name__}.{family}")

__all__ = ["FAMILIES", "RULES", "trace_call", "trace_mesh"]
