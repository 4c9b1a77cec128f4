"""What work is told in: cycles of the units of a core, or, of a subcore, instructions."""

from __future__ import annotations

from dataclasses import dataclass

UNITS = ("scalar", "load", "store", "vpu", "eup", "xlu", "mxu")


@dataclass(frozen=True)
class Cost:
    """Cycles per unit, in the order of `UNITS`, and the operations that the MXU is given: two per
    element of its tiles, padding of the tiles included."""

    cycles: tuple[float, ...] = (0.0,) * len(UNITS)
    flops: int = 0

    def __add__(self, other: Cost) -> Cost:
        pairs = zip(self.cycles, other.cycles, strict=True)
        return Cost(tuple(a + b for a, b in pairs), self.flops + other.flops)

    @property
    def duration(self) -> float:
        """Cycles until the busiest unit is done."""
        return max(self.cycles)


FREE = Cost()


def cost(flops: int = 0, **cycles: float) -> Cost:
    """A cost from the cycles of some units."""
    return Cost(tuple(cycles.get(unit, 0.0) for unit in UNITS), flops)
