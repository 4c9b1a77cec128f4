"""The table of contents of `fold-kernel`: importing a family registers its rules."""

from __future__ import annotations

from pallasite.passes.fold_kernel import (
    branches,
    casts,
    choices,
    comparisons,
    floats,
    integers,
    loops,
    shapes,
)

FAMILIES = (integers, floats, comparisons, casts, choices, shapes, branches, loops)


def load() -> None:
    """Makes sure that all rules are registered; importing this module does it."""
