"""The table of contents of `canonicalize-mosaic`: importing a family registers its rules."""

from __future__ import annotations

from pallasite.passes.canonicalize_mosaic import (
    arithmetic,
    broadcasts,
    conversions,
    folding,
    masks_as_numbers,
    matmul,
    reductions,
    selects,
    transposes,
    two_results,
)

FAMILIES = (
    folding, masks_as_numbers, matmul, arithmetic, broadcasts, conversions, reductions, selects,
    transposes, two_results,
)  # fmt: skip


def load() -> None:
    """Makes sure that all rules are registered; importing this module does it."""
