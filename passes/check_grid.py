"""Grids that the TPU compiler refuses, and advice about others: what is legal, gives the right
result, and is no good.

The TPU compiler takes parallel axes anywhere in a grid (asked for v4, v5e, v5p and v6e). Cores
share only axes of the parallel prefix, though (spec/pallas_semantics.md sections 1.8 and 2.5), and
JAX's TPU interpret mode refuses any other grid.
"""

from __future__ import annotations

from collections.abc import Iterator

from pallasite.diagnostics import Diagnostic, Note
from pallasite.dialects.kernel import Kernel
from pallasite.dialects.locations import first_location, position_of
from pallasite.passes.check_vectors import refusal
from pallasite.targets import Target

_SHARED = ("parallel", "core_parallel", "subcore_parallel")


def check_core_axes(kernel: Kernel, target: Target) -> None:
    """Raises `Unsupported` for an axis of cores that has not one step per active core; libtpu:
    "Core-parallel dimension must be less than or equal to the number of active cores"."""
    for axis, kind in enumerate(kernel.semantics[: len(kernel.grid or ())]):
        steps = (kernel.grid or ())[axis]
        if kind == "core_parallel" and steps != target.active_cores:
            cores = f"{target.active_cores} core{'s' if target.active_cores > 1 else ''}"
            raise refusal(
                kernel.func, "core-parallel",
                f"core-parallel grid axis {axis} has {steps} step{'s' if steps != 1 else ''}, the "
                f"TPU compiler gives a kernel {cores} of a {target.name}",
                "each core takes one step of such an axis",
                "use `parallel`, of which cores share any number of steps",
            )  # fmt: skip


def grid_advice(kernel: Kernel) -> Iterator[Diagnostic]:
    """A warning for each parallel axis of `kernel` behind one that is not."""
    location = position_of(first_location(kernel.func))
    ordered: int | None = None
    for axis, kind in enumerate(kernel.semantics[: len(kernel.grid or ())]):
        if kind not in _SHARED:
            ordered = axis if ordered is None else ordered
        elif ordered is not None:
            yield Diagnostic(
                "parallel-not-first",
                f"grid axis {axis} is {kind} but comes behind axis {ordered}, which is "
                f"{kernel.semantics[ordered]}: expected parallel axes to be a prefix of the grid",
                location,
                [
                    Note("cores share leading parallel axes only, so this one runs on one core"),
                    Note(
                        f"put axis {axis} before axis {ordered} in the grid and in the index maps, "
                        "or call it arbitrary; JAX's TPU interpret mode refuses the grid as it is"
                    ),
                ],
                severity="warning",
            )
