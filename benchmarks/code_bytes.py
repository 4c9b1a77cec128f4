"""Bytes of machine code: our `vreg` form against the compiler's own layout passes.

    python benchmarks/code_bytes.py --corpus PATH [--every N] [--targets v5e,v6e]

Needs the `aot` extra; compiles one kernel of every N (default all). Writes docs/code_bytes.md.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import product

from corpus import MOVEMENT, Kernel, arguments, geometric_mean, kernels, publish, table

from pallasite import api
from pallasite.diagnostics import Diagnostic
from pallasite.frontend.aot import Compiler, compile_ahead_of_time
from pallasite.targets import get_target

HIGHEST = 1.15


@dataclass(frozen=True)
class Size:
    """Code bytes of a kernel on a target, by way of our registers and of the compiler's."""

    kernel: Kernel
    target: str
    ours: int
    theirs: int

    @property
    def ratio(self) -> float:
        """Ours / theirs in bytes."""
        return self.ours / self.theirs


def measure(kernel: Kernel, target: str, compiler: Compiler) -> Size | str:
    """The sizes, or why there are none."""
    sizes: list[int] = []
    for form in ("mosaic", "vreg"):
        try:
            verdict = compile_ahead_of_time(
                api.lower(kernel.parse(), form, target),
                topology=get_target(target).topology,
                layout_passes=form != "vreg",
                compiler=compiler,
            )
        except Diagnostic as error:
            return f"{kernel.name} on {target}, {form}: {error.message}"
        if not verdict.accepted or not verdict.code_bytes:
            said = " ".join(verdict.message.split())[:200]
            return f"{kernel.name} on {target}, {form}: {said or 'no code size'}"
        sizes.append(verdict.code_bytes)
    return Size(kernel, target, sizes[1], sizes[0])


def averages(sizes: list[Size], targets: list[str]) -> str:
    """Geometric means of the ratios, per target."""
    rows = []
    for target in targets:
        here = [s for s in sizes if s.target == target]
        moving = [s.ratio for s in here if s.kernel.group in MOVEMENT]
        rows.append((
            target, len(here), geometric_mean(s.ratio for s in here), geometric_mean(moving),
            sum(s.ratio > HIGHEST for s in here),
        ))  # fmt: skip
    header = ("target", "kernels", "ratio", "ratio, movement groups", f"above {HIGHEST:.2f}")
    return table(header, rows)


def page(sizes: list[Size], failures: list[str], targets: list[str], every: int) -> str:
    """The page, kernels worst first."""
    ranked = sorted(sizes, key=lambda s: -s.ratio)
    rows = [(s.kernel.name, s.kernel.group, s.target, s.ours, s.theirs, s.ratio) for s in ranked]
    chosen = "all kernels" if every == 1 else f"one kernel of every {every}"
    missing = "".join(f"- {line}\n" for line in failures) or "None.\n"
    return f"""# Bytes of machine code

Written by `benchmarks/code_bytes.py` from {chosen} of the corpus that the compiler
accepts. Both columns are `generated_code_size_in_bytes` of the real TPU compiler (libtpu, ahead of
time): *ours* for our `vreg` form with its layout passes off, *theirs* for the kernel as JAX
serialises it with its layout passes on. Both include the code around the kernel.

{averages(sizes, targets)}

## Without an answer

{missing}
## Kernels, worst first

{table(("kernel", "group", "target", "ours", "theirs", "ratio"), rows)}
"""


def main() -> None:
    """Compiles every kernel in both ways, and writes the page."""
    options = arguments("Measures code bytes.", "--every", "--targets")
    every = int(options.every or 1)
    targets = (options.targets or "v5e,v6e").split(",")
    sizes: list[Size] = []
    failures: list[str] = []
    with Compiler() as compiler:
        for kernel, target in product(list(kernels(options))[::every], targets):
            if kernel.accepted(target):
                result = measure(kernel, target, compiler)
                if isinstance(result, Size):
                    sizes.append(result)
                    told = f"{result.ours} {result.theirs}"
                else:
                    failures.append(result)
                    told = result
                print(f"{kernel.name} {target} {told}"[:150], file=sys.stderr)
    publish(options, "code_bytes.md", page(sizes, failures, targets, every))


if __name__ == "__main__":
    main()
