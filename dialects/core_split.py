"""How the cores of a device share the grid of a kernel (spec/pallas_semantics.md 2.5).

On a chip whose device shows two TensorCores to a kernel (v4, v5p), one parallel axis of the grid is
cut into one contiguous chunk per core; each core runs the whole pipeline on its sub-grid, with
buffers, scratch and semaphores of its own. A kernel over a core mesh is the same thing: JAX writes
the mesh as a grid of one parallel axis, so that every core gets one point. `lower-to-dma` writes
its answer in that way, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from pallasite.dialects.index_maps import axes_used
from pallasite.dialects.kernel import DYNAMIC, IN_PLACE, Kernel
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import memory_space


@dataclass(frozen=True)
class CoreSplit:
    """The grid axis that is cut, and the number of cores that share it."""

    axis: int
    cores: int

    def part(self, core: int, size: int) -> tuple[int, int]:
        """First index and number of indices that `core` gets of an axis of `size`."""
        share, rest = divmod(max(size, 0), self.cores)
        return core * share + min(core, rest), share + (core < rest)


def core_split(
    kernel: Kernel, functions: Mapping[str, FuncOp], outputs: Collection[int], cores: int
) -> CoreSplit | None:
    """The axis of `kernel` that `cores` cores share; None if one core runs all of it.

    Only axes of the grid's parallel prefix are cut, and only those on which every output block
    depends: `outputs` are the positions of the outputs among the operands. Of these it is the first
    whose size the cores divide, else the longest one, else the first whose size is not known yet.
    A `core_parallel` axis is an axis of cores, and refused where there are fewer.
    """
    grid = kernel.grid or ()
    for axis, kind in enumerate(kernel.semantics[: len(grid)]):
        if kind == "core_parallel" and grid[axis] > cores:
            raise refusal(
                kernel.func,
                "core-parallel",
                f"core-parallel grid axis {axis} has {grid[axis]} steps, the device has "
                f"{cores} {'cores' if cores > 1 else 'core'}",
                "each core takes one step of such an axis; use `parallel` for more",
            )
    if cores == 1:
        return None
    candidates = _candidates(kernel, functions, outputs)
    named = [axis for axis in candidates if kernel.semantics[axis] == "core_parallel"]
    if named:
        return CoreSplit(named[0], cores)
    static = [axis for axis in candidates if grid[axis] != DYNAMIC and grid[axis] > 1]
    whole = [axis for axis in static if grid[axis] % cores == 0]
    chosen = whole or sorted(static, key=lambda axis: -grid[axis])
    chosen = chosen or [axis for axis in candidates if grid[axis] == DYNAMIC]
    return CoreSplit(chosen[0], cores) if chosen else None


def _candidates(
    kernel: Kernel, functions: Mapping[str, FuncOp], outputs: Collection[int]
) -> list[int]:
    axes = len(kernel.grid or ())
    prefix: list[int] = []
    for axis, kind in enumerate(kernel.semantics[:axes]):
        if kind not in ("parallel", "core_parallel"):
            break
        prefix.append(axis)
    for position in outputs:
        window = kernel.windows[position]
        if window.transform is not None:
            found = functions.get(window.transform)
            used = axes_used(found, axes) if found is not None else set[int]()
        elif memory_space(kernel.operands[position].type) in IN_PLACE:
            # The body's own transfers write it.
            continue
        else:
            used = set[int]()
        prefix = [axis for axis in prefix if axis in used]
    return prefix
