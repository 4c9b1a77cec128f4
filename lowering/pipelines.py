"""Whole lowerings: `lower-to-dma`, `lower-to-tiles` and `lower-to-vregs`.

Each runs the steps that a module still lacks, judged by the form it is in, so it may be applied to
a module of its own or any earlier form (docs/internals.md, "Lowering").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from pallasite.diagnostics import Unsupported, UsageError, VerifyError
from pallasite.dialects.kernel import FORMS, form_of, set_form
from pallasite.targets.target import TARGETS

STEPS: dict[str, tuple[str, ...]] = {
    "mosaic": ("lower-to-mosaic",),
    "dma": ("windows-to-dma",),
    "tiles": (
        "absorb-moves",
        "infer-memref-layout",
        "canonicalize-mosaic",
        "vectors-to-tiles",
        "legalize-shuffles",
    ),
    "vreg": ("tiles-to-vregs",),
}
"""The passes that take a module to a form from the form before it."""


class _Targeted(Protocol):
    """Every lowering pass takes the target's name."""

    def __call__(self, *, target: str) -> ModulePass: ...


def steps(form: str, goal: str, target: str) -> list[tuple[str, ModulePass]]:
    """The passes from `form` to `goal`, each with the form that it leaves."""
    # The registry names this module's passes too, so it is only read when a pass runs.
    from pallasite.passes.registry import get_all_passes

    passes = get_all_passes()
    result: list[tuple[str, ModulePass]] = []
    for next_form in FORMS[FORMS.index(form) + 1 : FORMS.index(goal) + 1]:
        names = STEPS[next_form]
        for name in names:
            if name not in passes:
                raise Unsupported(
                    "no-lowering",
                    f"no pass {name} is known, which takes form {form} to {next_form}",
                )
            step = cast(_Targeted, passes[name]())
            leaves = next_form if name == names[-1] else form
            result.append((leaves, step(target=target)))
        form = next_form
    return result


@dataclass(frozen=True)
class _Lowering(ModulePass):
    """Runs the missing steps to `goal`."""

    goal: ClassVar[str]

    target: str = "v5e"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.target not in TARGETS:
            raise UsageError(
                "unknown-target", f"expected one of {', '.join(TARGETS)}, got {self.target}"
            )
        form = form_of(op)
        if form not in FORMS:
            raise VerifyError("unknown-form", f"expected one of {', '.join(FORMS)}, got {form}")
        if FORMS.index(form) > FORMS.index(self.goal):
            raise UsageError(
                "lowered-too-far", f"module is in form {form}, which is below form {self.goal}"
            )
        for leaves, step in steps(form, self.goal, self.target):
            step.apply(ctx, op)
            set_form(op, leaves)


@dataclass(frozen=True)
class LowerToDmaPass(_Lowering):
    """Lowers to explicit DMAs."""

    name = "lower-to-dma"
    goal = "dma"


@dataclass(frozen=True)
class LowerToTilesPass(_Lowering):
    """Lowers to grids of registers."""

    name = "lower-to-tiles"
    goal = "tiles"


@dataclass(frozen=True)
class LowerToVregsPass(_Lowering):
    """Lowers to single registers."""

    name = "lower-to-vregs"
    goal = "vreg"
