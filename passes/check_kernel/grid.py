"""Refuses grids that the TPU compiler refuses, and warns about parallel axes without effect.

The TPU compiler accepts parallel axes anywhere in a grid (asked for v4, v5e, v5p and v6e). But only
the parallel axes at the front of a grid are shared by cores (spec/pallas_semantics.md sections 1.8
and 2.5), and JAX's TPU interpret mode refuses any other grid.
"""

from __future__ import annotations

from collections.abc import Iterator

from pallasite.diagnostics import Diagnostic, Note
from pallasite.dialects.index_maps import axes_used
from pallasite.dialects.kernel import Kernel, functions_of
from pallasite.dialects.locations import refusal, source_location
from pallasite.targets import Target, targets_with

_SHARED = ("parallel", "core_parallel", "subcore_parallel")


def check_core_axes(kernel: Kernel, target: Target) -> None:
    """Raises `Unsupported` for a `core_parallel` axis without exactly one step per active core, and
    for a `subcore_parallel` axis; libtpu: "Core-parallel dimension must be less than or equal to
    the number of active cores", "subcore_parallel is only supported on SparseCore"."""
    for axis, kind in enumerate(kernel.semantics[: len(kernel.grid or ())]):
        steps = (kernel.grid or ())[axis]
        if kind == "subcore_parallel":
            raise refusal(
                kernel.func, "core-parallel",
                f"grid axis {axis} is subcore_parallel in a kernel of a TensorCore",
                "subcores are parts of SparseCores",
                "use `parallel`, or write the kernel for the subcores (plsc.VectorSubcoreMesh)",
            )  # fmt: skip
        if kind == "core_parallel" and steps != target.active_cores:
            cores = f"{target.active_cores} core{'s' if target.active_cores > 1 else ''}"
            raise refusal(
                kernel.func, "core-parallel",
                f"core-parallel grid axis {axis} has {steps} step{'s' if steps != 1 else ''}, the "
                f"TPU compiler gives a kernel {cores} of a {target.name}",
                "each core takes one step of such an axis",
                "use `parallel`, of which cores share any number of steps",
            )  # fmt: skip


def grid_advice(kernel: Kernel, results: int) -> Iterator[Diagnostic]:
    """Warnings about parallel axes that cores do not share: those behind an axis that is not
    parallel, and those along which one of the `results` outputs keeps its block."""
    yield from _behind_others(kernel)
    yield from _shared_blocks(kernel, results)


def _behind_others(kernel: Kernel) -> Iterator[Diagnostic]:
    location = source_location(kernel.func)
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


def _shared_blocks(kernel: Kernel, results: int) -> Iterator[Diagnostic]:
    """Warnings about parallel axes whose steps all write the same block of an output.

    On chips with one core that makes no difference, but two cores that shared the axis would write
    different results to the block (spec/pallas_semantics.md section 1.8). Pallasite never lets
    cores share such an axis.
    """
    grid = kernel.grid or ()
    maps = functions_of(kernel.func.parent_op())
    first = len(kernel.operands) - results
    for number, window in enumerate(kernel.windows[first:] if results else ()):
        index_map = maps.get(window.transform or "")
        if index_map is None or not index_map.body.blocks:
            continue
        used = axes_used(index_map, len(grid))
        for axis, kind in enumerate(kernel.semantics[: len(grid)]):
            if kind not in _SHARED or grid[axis] in (0, 1) or axis in used:
                continue
            yield Diagnostic(
                "parallel-shared-block",
                f"grid axis {axis} is {kind}, but all its steps write the same blocks of output "
                f"{number}",
                source_location(kernel.func),
                [
                    Note(
                        "two cores that share the axis "
                        f"({targets_with(lambda t: t.cores > 1)}) have each a block of their own: "
                        "the one written back last replaces the other"
                    ),
                    Note(
                        f"call axis {axis} arbitrary, or give its steps blocks of their own (let "
                        f"the index map of output {number} use it) and combine them afterwards"
                    ),
                ],
                severity="warning",
            )
