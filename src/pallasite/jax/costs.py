"""`cost_analysis()` of compiled programs: what their kernels say that they cost.

XLA knows nothing of a callback and counts -1 for it; a TPU counts the `cost_estimate` of the
kernel's call. Both are counted once per call in the program, as XLA counts the body of a loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pallasite.jax.calls import KernelCall

UNKNOWN = -1.0
"""What XLA counts for a call that it knows nothing of."""
_ESTIMATED = {"flops": "flops", "transcendentals": "transcendentals",
              "bytes accessed": "bytes_accessed"}  # fmt: skip
"""XLA's names of costs, and those of an estimate."""
_NOT_COUNTED = ("transcendentals",)
"""Costs for which XLA counts nothing instead of `UNKNOWN`."""


def counting_kernels(analyse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The costs of a program, with the estimates of its simulated kernels."""

    @functools.wraps(analyse)
    def analysed(self: Any) -> Any:
        costs = analyse(self)
        kept = getattr(getattr(self, "unsafe_call", None), "keepalive", None)
        if isinstance(costs, dict):
            for item in kept or ():
                if isinstance(item, KernelCall) and item.cost:
                    _count(costs, item.cost)
        return costs

    return analysed


def _count(costs: dict[str, float], estimate: dict[str, Any]) -> None:
    for name, key in _ESTIMATED.items():
        instead = 0.0 if name in _NOT_COUNTED else UNKNOWN
        if key in estimate:
            costs[name] = costs.get(name, 0.0) - instead + float(estimate[key])
