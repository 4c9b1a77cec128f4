"""The table of contents of the unrolling: importing a family registers its rules."""

from __future__ import annotations

from pallasite.lowering.tiles_to_vregs import control, groups, memory, registerwise, renaming

FAMILIES = (control, groups, memory, registerwise, renaming)


def load() -> None:
    """Does nothing more than the imports above; names the moment at which rules must be known."""
