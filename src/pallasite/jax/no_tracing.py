"""`jax.no_tracing()` around a simulated program that JAX has traced before.

JAX refuses to trace where it has not kept the executable of a call for its fast path. A program
with simulated kernels calls back to Python, and never takes that path; whether it has to be traced
again is found out where JAX would trace it.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from jax._src import config, pjit


def allow_traced_programs(simulating: Callable[[], bool]) -> None:
    """Where `simulating`, a call of a jitted function may look for what it was traced to."""
    pjit.config = _Config(simulating)  # type: ignore[assignment]


class _Config:
    """The settings of JAX as calls of jitted functions see them."""

    _UNASKED = SimpleNamespace(value=False)

    def __init__(self, simulating: Callable[[], bool]) -> None:
        self._simulating = simulating

    def __getattr__(self, name: str) -> Any:
        return getattr(config, name)

    @property
    def no_tracing(self) -> Any:
        """JAX's setting, which whoever traces asks for again."""
        return self._UNASKED if self._simulating() else config.no_tracing
