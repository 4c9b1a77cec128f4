"""What a rule may say of a value that it defines: how else it can be had than by moving it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from xdsl.ir import SSAValue

from pallasite.layouts.vector_layout import VectorLayout

Offer = Callable[[VectorLayout], SSAValue | None]
"""Gives the grid of a value in a layout without moving it, or None."""


class Smaller(Protocol):
    """How a value may be computed in another layout, from what moves there before."""

    def cost(self, layout: VectorLayout) -> float | None:
        """Register operations that it takes; None if moving the value itself takes no more."""
        ...

    def make(self, layout: VectorLayout) -> SSAValue:
        """The grid in `layout`, from what is moved there; asked where there is a cost."""
        ...
