"""Kernels of DMAs, semaphores, cores and devices: right with every check and no finding, and none
of their waits and signals can be left out without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from xdsl.dialects.builtin import ModuleOp  # noqa: E402
from xdsl.ir import Operation  # noqa: E402

import pallasite.jax  # noqa: E402
from pallasite import Diagnostic, api, arguments  # noqa: E402
from pallasite.interpreter.options import Options  # noqa: E402
from pallasite.interpreter.run import execute  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

from .machine_kernels import CASES, Case  # noqa: E402

pytestmark = pytest.mark.jax
WAITS = ("tpu.wait_dma2", "tpu.sem_wait")


@pytest.mark.parametrize(("form", "seed"), [("pallas", 0), ("vreg", 5)])
@pytest.mark.parametrize("name", CASES)
def test_right_in_any_order(name: str, form: str, seed: int) -> None:
    case = CASES[name]()
    with pallasite.jax.simulate(target=case.target, form=form, checks=("all",), seed=seed):
        result = jax.jit(case.sharded())(*case.inputs)
    np.testing.assert_array_equal(np.asarray(result), case.expected)


def synchronisation(module: ModuleOp) -> list[Operation]:
    return [op for op in module.walk() if op.name in (*WAITS, "tpu.sem_signal")]


MESHES = pytest.mark.since_jax("0.10.1", "kernels of meshes without a spare operand")


def found(case: Case, module: ModuleOp) -> set[str]:
    """The codes of what a run with all checks says."""
    shares: Any = case.shares() if case.devices > 1 else [list(case.inputs)]
    try:
        outcome = execute(
            module, shares, Options.of(checks=arguments.CHECKS), target=get_target(case.target)
        )
    except Diagnostic as error:
        return {error.code}
    return {finding.code for finding in outcome.findings}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=MESHES) if n == "core_hands_over" else n for n in CASES],
)
def test_nothing_can_be_left_out(name: str) -> None:
    case = CASES[name]()
    module = pallasite.jax.trace(case.sharded(), *case.inputs, target=case.target, form="mosaic")
    lowered = api.lower(module, "mosaic", case.target)
    assert not found(case, lowered)
    count = len(synchronisation(lowered))
    assert count
    for number in range(count):
        changed = lowered.clone()
        synchronisation(changed)[number].detach()
        assert found(case, changed), f"nothing is found without number {number}"
