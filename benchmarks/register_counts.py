"""Register operations of our `vreg` form against those of the old C++ passes.

    python benchmarks/register_counts.py --corpus PATH

Writes docs/register_counts.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from corpus import (
    MOVEMENT,
    Kernel,
    arguments,
    geometric_mean,
    kernels,
    publish,
    register_kinds,
    table,
)

from pallasite import api
from pallasite.diagnostics import Diagnostic

TARGETS = ("v5e", "v6e")
HIGHEST = 1.10
MOVES = frozenset((
    "tpu.bitcast_vreg", "tpu.sublane_shuffle", "tpu.dynamic_rotate", "tpu.dynamic_gather",
    "tpu.broadcast_in_sublanes", "tpu.create_mask", "tpu.create_subelement_mask", "tpu.iota",
    "tpu.roll_vectors", "tpu.unroll_vectors", "tpu.transpose", "arith.select", "arith.andi",
    "arith.ori", "arith.shli", "arith.shrui",
))  # fmt: skip
"""Operations that move data between registers, or tell where it goes."""
REASONS = {
    "cmp_select_bf16": "v5e cannot compare bf16, and today's compiler says so; theirs still does. "
    "Ours unpacks both operands, compares in f32 and packs the masks. Loads, stores, unpacks, "
    "comparisons and the product in f32 are 49 operations before anything is selected, more than "
    "1.10 times theirs; integers would need more operations per operand to get signs, zeros and "
    "NaN right",
    "argmax_ax1_f32": "of equal values, or of NaN, in two registers theirs may find the later one; "
    "ours compares the second register with the maximum of the first, and that with itself: a "
    "reduction, a comparison and an `xori` more per row block. No comparison of two floats tells "
    "NaN in the first from NaN in the second, so one is not enough",
    **dict.fromkeys(
        ("mm_f32", "mm_f32_highest"),
        "more groups of registers are put together for the matrix unit",
    ),
    "iota_where_bf16": "the position of each register is added to one iota",
    "cast_bfloat16_int8": "the conversion saturates by clamping to the range of int8 first",
}
"""What is known about kernels that may be among the worst."""


@dataclass(frozen=True)
class Count:
    """A kernel on a target."""

    kernel: Kernel
    target: str
    ours: Counter[str]
    theirs: int

    @property
    def ratio(self) -> float:
        """Ours / theirs in register operations."""
        return self.ours.total() / self.theirs

    @property
    def without_moves(self) -> float:
        """The ratio if moving data between registers cost nothing at all."""
        kept = sum(n for kind, n in self.ours.items() if kind not in MOVES)
        return kept / self.theirs

    def difference(self) -> str:
        """Which kinds of operation make the difference, as far as theirs are known by kind."""
        path = self.kernel.folder / "cpp_vreg.mlir"
        old = register_kinds(api.parse(path.read_text())) if path.exists() else Counter[str]()
        if old.total() != self.theirs:
            most = ", ".join(f"{n} {kind}" for kind, n in self.ours.most_common(4))
            return f"ours are {most}"
        more = self.ours - old
        fewer = old - self.ours
        parts = [", ".join(f"{n} {kind}" for kind, n in c.most_common(4)) for c in (more, fewer)]
        return f"more: {parts[0] or 'nothing'}; fewer: {parts[1] or 'nothing'}"


def count(kernel: Kernel, target: str) -> Count | str | None:
    """The count, why there is none, or None if the kernel does not belong to the comparison."""
    theirs = kernel.register_ops(target)
    if not theirs or not kernel.accepted(target):
        return None
    try:
        lowered = api.lower(kernel.parse(), "vreg", target)
    except Diagnostic as error:
        return f"{kernel.name} on {target}: {error.message}"
    return Count(kernel, target, register_kinds(lowered), theirs)


def averages(counts: list[Count]) -> str:
    """Of every target, and of all kernels on both."""
    rows = []
    for name, targets in (*((t, (t,)) for t in TARGETS), ("both", TARGETS)):
        here = [c for c in counts if c.target in targets]
        moving = [c for c in here if c.kernel.group in MOVEMENT]
        rows.append((
            name, len(here), geometric_mean(c.ratio for c in here), len(moving),
            geometric_mean(c.ratio for c in moving),
            geometric_mean(c.without_moves for c in moving), sum(c.ratio > HIGHEST for c in here),
        ))  # fmt: skip
    header = (
        "target", "kernels", "ratio", "movement kernels", "ratio", "floor", f"above {HIGHEST:.2f}",
    )  # fmt: skip
    return table(header, rows)


def stuck(counts: list[Count]) -> str:
    """How many movement kernels are made of what cannot be saved."""
    parts: list[str] = []
    for target in TARGETS:
        here = [c for c in counts if c.target == target and c.kernel.group in MOVEMENT]
        bound = sum(c.without_moves >= 0.9 for c in here)
        parts.append(f"{bound} of {len(here)} on {target}")
    return f"It is at least 0.90 for {' and '.join(parts)}."


def group_averages(counts: list[Count]) -> str:
    """Geometric means of the ratios, per group and target."""
    groups = sorted({c.kernel.group for c in counts})
    rows = []
    for group in groups:
        means = [
            geometric_mean(c.ratio for c in counts if (c.kernel.group, c.target) == (group, t))
            for t in TARGETS
        ]
        rows.append((group, *means))
    return table(("group", *TARGETS), rows)


def worst(counts: list[Count]) -> str:
    """The five kernels with the largest ratios, and why."""
    ranked: dict[str, Count] = {}
    for c in sorted(counts, key=lambda c: -c.ratio):
        ranked.setdefault(c.kernel.name, c)
    rows = [
        (c.kernel.name, c.target, c.ratio, REASONS.get(c.kernel.name, ""), c.difference())
        for c in list(ranked.values())[:5]
    ]
    return table(("kernel", "target", "ratio", "reason", "difference in operations"), rows)


def page(counts: list[Count], failures: list[str]) -> str:
    """The page, every kernel on every target."""
    rows = [
        (c.kernel.name, c.kernel.group, c.target, c.ours.total(), c.theirs, c.ratio) for c in counts
    ]
    missing = "".join(f"- {line}\n" for line in failures) or "None.\n"
    return f"""# Register operations

Written by `benchmarks/register_counts.py`. A register operation is an operation of the `vreg` form
outside `func` and `scf` that has a vector operand or result. Operations that only split or combine
registers count for both sides. *Theirs* are the C++ passes that Mosaic had before they became
closed source. Ratios are ours / theirs, and averages are geometric. The movement groups are
{", ".join(MOVEMENT)}.

The *floor* is the ratio that we would have if no operation moved data between registers. Loads,
stores, conversions and arithmetic would remain, and theirs need as many of those. {stuck(counts)}

{averages(counts)}

## By group

{group_averages(counts)}

## The worst five

{worst(counts)}

## Not compared: we refuse

{missing}
## Every kernel

{table(("kernel", "group", "target", "ours", "theirs", "ratio"), rows)}
"""


def main() -> None:
    """Counts, and writes the page."""
    options = arguments("Counts register operations.")
    counts: list[Count] = []
    failures: list[str] = []
    for kernel in kernels(options):
        for target in TARGETS:
            result = count(kernel, target)
            if isinstance(result, Count):
                counts.append(result)
            elif result is not None:
                failures.append(result)
    publish(options, "register_counts.md", page(counts, failures))


if __name__ == "__main__":
    main()
