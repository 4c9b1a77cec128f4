"""How much a plan under construction may cost, and how long it may take to find."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

from pallasite.layouts.plan import GatherLanes, GatherSublanes, Select, Step

_PIECES = 2
"""Parts of an index register or mask that take as long as a step."""


class TooDear(Exception):
    """An attempt costs more than the best one so far: nothing that it finds can win."""


class Budget:
    """Whoever spends more than `limit`, or makes more than `most` steps, is stopped by `TooDear`.

    Costs are those of `costs.py`; steps are counted over all that `share` them.
    """

    def __init__(self, limit: float = math.inf, most: float = math.inf) -> None:
        self.limit = limit
        self.spent = 0.0
        self._left = [most]

    def share(self, other: Budget) -> None:
        """Continues from what `other` has spent; steps are taken from what is left for both."""
        self.limit, self.spent, self._left = other.limit, other.spent, other._left

    def afford(self, more: float = 0.0) -> None:
        """Raises `TooDear` if `more` on top of the steps made so far exceeds the limit."""
        if self.spent + more > self.limit or self._left[0] < 0:
            raise TooDear

    @contextmanager
    def hurry(self, most: float) -> Generator[None]:
        """Within, at most so many steps are made on this program and all its copies."""
        before = self._left[0]
        self._left[0] = allowed = min(before, most)
        try:
            yield
        finally:
            # Of no limit nothing is taken; that much less would be no number.
            if allowed < math.inf:
                self._left[0] += before - allowed

    @contextmanager
    def reserve(self, cost: float) -> Generator[None]:
        """Within, so much less may be spent: it will be needed afterwards."""
        self.limit -= cost
        try:
            yield
        finally:
            self.limit += cost

    @property
    def left(self) -> float:
        """How many steps may still be made."""
        return self._left[0]

    def work(self, steps: float) -> None:
        """For what takes as long as so many steps, although none is made."""
        self._left[0] -= steps
        self.afford()

    def pay(self, price: float, step: Step) -> None:
        """For a step that was made."""
        self.spent += price
        self._left[0] -= 1 + _pieces(step)


def _pieces(step: Step) -> int:
    """Parts of index registers and masks that had to be found: work, as making steps is."""
    # By the very type: this is asked of every step that is tried.
    kind = type(step)
    if kind is Select:
        return len(cast(Select, step).mask.boxes) // _PIECES
    if kind is GatherLanes or kind is GatherSublanes:
        return len(cast(GatherLanes, step).index.overlays) // _PIECES
    return 0
