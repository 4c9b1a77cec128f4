"""What lowering costs: by block size, by kernel of the corpus, and per register operation.

    python benchmarks/compile_cost.py --corpus PATH

Writes docs/compile_cost.md; with `--only NAMES`, prints the table of those kernels. Modules are not
verified between passes. Times are processor times of one run on one computer; what must hold
anywhere are operation counts and ratios between sizes.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from corpus import Kernel, arguments, kernels, machine, publish, register_kinds, table
from odd_moves import FAMILIES, odd_moves, sizes
from templates import TEMPLATES, square
from xdsl.dialects.builtin import ModuleOp

from pallasite import api
from pallasite.collection import paused
from pallasite.diagnostics import Diagnostic
from pallasite.dialects import make_context
from pallasite.dialects.kernel import form_of, set_form
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.planner import plan
from pallasite.lowering.pipelines import steps
from pallasite.targets import get_target

TARGET = "v5e"
SIZES = (128, 512, 2048)
REPEATS = 3
ODD = 4
"""Odd movements of every family and element type."""
DEAR = 0.05
"""Seconds that planning should not take."""


@dataclass
class Cost:
    """Seconds by pass of one lowering, and the operations of its forms."""

    seconds: dict[str, float]
    tiles_ops: int
    register_ops: int

    @property
    def to_tiles(self) -> float:
        """Seconds from the parsed module to form `tiles`."""
        return sum(s for name, s in self.seconds.items() if name != "tiles-to-vregs")

    @property
    def to_vregs(self) -> float:
        """Seconds from form `tiles` to form `vreg`."""
        return self.seconds.get("tiles-to-vregs", 0.0)


def lower(module: ModuleOp, goal: str) -> Cost:
    """Lowers a copy of `module` as `api.lower` does, timing every pass, and the search for garbage
    that is put off until all have run."""
    lowered, context = module.clone(), make_context()
    cost = Cost({}, 0, 0)
    gc.collect()
    with paused():
        for leaves, step in steps(form_of(module), goal, TARGET):
            if leaves == "vreg":
                cost.tiles_ops = operations(lowered)
            began = time.process_time()
            step.apply(context, lowered)
            cost.seconds[step.name] = time.process_time() - began
            set_form(lowered, leaves)
        ended = time.process_time()
    cost.seconds["search for garbage"] = time.process_time() - ended
    if goal == "vreg":
        cost.register_ops = register_kinds(lowered).total()
    else:
        cost.tiles_ops = operations(lowered)
    return cost


def operations(module: ModuleOp) -> int:
    """How many operations `module` has."""
    return sum(1 for _ in module.walk())


def repeated(module: ModuleOp, goal: str) -> tuple[Cost, Cost]:
    """The first lowering, whose movements are not planned yet, and the least that each pass takes
    in the next ones."""
    first, *later = (lower(module, goal) for _ in range(1 + REPEATS))
    least = {name: min(c.seconds[name] for c in later) for name in first.seconds}
    return first, Cost(least, first.tiles_ops, first.register_ops)


def by_size() -> str:
    """The table of kernels of one block, by its size."""
    rows = []
    for name in TEMPLATES:
        costs = [repeated(api.parse(square(name, n)), "tiles") for n in SIZES]
        counts = [first.tiles_ops for first, _ in costs]
        later = [second.to_tiles for _, second in costs]
        rows.append((
            name, *counts, *(round(first.to_tiles * 1e3, 1) for first, _ in costs),
            *(round(s * 1e3, 1) for s in later), later[-1] / later[0],
        ))  # fmt: skip
    header = (
        "kernel",
        *(f"ops at {n}" for n in SIZES),
        *(f"first ms at {n}" for n in SIZES),
        *(f"ms at {n}" for n in SIZES),
        f"time {SIZES[-1]} / {SIZES[0]}",
    )
    return table(header, rows)


def _forget() -> None:
    """Empties every cache of the planner, those of its parts included."""
    for name, module in list(sys.modules.items()):
        if name.startswith("pallasite.layouts."):
            for cached in list(vars(module).values()):
                if (clear := getattr(cached, "cache_clear", None)) is not None:
                    clear()


def planning() -> str:
    """Plans of odd movements, nothing of them being known, and the slowest of each family."""
    costs = Costs.of(get_target(TARGET))
    found: dict[str, list[tuple[float, str, str]]] = {family: [] for family in FAMILIES}
    for family, element, move in odd_moves(ODD):
        taken: list[float] = []
        for _ in range(REPEATS):
            _forget()
            gc.collect()
            began = time.process_time()
            try:
                plan(move, costs)
            except Diagnostic as error:
                print(f"{family} {element} {sizes(move)}: {error.message}")
                break
            taken.append(time.process_time() - began)
        if taken:
            found[family].append((min(taken), element, sizes(move)))
    rows = [
        (
            family, len(times), round(float(np.median([t for t, _, _ in times])) * 1e3, 1),
            sum(t > DEAR for t, _, _ in times), round(max(times)[0] * 1e3, 1),
            f"{max(times)[1]} {max(times)[2]}",
        )
        for family, times in found.items()
    ]  # fmt: skip
    header = ("family", "movements", "median ms", f"over {DEAR * 1e3:.0f} ms", "most ms", "which")
    return table(header, rows)


def measured(found: Iterator[Kernel]) -> dict[str, tuple[Cost, Cost]]:
    """The costs of every kernel that we lower."""
    lower(api.parse(square("elementwise", 128)), "vreg")  # imports
    costs: dict[str, tuple[Cost, Cost]] = {}
    for kernel in found:
        if not kernel.accepted(TARGET):
            continue
        try:
            costs[kernel.name] = repeated(kernel.parse(), "vreg")
        except Diagnostic as error:
            print(f"{kernel.name}: {error.message}")
    return costs


def rate(costs: list[Cost]) -> int:
    """Register operations that are made in a second of unrolling."""
    seconds = sum(c.to_vregs for c in costs)
    return round(sum(c.register_ops for c in costs) / seconds) if seconds else 0


def shares(costs: list[Cost]) -> str:
    """How the time to `vreg` divides among passes."""
    total: dict[str, float] = {}
    for cost in costs:
        for name, seconds in cost.seconds.items():
            total[name] = total.get(name, 0.0) + seconds
    whole = sum(total.values())
    rows = [(name, round(s * 1e3), round(100 * s / whole)) for name, s in total.items()]
    return table(("pass", "ms, all kernels", "%"), rows)


def by_kernel(costs: dict[str, tuple[Cost, Cost]]) -> str:
    """The table of the corpus, the slowest kernel first."""
    slowest = sorted(costs.items(), key=lambda item: -item[1][0].to_tiles)
    rows = [
        (name, round(first.to_tiles * 1e3, 1), round(later.to_tiles * 1e3, 1),
         round(later.to_vregs * 1e3, 1), later.register_ops, rate([later]))
        for name, (first, later) in slowest
    ]  # fmt: skip
    header = (
        "kernel", "first ms to tiles", "ms to tiles", "ms to vreg", "register ops", "ops per s",
    )  # fmt: skip
    return table(header, rows)


def page(costs: dict[str, tuple[Cost, Cost]], by_size: str, planned: str) -> str:
    """The page from the costs of the corpus and two tables."""
    first, later = zip(*costs.values(), strict=True)
    large = [c for c in later if c.register_ops >= 200]
    over = sum(c.to_tiles >= 0.1 for c in first)
    return f"""# What lowering costs

