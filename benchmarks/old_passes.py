"""Random and published kernels: our registers against those of Mosaic's passes in C++.

    python benchmarks/old_passes.py --python PYTHON [--kernels N] [--written N] [--parts N] ...

PYTHON has JAX 0.7.2 (`pip install jax==0.7.2 jaxlib==0.7.2` in an environment of its own), whose
jaxlib holds the passes as they were shortly before they were closed. Their output must execute to
the numbers of our `mosaic` form, as must ours; kernels that JAX ships are only counted, as the
program around them makes their operands. Writes docs/old_passes.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from corpus import geometric_mean, publish, register_kinds, table
from xdsl.dialects.builtin import ModuleOp

from pallasite import api
from pallasite.diagnostics import Diagnostic
from pallasite.dialects.kernel_call import call_of, set_call

TARGETS = {"v5e": 5, "v6e": 6}
WORST = 12
KINDS = {
    "kernels": ("Random kernels of one operation", "operation"),
    "written": ("Random kernels in the manner of what people write", "about"),
    "parts": ("Random parts of models and algorithms", "about"),
    "models": ("Random kernels of models, optimizers and images", "about"),
    "training": ("Random steps of training and decoding", "about"),
    "algorithms": ("Random steps of sorting, coding, signals and simulation", "about"),
}
"""Kinds of random kernels, as `old_passes_child.py` draws them: their title on the page, and what
a kernel is called after."""


@dataclass
class Found:
    """What came of one kernel on one target."""

    name: str
    target: str
    refused: str = ""
    """By whom: "theirs", "ours", "both" or nobody."""
    why: str = ""
    """What ours says of a kernel that it refuses."""
    wrong: list[str] = field(default_factory=list[str])
    """Whose registers gave other numbers, or did not run."""
    ours: Counter[str] = field(default_factory=Counter[str])
    theirs: Counter[str] = field(default_factory=Counter[str])

    @property
    def family(self) -> str:
        """The operation that a random kernel is about."""
        return self.name.split("_", 1)[1]

    @property
    def ratio(self) -> float:
        """Ours / theirs in register operations."""
        return self.ours.total() / self.theirs.total()


def found(folder: Path) -> Iterator[Found]:
    """Every random kernel in `folder`, `NAME.json` with `NAME.genN.mlir`, on every target."""
    for program in sorted(folder.glob("*.json")):
        for target, generation in TARGETS.items():
            yield compared(program, target, program.with_suffix(f".gen{generation}.mlir"))


def compared(program: Path, target: str, output: Path) -> Found:
    """One random kernel, lowered by both and executed in both register forms."""
    module = api.parse(program.with_suffix(".mlir").read_text())
    result, ours, theirs = registers(program.stem, target, module, output)
    if ours is None or theirs is None:
        return result
    call = call_of(module)
    assert call is not None
    set_call(theirs, call)
    arrays = inputs(program)
    (expected,) = api.run(module, arrays, form="mosaic", target=target)
    for who, lowered in (("ours", ours), ("theirs", theirs)):
        try:
            (got,) = api.run(lowered, arrays, form="vreg", target=target)
        except Diagnostic as error:
            result.wrong.append(f"{who}: {error.message}")
            continue
        if not np.allclose(got.astype(float), expected.astype(float), rtol=1e-2, atol=1e-2):
            result.wrong.append(who)
    return result


def registers(
    name: str, target: str, module: ModuleOp, output: Path
) -> tuple[Found, ModuleOp | None, ModuleOp | None]:
    """The register forms, ours and that in `output`, and what they count."""
    theirs = api.parse(output.read_text()) if output.exists() else None
    why = ""
    try:
        ours = api.lower(module, "vreg", target)
    except Diagnostic as error:
        ours, why = None, f"{error.code}: {error.message}"
    if ours is None or theirs is None:
        refused = "both" if ours is theirs else ("ours" if ours is None else "theirs")
        return Found(name, target, refused, why), ours, theirs
    kinds = register_kinds(ours), register_kinds(theirs)
    return Found(name, target, ours=kinds[0], theirs=kinds[1]), ours, theirs


def published(folder: Path) -> Iterator[Found]:
    """Every kernel of every program in `folder`, `NAME.mlir` with `NAME.CALL.genN.mlir`."""
    for output in sorted(folder.glob("*.gen*.mlir")):
        program, call, generation, _ = output.name.split(".")
        text = (folder / f"{program}.mlir").read_text()
        (target,) = [t for t, g in TARGETS.items() if generation == f"gen{g}"]
        yield registers(program, target, api.parse(text, call=int(call)), output)[0]


def inputs(program: Path) -> list[Any]:
    """The stored operands of a kernel, in the types that its JSON names."""
    types = json.loads(program.read_text())
    with np.load(program.with_suffix(".npz")) as stored:
        return [
            array.view(np.dtype(getattr(ml_dtypes, dtype, dtype))).reshape(shape)
            for array, (shape, dtype) in zip(stored.values(), types, strict=True)
        ]


Row = tuple[object, ...]
"""One row of a table."""


def ratio(chosen: Iterable[Found]) -> object:
    """The geometric mean of ours / theirs; a dash for no kernels."""
    ratios = [r.ratio for r in chosen]
    return geometric_mean(ratios) if ratios else "-"


def shipped_rows(kernels: list[Found]) -> list[Row]:
    """Per target: how many kernels that JAX ships there are, and how ours compares."""
    rows: list[Row] = []
    for target in TARGETS:
        here = [r for r in kernels if r.target == target]
        taken = [r for r in here if not r.refused]
        largest = max((r.ratio for r in taken), default="-")
        above = sum(r.ratio > 1.1 for r in taken)
        rows.append((target, len(here), len(here) - len(taken), ratio(taken), largest, above))
    return rows


def random_rows(results: list[Found]) -> list[Row]:
    """Per target: how many random kernels there are, who refuses them, and how ours compares."""
    rows: list[Row] = []
    for target in TARGETS:
        here = [r for r in results if r.target == target]
        taken = [r for r in here if not r.refused]
        refused = (sum(r.refused == who for r in here) for who in ("theirs", "ours", "both"))
        above = (sum(r.ratio > bound for r in taken) for bound in (1, 1.1))
        wrong = sum(bool(r.wrong) for r in here)
        rows.append((target, len(here), *refused, ratio(taken), *above, wrong))
    return rows


def family_rows(results: list[Found]) -> list[Row]:
    """Per family: how ours compares on each target."""
    both = [r for r in results if not r.refused]
    return [
        (name, *(ratio(r for r in both if r.family == name and r.target == t) for t in TARGETS))
        for name in sorted({r.family for r in both})
    ]


def page(drawn: dict[str, list[Found]], shipped: list[Found]) -> str:
    """The page from random kernels, by kind, and those that JAX ships."""
    both = [r for results in drawn.values() for r in results if not r.refused]
    worst = [
        (r.name, r.target, r.ours.total(), r.theirs.total(), r.ratio, kinds(r.ours - r.theirs))
        for r in sorted(both, key=lambda r: -r.ratio)[:WORST]
    ]
    random_header = (
        "target", "kernels", "refused by theirs", "by ours", "by both", "ratio", "above 1",
        "above 1.10", "other numbers",
    )  # fmt: skip
    shipped_header = ("target", "kernels", "refused by one", "ratio", "largest", "above 1.10")
    wrong = [f"- {r.name}, {r.target}: {'; '.join(r.wrong)}" for r in both if r.wrong]
    alone = [
        f"- {r.name}, {r.target}: {r.why}"
        for results in (*drawn.values(), shipped)
        for r in results
        if r.refused == "ours"
    ]
    sections = [
        f"""## {KINDS[kind][0]}

