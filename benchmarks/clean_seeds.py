"""No finding on correct kernels: every corpus kernel with all checks, under many transfer orders.

    python benchmarks/clean_seeds.py --corpus DIR [--targets v5e,v6e] [--forms mosaic,dma,vreg]
                                     [--seeds 64] [--only NAMES]

Each kernel that the reference compiler accepts is lowered once per form and target, then run once
per seed. A run must have no finding and the outputs of seed 0. Prints what was found, and totals.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from corpus import Kernel, arguments, kernels, machine

from pallasite import Diagnostic, api
from pallasite.arguments import CHECKS
from pallasite.interpreter.options import Options
from pallasite.interpreter.run import execute, prepare
from pallasite.targets import get_target
from pallasite.tools.array_files import device_inputs


def runs(kernel: Kernel, form: str, target: str, seeds: int) -> Iterator[str]:
    """Runs `kernel` once per seed; yields what is wrong with each run, empty if nothing."""
    module = kernel.parse()
    path = kernel.folder / "inputs.npz"
    inputs = device_inputs(module, str(path) if path.exists() else None, kernel.entry["devices"])
    lowered = api.lower(module, form, target)
    model = get_target(target)
    prepared = prepare(lowered, target=model)
    expected: list[Any] = []
    for seed in range(seeds):
        outcome = execute(
            lowered, inputs, Options.of(seed=seed, checks=CHECKS), target=model, prepared=prepared
        )
        outputs = [array.tobytes() for array in outcome.all()]
        expected = expected or outputs
        if outcome.findings:
            yield f"seed {seed}: {outcome.findings[0]}"
        # Random bits depend on the seed, and may.
        elif outputs != expected and kernel.group != "prng":
            yield f"seed {seed}: other outputs than seed 0"
        else:
            yield ""


def tried(kernel: Kernel, form: str, target: str, seeds: int) -> Counter[str]:
    """Counts `runs` until one is `wrong`, or the kernel `refused`; both are printed."""
    tally: Counter[str] = Counter()
    what = f"{kernel.name} in {form} on {target}"
    try:
        with np.errstate(all="ignore"):
            for fault in runs(kernel, form, target, seeds):
                tally["runs"] += 1
                if fault:
                    tally["wrong"] += 1
                    print(f"{what}, {fault}", flush=True)
                    break
    except Diagnostic as error:
        tally["refused"] += 1
        print(f"{what}: {error}", flush=True)
    return tally


def main() -> int:
    """Runs every kernel; 1 if any is wrong or refused."""
    options = arguments(__doc__ or "", "--targets", "--forms", "--seeds")
    seeds = int(options.seeds or 64)
    targets = (options.targets or "v5e,v6e").split(",")
    forms = (options.forms or "mosaic,dma,tiles,vreg").split(",")
    began = time.perf_counter()
    tally: Counter[str] = Counter()
    for target, form in product(targets, forms):
        for kernel in kernels(options):
            if kernel.accepted(target):
                tally += tried(kernel, form, target, seeds)
        took = time.perf_counter() - began
        print(f"{form} on {target}: {tally['runs']} runs so far, {took:.0f} s", flush=True)
    wrong, refused = tally["wrong"], tally["refused"]
    print(f"{tally['runs']} runs, {wrong} with a finding, {refused} refused ({machine()})")
    return 1 if wrong or refused else 0


if __name__ == "__main__":
    sys.exit(main())
