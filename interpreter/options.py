"""What is asked of a run, besides its kernel, the arrays and the target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pallasite.interpreter.driver import DEFAULT_STEPS
from pallasite.interpreter.machine.grid_walk import GridWalk
from pallasite.interpreter.machine.order import IN_ORDER, Order


@dataclass(frozen=True)
class Limits:
    """How much a run may take before it is stopped."""

    steps: int = DEFAULT_STEPS
    memory: int | None = None
    """Bytes of this computer; None: `default_memory()`."""

    @staticmethod
    def of(max_steps: int | None, max_memory: int | None) -> Limits:
        """Those that users give, of whom None asks for the default."""
        return Limits(DEFAULT_STEPS if max_steps is None else max_steps, max_memory)


@dataclass(frozen=True)
class Options:
    """How a kernel is run, and what is told of it."""

    checks: frozenset[str] = frozenset()
    """Names of sanitizers."""
    order: Order = IN_ORDER
    grid_walk: GridWalk | None = None
    """For kernels that still have their grid, in form `pallas` or `mosaic`."""
    limits: Limits = Limits()
    poison: int = 0
    """Which pattern memory and registers hold before they are written, 0 or 1."""
    profile: bool = False
    """Whether the modelled time is kept, of a kernel in form `tiles` or `vreg`."""

    @staticmethod
    def of(
        *,
        checks: Iterable[str] = (),
        seed: int = 0,
        unordered: bool = False,
        grid_walk: GridWalk | None = None,
        max_steps: int | None = None,
        max_memory: int | None = None,
        poison: int = 0,
        profile: bool = False,
    ) -> Options:
        """What users ask for, in the words of `pallasite.run`."""
        return Options(
            checks=frozenset(checks),
            order=Order.seeded(seed, unordered=unordered),
            grid_walk=grid_walk,
            limits=Limits.of(max_steps, max_memory),
            poison=poison,
            profile=profile,
        )

    @property
    def is_plain(self) -> bool:
        """Whether nobody observes the run, and transfers land in their usual order."""
        usual = self.order.policy == IN_ORDER.policy and not self.order.seed
        return usual and not (self.checks or self.grid_walk or self.profile)


DEFAULT = Options()
