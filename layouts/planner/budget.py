"""How much a plan under construction may cost, and how long it may take to find."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

from pallasite.layouts.plan import GatherLanes, GatherSublanes, Select, Step

_PIECES = 2
"""This many pieces of an index register or mask count as one step of work."""


class TooDear(Exception):
    """Aborts an attempt that already costs more than the best plan so far, or took too long."""


class Budget:
    """Limits the cost of a plan (`limit`) and the steps made to find it (`most`).

    Exceeding either raises `TooDear`. Costs are those of `costs.py`. Steps measure planning time;
    budgets that `share` one another draw on the same number of steps.
    """

    def __init__(self, limit: float = math.inf, most: float = math.inf) -> None:
        self.limit = limit
        self.spent = 0.0
        self._left = [most]

    def share(self, other: Budget) -> None:
        """Copies limit and spent cost from `other`, and shares its remaining steps."""
        self.limit, self.spent, self._left = other.limit, other.spent, other._left

    def afford(self, more: float = 0.0) -> None:
        """Raises `TooDear` if `more` on top of the steps made so far exceeds the limit."""
        if self.spent + more > self.limit or self._left[0] < 0:
            raise TooDear

    @contextmanager
    def hurry(self, most: float) -> Generator[None]:
        """Context in which this budget and all that share its steps may make `most` steps."""
        before = self._left[0]
        self._left[0] = allowed = min(before, most)
        try:
            yield
        finally:
            # An infinite number of steps stays as it is: infinity minus infinity is NaN.
            if allowed < math.inf:
                self._left[0] += before - allowed

    @contextmanager
    def reserve(self, cost: float) -> Generator[None]:
        """Context in which `cost` is held back for what has to be done afterwards."""
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
        """Accounts for planning work that takes as long as `steps` steps but makes none."""
        self._left[0] -= steps
        self.afford()

    def pay(self, price: float, step: Step) -> None:
        """Accounts for a step that was added to the plan, of cost `price`."""
        self.spent += price
        self._left[0] -= 1 + _pieces(step)


def _pieces(step: Step) -> int:
    """Extra steps for the pieces of the step's mask or index register, which take time to find."""
    # By the very type: this is asked of every step that is tried.
    kind = type(step)
    if kind is Select:
        return len(cast(Select, step).mask.boxes) // _PIECES
    if kind is GatherLanes or kind is GatherSublanes:
        return len(cast(GatherLanes, step).index.overlays) // _PIECES
    return 0