{table(random_header, random_rows(results))}

{table((KINDS[kind][1], *TARGETS), family_rows(results))}
"""
        for kind, results in drawn.items()
    ]
    return f"""# Against the closed passes, on other kernels

Written by `benchmarks/old_passes.py`. JAX 0.7.2 lowers the kernels to Mosaic. The C++ passes that
jaxlib 0.7.2 still contains, and ours, lower them to registers. *Ratio* is ours / theirs in register
operations (docs/register_counts.md), and averages are geometric.

## Kernels that JAX ships

Flash, splash and paged attention, grouped and plain matrix products, forward and backward.

{table(shipped_header, shipped_rows(shipped))}

{chr(10).join(sections)}
## The worst

{table(("kernel", "target", "ours", "theirs", "ratio", "more"), worst)}

## Refused by ours alone

{chr(10).join(alone) or "None."}

## Registers that do not give the numbers of the `mosaic` form

{chr(10).join(wrong) or "None, of either."}
"""


def kinds(counts: Counter[str]) -> str:
    """The four most frequent operations, with their numbers."""
    return ", ".join(f"{n} {kind}" for kind, n in counts.most_common(4)) or "nothing"


def main() -> None:
    """Draws and lowers kernels by both, and writes the page; 1 if ours gives other numbers."""
    p = argparse.ArgumentParser(description="Compares registers with those of the closed passes.")
    p.add_argument("--python", required=True, help="an interpreter that has JAX 0.7.2")
    for kind, (title, _) in KINDS.items():
        p.add_argument(f"--{kind}", type=int, default=400, metavar="N", help=f"of: {title}")
    p.add_argument("--print", action="store_true", help="print instead of writing docs/")
    options = p.parse_args()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here = Path(__file__).parent
        drawn: dict[str, list[Found]] = {}
        for kind in KINDS:
            place, count = Path(folder, kind), str(getattr(options, kind))
            place.mkdir()
            script = here / "old_passes_child.py"
            subprocess.run([options.python, script, place, count, kind], check=True)
            drawn[kind] = list(found(place))
        place = Path(folder, "shipped")
        place.mkdir()
        subprocess.run([options.python, here / "old_passes_published.py", place], check=True)
        shipped = list(published(place))
    publish(options, "old_passes.md", page(drawn, shipped))
    sys.exit(any("ours" in who for results in drawn.values() for r in results for who in r.wrong))


if __name__ == "__main__":
    main()
