"""Scripts give the bits that kernels give, whatever the operands hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pallasite import api
from pallasite.diagnostics import ExecutionError
from pallasite.interpreter.machine.spare import Spare
from pallasite.interpreter.replay.repeats import BEFORE
from pallasite.interpreter.run import Outcome, Prepared, execute, prepare
from pallasite.targets import get_target

from .conformance import CASES, accepted, program

V5E = get_target("v5e")
NAMES = [name for name, case in CASES.items() if case["devices"] == 1 and accepted(name, "v5e")]


def told(outcome: Outcome) -> tuple[Any, ...]:
    outputs = [(a.shape, a.dtype, a.tobytes()) for a in outcome.all()]
    return outputs, outcome.memory, outcome.transfers, outcome.log, outcome.findings


@pytest.mark.parametrize("name", NAMES)
def test_replays_are_like_runs(name: str) -> None:
    module = api.parse(program(name).read_text(), name=name)
    lowered = api.lower(module, "tiles", "v5e")
    kernel, spare = prepare(lowered, target=V5E), Spare()

    def run(seed: int, prepared: Prepared | None, first: Mapping[int, Any]) -> Outcome | str:
        inputs = [first.get(n, x) for n, x in enumerate(api.random_inputs(module, seed))]
        try:
            return execute(lowered, [inputs], target=V5E, prepared=prepared, spare=spare)
        except ExecutionError as error:
            return error.message

    for _ in range(BEFORE + 1):
        run(0, kernel, {})
    _, plan = kernel.described.planned([api.random_inputs(module, 0)])
    decided = {n: api.random_inputs(module, 0)[n] for n in plan.deciding}
    for seed, first in ((1, decided), (2, decided), (3, {})):
        again, fresh = run(seed, kernel, first), run(seed, None, first)
        if isinstance(again, str) or isinstance(fresh, str):
            assert again == fresh
        else:
            assert told(again) == told(fresh)
