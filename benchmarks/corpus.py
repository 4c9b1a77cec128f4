"""What the benchmarks share: the conformance corpus, counting, averages, Markdown tables.

A corpus is a folder with `index.json` (a list of kernels: `name`, `group`, `devices`,
`reference_verdict` by target, `cpp_register_ops` by generation) and, per kernel, a folder of that
name with `kernel.stablehlo.mlir` and possibly `cpp_vreg.mlir`, `inputs.npz`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp, VectorType

from pallasite import api

DOCS = Path(__file__).parent.parent / "docs"
GENERATIONS = {"v4": "gen4", "v5e": "gen5", "v5p": "gen5", "v6e": "gen6", "v7x": "gen7"}
MOVEMENT = ("slice", "move", "reshape", "transpose", "bcast", "reduce")
"""Groups of the corpus that move data between registers."""


@dataclass(frozen=True)
class Kernel:
    """One entry of the corpus index."""

    folder: Path
    entry: dict[str, Any]

    @property
    def name(self) -> str:
        """The name, which is that of its folder."""
        return self.entry["name"]

    @property
    def group(self) -> str:
        """What kind of kernel it is."""
        return self.entry["group"]

    def accepted(self, target: str) -> bool:
        """Whether the reference compiler takes the kernel."""
        return self.entry["reference_verdict"].get(target) == "accepted"

    def register_ops(self, target: str) -> int | None:
        """Register operations that the old C++ passes needed."""
        return (self.entry.get("cpp_register_ops") or {}).get(GENERATIONS[target])

    @property
    def text(self) -> str:
        """The program as JAX serialised it."""
        return (self.folder / "kernel.stablehlo.mlir").read_text()

    def parse(self) -> ModuleOp:
        """The kernel's module in form `mosaic`."""
        return api.parse(self.text, name=self.name)


def arguments(description: str, *more: str) -> argparse.Namespace:
    """The command line that all benchmarks have."""
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--corpus", type=Path, required=True, help="folder with index.json")
    p.add_argument("--only", default="", help="comma list of kernels")
    p.add_argument("--print", action="store_true", help="print instead of writing docs/")
    for flag in more:
        p.add_argument(flag)
    return p.parse_args()


def kernels(options: argparse.Namespace) -> Iterator[Kernel]:
    """The kernels of the corpus that were asked for."""
    only = {name for name in options.only.split(",") if name}
    for entry in json.loads((options.corpus / "index.json").read_text()):
        if not only or entry["name"] in only:
            yield Kernel(options.corpus / entry["name"], entry)


def register_kinds(module: ModuleOp) -> Counter[str]:
    """Operations outside `func` and `scf` with a vector operand or result, by name."""
    kinds: Counter[str] = Counter()
    for op in module.walk():
        if not op.name.startswith(("builtin.", "func.", "scf.")):
            if any(isinstance(v.type, VectorType) for v in (*op.operands, *op.results)):
                kinds[op.name] += 1
    return kinds


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive values; NaN of none."""
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; numbers to the right."""
    body = [[f"{c:.2f}" if isinstance(c, float) else str(c) for c in row] for row in rows]
    numeric = [
        all(isinstance(c, int | float) for c in column) for column in zip(*rows, strict=True)
    ]
    marks = ["---:" if right else "---" for right in numeric] or ["---"] * len(header)
    return "\n".join(f"| {' | '.join(row)} |" for row in ([*header], marks, *body))


def machine() -> str:
    """The computer and Python of this run."""
    return f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}"


def publish(options: argparse.Namespace, page: str, text: str) -> None:
    """Writes `docs/PAGE`, or prints it."""
    if options.print:
        print(text)
        return
    (DOCS / page).write_text(text.rstrip() + "\n")
    print(f"wrote docs/{page}")
