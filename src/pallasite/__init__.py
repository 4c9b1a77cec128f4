"""Pallasite: an open TPU kernel compiler middle-end and simulator for Pallas kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pallasite.api import lower, parse, run, simulate
    from pallasite.diagnostics import Diagnostic

__all__ = ["Diagnostic", "lower", "parse", "run", "simulate"]


def __getattr__(name: str) -> Any:
    # Imported on first use: a tool that only prints its help should not load the interpreter, and
    # whoever stops one meanwhile hears nothing (`tools/scripts.py`).
    if name in ("lower", "parse", "run", "simulate"):
        from pallasite import api

        return getattr(api, name)
    if name == "Diagnostic":
        from pallasite.diagnostics import Diagnostic

        return Diagnostic
    raise AttributeError(f"module 'pallasite' has no attribute {name!r}")
