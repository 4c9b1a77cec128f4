"""`cost_analysis()` of compiled programs: what their kernels say that they cost.

XLA knows nothing of a callback and counts -1 for it; a TPU counts the `cost_estimate` of the
kernel's call, for each place in the compiled program (the body of a loop is one) that calls it.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from jax.experimental import pallas as pl

from pallasite.diagnostics import Note, Unsupported
from pallasite.jax.calls import KernelCall
from pallasite.jax.source_locations import calling_line

UNKNOWN = -1.0
"""What XLA counts for a call that it knows nothing of."""
_ESTIMATED = {"flops": "flops", "transcendentals": "transcendentals",
              "bytes accessed": "bytes_accessed"}  # fmt: skip
"""XLA's names of costs, and those of an estimate."""
_CALLBACK = re.compile(
    r'custom_call_target="xla_[a-z_]*python_[a-z]*_callback".*backend_config=\{index = (\d+)'
)
"""A place that calls back, in the text of a compiled program, and the number of the callback."""
_NOT_COUNTED = ("transcendentals",)
"""Costs for which XLA counts nothing instead of `UNKNOWN`."""


def check_estimate(params: dict[str, Any]) -> None:
    """Raises `Unsupported` if the call of a kernel with `params` has an estimate of another kind.

    JAX hashes it, or converts it, when it lowers the program, with messages that do not name it.
    """
    estimate = params.get("cost_estimate")
    if estimate is None or isinstance(estimate, pl.CostEstimate):
        return
    raise Unsupported(
        "cost-estimate",
        f"expected a pl.CostEstimate as cost_estimate, got {type(estimate).__name__}",
        calling_line(),
        [
            Note(
                "write cost_estimate=pl.CostEstimate(flops=..., transcendentals=..., "
                "bytes_accessed=...), whole numbers, or leave it out"
            )
        ],
    )


def counting_kernels(analyse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The costs of a program, with the estimates of its simulated kernels."""

    @functools.wraps(analyse)
    def analysed(self: Any) -> Any:
        costs = analyse(self)
        kept = getattr(getattr(self, "unsafe_call", None), "keepalive", None)
        calls = [item for item in kept or () if isinstance(item, KernelCall) and item.cost]
        if calls and isinstance(costs, dict):
            text = "".join(m.to_string() for m in self.xla_executable.hlo_modules())
            places = Counter(map(int, _CALLBACK.findall(text)))
            for call in calls:
                for _ in range(places[call.callback]):
                    _count(costs, call.cost)
        return costs

    return analysed


def _count(costs: dict[str, float], estimate: dict[str, Any]) -> None:
    for name, key in _ESTIMATED.items():
        instead = 0.0 if name in _NOT_COUNTED else UNKNOWN
        if key in estimate:
            costs[name] = costs.get(name, 0.0) - instead + float(estimate[key])