Written by `benchmarks/compile_cost.py` on one computer
({machine()}; load {os.getloadavg()[0]:.1f}: above the
number of cores, processes slow each other down), target {TARGET}, without
verification between passes. Times are processor times of the first lowering, or the least of the
{REPEATS} following ones for each pass. They hold for this
computer only; counts and ratios hold elsewhere, too.

## Independent of the block

One n x n block of f32. *First* includes planning the movement of data, which later lowerings of
the same movement find in a cache.

{by_size}

## Planning odd movements

Random movements of up to four million elements, with dimensions of up to a few thousand, of f32,
bf16, int8 and int4 (`benchmarks/odd_moves.py`, always the same ones), planned without caches; the
least of 3. *Any tiles*: most tiles have fewer rows than a register, and most vectors begin within a
tile. Otherwise tiles are native.

{planned}

## The corpus

{len(costs)} kernels; {over} take 100 ms or more from parsed module to `tiles` the first time, none
of the passes having run on them before; the slowest takes
{max(c.to_tiles for c in first) * 1e3:.0f} ms, the slowest lowered again
{max(c.to_tiles for c in later) * 1e3:.0f} ms. `tiles-to-vregs` makes {rate(list(later)):,} register
operations per second over all kernels, {rate(large):,} over those with at least 200 (small kernels
pay mostly for their scalar operations).

{shares(list(later))}

{by_kernel(costs)}
"""


def main() -> None:
    """Measures, and writes the page; of some kernels only, prints their table."""
    options = arguments("Measures the cost of lowering.")
    costs = measured(kernels(options))
    if options.only:
        print(by_kernel(costs))
        return
    publish(options, "compile_cost.md", page(costs, by_size(), planning()))


if __name__ == "__main__":
    main()
