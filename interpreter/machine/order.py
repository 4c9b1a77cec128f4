"""The order in which transfers land, where the kernel leaves it open."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

Policy = Literal["eager", "on_wait", "random"]


@dataclass(frozen=True)
class Order:
    """Decides when transfers land."""

    policy: Policy = "on_wait"
    """At once; as late as waits allow; or at random, made from the seed."""
    seed: int = 0
    """Of the random numbers that kernels ask for, too."""
    unordered: bool = False
    """Whether transfers between the same two cores may overtake each other."""

    @staticmethod
    def seeded(seed: int, *, unordered: bool = False) -> Order:
        """As late as waits allow with seed 0, at random with any other."""
        return Order("random" if seed else "on_wait", seed, unordered)

    def source(self) -> random.Random | None:
        """The source of random numbers; made at its first use, since seeding takes long."""
        return random.Random(self.seed) if self.policy == "random" else None


IN_ORDER = Order()
"""As late as waits allow."""
