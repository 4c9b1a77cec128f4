"""Runs a random kernel in every form and says where the forms disagree."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import pallasite
from pallasite.diagnostics import Diagnostic, ExecutionError
from pallasite.interpreter.options import Options
from pallasite.interpreter.run import execute
from pallasite.targets import get_target

from .random_kernels import Array, Case

DEFECTS = ("internal-error", "invalid-module")
"""Codes of diagnostics that say that we, not the kernel, are wrong."""


@dataclass
class Verdict:
    """What became of one kernel on one target."""

    problems: list[str] = field(default_factory=list[str])
    refusal: str = ""
    """The code of the diagnostic, if a form refuses the kernel."""


def outputs(module: ModuleOp, case: Case, form: str, target: str, pattern: int) -> list[Array]:
    """The answers in `form`, with undefined memory and registers filled with `pattern`."""
    lowered = pallasite.lower(module, form, target, allow_beyond_reference=True)
    inputs = [list(case.inputs)]
    return execute(lowered, inputs, Options(poison=pattern), target=get_target(target)).outputs[0]


def differs(actual: Array, expected: Array, allowed: float) -> str:
    """Where two outputs differ by more than `allowed`; empty if nowhere."""
    if not allowed:
        wrong = actual.view(np.uint8) != expected.view(np.uint8)
        wrong = wrong.reshape(*actual.shape, -1).any(-1)
        wrong &= ~((actual == 0) & (expected == 0))
    else:
        one, other = (a.astype(np.float64) for a in (actual, expected))
        wrong = ~((np.abs(one - other) <= allowed) | (np.isnan(one) & np.isnan(other)))
    if not wrong.any():
        return ""
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{int(wrong.sum())} of {wrong.size} differ, first at {first}: "
        f"{actual[first]} instead of {expected[first]} (allowed {allowed})"
    )


def check(case: Case, target: str, forms: tuple[str, ...] = ("dma", "tiles", "vreg")) -> Verdict:
    """Compares `forms` with the `mosaic` form, each under both poison patterns."""
    verdict = Verdict()
    try:
        module = pallasite.parse(case.text)
        expected = outputs(module, case, "mosaic", target, 0)
        again = outputs(module, case, "mosaic", target, 1)
    except Diagnostic as error:
        verdict.refusal = error.code
        if error.code in DEFECTS:
            verdict.problems.append(f"mosaic: {error}")
        return verdict
    for one, other in zip(expected, again, strict=True):
        if one.tobytes() != other.tobytes():
            verdict.problems.append("mosaic: the answer depends on poison")
    lowered = module
    for form in forms:
        try:
            lowered = pallasite.lower(lowered, form, target, allow_beyond_reference=True)
            lowered.verify()
            answers = [outputs(lowered, case, form, target, pattern) for pattern in (0, 1)]
        except Diagnostic as error:
            verdict.refusal = f"{form}:{error.code}"
            if error.code in DEFECTS or isinstance(error, ExecutionError):
                verdict.problems.append(f"{form}: {error}")
            return verdict
        except Exception as error:
            verdict.problems.append(f"{form}: {type(error).__name__}: {error}")
            return verdict
        for pattern, answer in enumerate(answers):
            for place, (one, other) in enumerate(zip(answer, expected, strict=True)):
                text = differs(one, other, case.tolerances[place])
                if text:
                    verdict.problems.append(f"{form} poison {pattern}: output {place}: {text}")
        if verdict.problems:
            return verdict
    return verdict
