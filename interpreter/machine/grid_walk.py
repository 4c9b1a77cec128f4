"""The order in which a run takes the points of a grid, in forms where the grid is no loop yet."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core

Axis = Sequence[int]
"""The positions of one dimension of a grid."""


@dataclass(frozen=True)
class GridWalk:
    """Decides the order of the points of a grid, and whom to tell of each."""

    seed: int = 0
    """0: the last axis fastest; others: parallel axes in an order made from it, for each core."""
    visit: Callable[[tuple[int, ...], int, int], None] | None = None
    """Called before each step with the point, the device and the core."""

    def shuffled(self, axes: Sequence[range], kinds: Sequence[str], core: Core) -> list[Axis]:
        """The indices of every axis, in the order in which they are taken."""
        order = random.Random(f"{self.seed} {core.device.index} {core.index}")
        return [
            order.sample(axis, len(axis)) if self.seed and kind == "parallel" else axis
            for axis, kind in zip(axes, kinds, strict=True)
        ]
