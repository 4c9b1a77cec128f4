"""Offers: other layouts in which a value can be had, besides moving it.

Rules register them for a value that they define (docs/internals/lowering.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from xdsl.ir import SSAValue

from pallasite.layouts.vector_layout import VectorLayout

Offer = Callable[[VectorLayout], SSAValue | None]
"""Gives the grid of a value in a layout without moving it, or None."""


class Smaller(Protocol):
    """Computes a value in another layout from operands that are moved there first."""

    def cost(self, layout: VectorLayout) -> float | None:
        """The register operations that it takes to have the value in `layout`; None if moving the
        value itself takes no more."""
        ...

    def make(self, layout: VectorLayout) -> SSAValue:
        """The grid in `layout`; only called if there is a cost."""
        ...
