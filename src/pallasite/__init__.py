"""Pallasite: an open TPU kernel compiler middle-end and simulator for Pallas kernels."""

from pallasite.api import lower, parse, run
from pallasite.diagnostics import Diagnostic

__all__ = ["Diagnostic", "lower", "parse", "run"]
