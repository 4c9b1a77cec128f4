"""The table of contents of the lowering: importing a family registers its rules."""

from __future__ import annotations

from pallasite.lowering.pallas_to_mosaic import (
    dot,
    pipeline,
    programs,
    reduce,
    refs,
    scope,
    shape,
)

FAMILIES = (dot, pipeline, programs, reduce, refs, scope, shape)


def load() -> None:
    """Makes sure that all rules are registered; importing this module does it."""
