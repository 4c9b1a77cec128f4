"""What is odd about an equation of a kernel that JAX lowers all the same."""

from __future__ import annotations

from pallasite.diagnostics import Diagnostic, Note, warn
from pallasite.dialects.locations import position_of
from pallasite.frontend.jaxprs.internals import jax_core
from pallasite.frontend.jaxprs.locations import location_of


def warn_at(equation: jax_core.JaxprEqn, code: str, message: str, *notes: str) -> None:
    """Warns of `equation` of a jaxpr, at its line."""
    location = location_of(equation.source_info)
    at = None if location is None else position_of(location)
    warn(Diagnostic(code, message, at, [Note(note) for note in notes], severity="warning"))
