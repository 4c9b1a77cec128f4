"""Executes a kernel before and after every pass and names the first one that changes the answer.

Each module runs under two conditions, on which a correct answer does not depend: transfers as late
as their waits allow over memory of one content, and transfers in random order over memory of
another. Elements on which the kernel as read gives two answers are unspecified and not compared.
Integers must stay equal; what floats may differ by says `pallasite.tools.compare`. A pass is also
named if it leaves a module that is not valid, does not run, or in which a sanitizer finds what it
did not find before. Where a pass can stop after any of its rewrites, the rewrite is named too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from pallasite import api
from pallasite.diagnostics import Diagnostic, ExecutionError, Note, SourceLocation
from pallasite.dialects import make_context
from pallasite.dialects.locations import source_location
from pallasite.interpreter.run import Outcome
from pallasite.interpreter.values import Array
from pallasite.passes.admission import Stoppable
from pallasite.tools.compare import difference


@dataclass(frozen=True)
class Conditions:
    """What a correct answer does not depend on."""

    seed: int
    """Order of transfers: 0 as late as possible, else random."""
    poison: int
    """Which pattern fills memory and registers before they are written."""


CONDITIONS = (Conditions(0, 0), Conditions(1, 1))

Run = Callable[[ModuleOp, Conditions], Outcome]


def verify_each(
    module: ModuleOp,
    form: str,
    target: str,
    run: Run,
    *,
    passes: Sequence[ModulePass] = (),
    after_pass: api.AfterPass | None = None,
    allow_beyond_reference: bool = False,
) -> Outcome:
    """Lowers `module` to `form`, `passes` first, running it before and after every pass.

    Returns the last outcome under the first condition. Raises `ExecutionError` `answer-changed`,
    `no-longer-runs` or `new-finding`, or `VerifyError`, each of which names the pass.
    """
    answers = _Answers.of(module, run)
    last = answers.expected[0]
    before = module.clone()

    def after(step: ModulePass, leaves: str, lowered: ModuleOp) -> None:
        nonlocal last, before
        if after_pass is not None:
            after_pass(step, leaves, lowered)
        _verify(step.name, lowered)
        last, problem = answers.check(step.name, lowered)
        if problem is not None:
            rewrite = _first_wrong_rewrite(step, before, answers)
            if rewrite is not None:
                problem.location = rewrite.location
                problem.notes.insert(0, rewrite)
            raise problem
        before = lowered.clone()

    api.lower(
        module, form, target, passes=passes, after_pass=after,
        allow_beyond_reference=allow_beyond_reference,
    )  # fmt: skip
    return last


def _verify(name: str, module: ModuleOp) -> None:
    try:
        api.verify(module)
    except Diagnostic as error:
        error.message = f"{name} leaves a module that is not valid: {error.message}"
        raise


@dataclass(frozen=True)
class _Answers:
    """What the kernel as read answers under each condition, and how to ask again."""

    run: Run
    expected: list[Outcome]
    specified: list[NDArray[np.bool_]]
    """Per output, the elements that do not depend on the conditions."""

    @staticmethod
    def of(module: ModuleOp, run: Run) -> _Answers:
        outcomes = [run(module, conditions) for conditions in CONDITIONS]
        pairs = zip(*(outcome.all() for outcome in outcomes), strict=True)
        return _Answers(run, outcomes, [same_bits(one, other) for one, other in pairs])

    def check(self, name: str, module: ModuleOp) -> tuple[Outcome, Diagnostic | None]:
        """The outcome under the first condition, and what is wrong with `module`, if anything."""
        outcomes: list[Outcome] = []
        for conditions, expected in zip(CONDITIONS, self.expected, strict=True):
            try:
                outcome = self.run(module, conditions)
            except Diagnostic as error:
                message = f"after {name} the kernel no longer runs: {error.message}"
                notes = [Note(f"diagnostic {error.code}", error.location), *error.notes]
                return self.expected[0], ExecutionError(
                    "no-longer-runs", message, error.location, notes
                )
            outcomes.append(outcome)
            problem = self._compare(name, expected, outcome)
            if problem is not None:
                kind = "transfers in random order" if conditions.seed else "transfers at waits"
                problem.notes.append(Note(f"with {kind}, memory poisoned by {conditions.poison}"))
                return outcome, problem
        return outcomes[0], None

    def _compare(self, name: str, expected: Outcome, outcome: Outcome) -> Diagnostic | None:
        outputs = zip(expected.all(), outcome.all(), self.specified, strict=True)
        for position, (old, new, specified) in enumerate(outputs):
            changed = difference(old, new, specified)
            if changed is not None:
                return ExecutionError(
                    "answer-changed", f"{name} changes output {position}: {changed}"
                )
        known = {finding.code for finding in expected.findings}
        for finding in outcome.findings:
            if finding.code not in known:
                message = f"{name} causes a finding: {finding.message}"
                return ExecutionError("new-finding", message, finding.location, finding.notes)
        return None


def same_bits(one: Array, other: Array) -> NDArray[np.bool_]:
    """Which elements of two arrays of one type and shape are the same, NaNs by their bits."""
    size = one.dtype.itemsize
    left, right = (
        np.ascontiguousarray(a).reshape(-1).view(np.uint8).reshape(-1, size) for a in (one, other)
    )
    return np.all(left == right, axis=1).reshape(one.shape)


def _first_wrong_rewrite(step: ModulePass, before: ModuleOp, answers: _Answers) -> Note | None:
    """The rewrite of `step` after which the answer is wrong, found by bisection."""
    if not isinstance(step, Stoppable):
        return None
    context = make_context()
    applied: list[tuple[str, str, SourceLocation | None]] = []

    def rewritten(limit: int) -> ModuleOp:
        """A copy of `before` with the first `limit` rewrites."""
        applied.clear()
        module = before.clone()

        def admits(rewrite: str, op: Operation) -> bool:
            if len(applied) == limit:
                return False
            applied.append((rewrite, op.name, source_location(op)))
            return True

        step.apply_admitted(context, module, admits)
        return module

    def is_wrong(limit: int) -> bool:
        return answers.check(step.name, rewritten(limit))[1] is not None

    rewritten(-1)
    right, wrong = 0, len(applied)
    if is_wrong(0) or not is_wrong(wrong):
        return None
    while wrong - right > 1:
        middle = (right + wrong) // 2
        right, wrong = (right, middle) if is_wrong(middle) else (middle, wrong)
    rewritten(wrong)
    rewrite, op_name, location = applied[-1]
    return Note(f"the first wrong rewrite is {rewrite} of {op_name}", location)
