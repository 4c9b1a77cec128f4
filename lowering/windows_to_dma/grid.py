"""The iteration space of a kernel or pipeline: its points, their order, and a core's part of it.

Bounds and indices are `Scalar`s: integers known now, or SSA values that the kernel computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.ir import SSAValue

from pallasite.dialects.core_split import CoreSplit
from pallasite.lowering.windows_to_dma.scalars import Scalar, ScalarBuilder, known

Point = tuple[Scalar, ...]
"""A point of a grid: one index per axis."""
Index = tuple[Scalar, ...]
"""The results of an index map: one i32 per dimension of the block."""


@dataclass(frozen=True)
class Grid:
    """The iteration space of one core; its last axis is the fastest."""

    bounds: tuple[Scalar, ...]
    origin: tuple[Scalar, ...] = ()
    """Where in the kernel's grid the part of this core begins; () for the whole grid."""
    whole: tuple[Scalar, ...] = ()
    """The bounds of the kernel's grid; () if they are `bounds`."""

    @property
    def totals(self) -> tuple[Scalar, ...]:
        """The bounds of the kernel's grid."""
        return self.whole or self.bounds

    def part(self, build: ScalarBuilder, split: CoreSplit, core: SSAValue) -> Grid:
        """The part of this grid that core number `core` runs, as `CoreSplit.part` computes it.

        A size that `split.cores` does not divide gives one index more to each of the first cores.
        """
        size = self.bounds[split.axis]
        share = build.divide(size, split.cores)
        rest = build.sub(size, build.mul(share, split.cores))
        start, count = build.mul(core, share), share
        if known(rest) != 0:
            start = build.add(start, build.smallest(core, rest))
            count = build.select(build.less(core, rest), build.add(share, 1), share)
        bounds, origin = list(self.bounds), [cast("Scalar", 0)] * len(self.bounds)
        bounds[split.axis], origin[split.axis] = count, start
        return Grid(tuple(bounds), tuple(origin), self.bounds)

    def program_ids(self, build: ScalarBuilder, point: Point) -> Point:
        """The indices in the kernel's grid, as `program_id` gives them, of a point of this part."""
        if not self.origin:
            return point
        return tuple(build.add(p, o) for p, o in zip(point, self.origin, strict=True))

    @property
    def varying(self) -> list[int]:
        """The axes that may have more than one index."""
        return [axis for axis, bound in enumerate(self.bounds) if known(bound) != 1]

    def steps(self, build: ScalarBuilder) -> Scalar:
        """The number of points."""
        total: Scalar = 1
        for bound in self.bounds:
            total = build.mul(total, bound, "steps")
        return total

    def after(self, build: ScalarBuilder, point: Point) -> Point:
        """The next grid point; the first one after the last."""
        return self._neighbour(build, point, forward=True)

    def before(self, build: ScalarBuilder, point: Point) -> Point:
        """The previous grid point; the last one before the first."""
        return self._neighbour(build, point, forward=False)

    def _neighbour(self, build: ScalarBuilder, point: Point, *, forward: bool) -> Point:
        result = list(point)
        carry: Scalar = 1
        for axis in reversed(self.varying):
            bound, here = self.bounds[axis], point[axis]
            if forward:
                moved = build.add(here, 1)
                over, wrapped = build.equal(moved, bound), 0
            else:
                moved = build.sub(here, 1)
                over, wrapped = build.equal(moved, -1), build.sub(bound, 1)
            result[axis] = build.select(carry, build.select(over, wrapped, moved), here)
            carry = build.both(carry, over)
        return tuple(result)

    def advances(self, index: Index, point: Point) -> bool:
        """Whether an index map that gives `index` at `point` surely changes with every step.

        That is so if the fastest axis has a bound known now, above 1, and its index is one of the
        results as it is; or if the indices of all varying axes are.
        """
        varying = self.varying
        fastest = varying[-1:] if varying and known(self.bounds[varying[-1]]) is not None else []
        return any(
            all(any(result is point[axis] for result in index) for axis in axes)
            for axes in (fastest, varying)
            if axes
        )
