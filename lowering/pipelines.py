"""Whole lowerings: `lower-to-dma`, `lower-to-tiles` and `lower-to-vregs`.

Each runs the passes between the form that a module is in and the form that it names, so it accepts
a module in any earlier form, and leaves one in that form as it is (docs/internals/lowering.md). A
module in a later form is a `UsageError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from pallasite import arguments
from pallasite.diagnostics import Note, UsageError, VerifyError
from pallasite.dialects.kernel import FORMS, form_of, set_form
from pallasite.dialects.locations import source_location
from pallasite.dialects.subcores import subcore_functions
from pallasite.targets import DEFAULT_TARGET, get_target

STEPS: dict[str, tuple[str, ...]] = {
    "mosaic": ("lower-to-mosaic",),
    "dma": ("windows-to-dma",),
    "tiles": (
        "absorb-moves",
        "infer-memref-layout",
        "fold-ranges",
        "fill-registers",
        "canonicalize-mosaic",
        "vectors-to-tiles",
        "legalize-shuffles",
    ),
    "vreg": ("tiles-to-vregs",),
}
"""For each form, the passes that lower a module to it from the form before."""


class _Targeted(Protocol):
    """Every lowering pass takes the target's name."""

    def __call__(self, *, target: str) -> ModulePass: ...


def steps(form: str, goal: str, target: str) -> list[tuple[str, ModulePass]]:
    """The passes from `form` to `goal`, each with the form that the module is in after it."""
    # The registry names this module's passes too, so it is only read when a pass runs.
    from pallasite.passes.registry import get_all_passes

    passes = get_all_passes()
    result: list[tuple[str, ModulePass]] = []
    for next_form in FORMS[FORMS.index(form) + 1 : FORMS.index(goal) + 1]:
        names = STEPS[next_form]
        for name in names:
            step = cast(_Targeted, passes[name]())
            leaves = next_form if name == names[-1] else form
            result.append((leaves, step(target=target)))
        form = next_form
    return result


@dataclass(frozen=True)
class LoweringPass(ModulePass):
    """Runs the missing passes to the form `goal`."""

    goal: ClassVar[str]

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for leaves, step in self.steps(op):
            step.apply(ctx, op)
            set_form(op, leaves)
        if subcore_functions(op):
            set_form(op, self.goal)

    def steps(self, op: ModuleOp) -> list[tuple[str, ModulePass]]:
        """The missing passes, each with the form after it; none for kernels of SparseCores, which
        are the same in all forms."""
        get_target(self.target)  # refuses names that nobody knows
        if subcore_functions(op):
            return []
        return steps(check_form(op, self.goal), self.goal, self.target)


def step_by_step(
    module: ModuleOp, passes: Sequence[ModulePass]
) -> Iterator[tuple[str | None, ModulePass]]:
    """`passes`, with each whole lowering replaced by the passes that `module` then lacks.

    The caller runs each pass before it asks for the next. With a pass comes the form that `module`
    is in after it, or None for a pass that sets the form itself, or keeps it.
    """
    for step in passes:
        if isinstance(step, LoweringPass):
            yield from step.steps(module)
        else:
            yield None, step


def planned(
    module: ModuleOp, passes: Sequence[ModulePass], goal: str, target: str
) -> Iterator[tuple[str | None, ModulePass]]:
    """`passes` as in `step_by_step`, then the passes from the form after them to `goal`."""
    yield from step_by_step(module, passes)
    if subcore_functions(module):
        return
    yield from steps(check_form(module, goal), goal, target)


_UP = (
    "no lowering leads back up; pallasite.jax.trace(f, *args) gives the kernel of a JAX program in "
    "form pallas"
)


def check_form(module: ModuleOp, form: str) -> str:
    """The form that `module` is in.

    Raises a `UsageError` if `form` is unknown or comes before it, a `VerifyError` if the module
    records an unknown form.
    """
    arguments.form(form)
    present = form_of(module)
    if present not in FORMS:
        known = ", ".join(FORMS)
        raise VerifyError(
            "unknown-form",
            f"the module records that it is in form {present!r}; expected one of {known}",
            source_location(module),
        )
    if FORMS.index(form) < FORMS.index(present):
        raise UsageError(
            "form-passed",
            f"the module is in form {present}, which is below form {form}",
            source_location(module),
            [Note(_UP)] if form == "pallas" else [],
        )
    return present


def furthest_form(module: ModuleOp, passes: Sequence[ModulePass], form: str) -> str:
    """The latest of `form`, the form of `module`, and the goals of whole lowerings in `passes`."""
    goals = [step.goal for step in passes if isinstance(step, LoweringPass)]
    reached = [name for name in (form, form_of(module), *goals) if name in FORMS]
    return max(reached, key=FORMS.index)


@dataclass(frozen=True)
class LowerToDmaPass(LoweringPass):
    """Lowers to form `dma`: explicit DMAs."""

    name = "lower-to-dma"
    goal = "dma"


@dataclass(frozen=True)
class LowerToTilesPass(LoweringPass):
    """Lowers to form `tiles`: grids of registers."""

    name = "lower-to-tiles"
    goal = "tiles"


@dataclass(frozen=True)
class LowerToVregsPass(LoweringPass):
    """Lowers to form `vreg`: single registers."""

    name = "lower-to-vregs"
    goal = "vreg"
