"""Every planted bug is found within 64 seeds, in every form, with both of its lines."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import pallasite
from pallasite import api
from pallasite.diagnostics import Diagnostic
from pallasite.tools import tpu_run

from .bug import Bug
from .cases import BUGS
from .races import OVERTAKEN

SEEDS = 64
FORMS = ("mosaic", "dma", "tiles", "vreg")

# The smallest kernel that has a bug leaves most of its output alone; some bugs are also foreseen.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*unwritten-output"),
    pytest.mark.filterwarnings("ignore:.*outside-ref"),
]


def findings(bug: Bug, form: str, seed: int) -> list[Diagnostic]:
    """What a run with all checks says."""
    module = pallasite.parse(bug.text(), name="kernel.mlir")
    operand = bug.operand()
    inputs: Any = [operand] if bug.devices == 1 else [[operand]] * bug.devices
    try:
        outcome = api.simulate(
            module, inputs, form=form, checks=["all"], seed=seed, devices=bug.devices,
            results=[bug.result()], target=bug.target, aliases=bug.aliases,
            unordered=bug.unordered,
        )  # fmt: skip
    except Diagnostic as error:
        return [error]
    return outcome.findings


def line_of(where: Any) -> int | None:
    return None if where is None else int(str(where).split(":")[1])


def both(finding: Diagnostic, bug: Bug) -> bool:
    """Whether both lines are named; of a race between devices either side may come first."""
    shown = finding.as_json()
    first = line_of(shown["location"])
    notes = [line_of(note["location"]) for note in cast("list[dict[str, Any]]", shown["notes"])]
    if first == bug.at and (bug.other is None or bug.other in notes):
        return True
    return bug.code == "data-race" and first == bug.other and bug.at in notes


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_found(bug: Bug, form: str) -> None:
    if form not in bug.forms:
        pytest.skip(f"form {form} cannot show it")
    began = time.process_time()
    found: list[Diagnostic] = []
    for seed in range(SEEDS):
        found = findings(bug, form, seed)
        if any(finding.code == bug.code for finding in found):
            break
    told = "\n".join(str(finding) for finding in found)
    chosen = [finding for finding in found if finding.code == bug.code and both(finding, bug)]
    assert chosen, told or "nothing found"
    finding = max(chosen, key=lambda f: sum(part in str(f) for part in bug.says))
    for part in bug.says:
        assert part in str(finding), told
    shown = json.loads(json.dumps(finding.as_json()))
    assert shown["code"] == bug.code and both(finding, bug)
    if bug.code == "deadlock":
        assert time.process_time() - began < 1


def test_copies_may_be_waited_for_in_pieces() -> None:
    lines = """
slice %first = %a[0, 0] 8x128
slice %rest = %a[8, 0] 24x128
dma %x -> %a on %s
wait %s for %first
wait %s for %rest
load %a[0, 0] 8x128
"""
    bug = Bug("pieces", "data-race", 5, 3, (), lines)
    for seed in range(8):
        assert not findings(bug, "mosaic", seed)


def test_transfers_of_one_sender_keep_their_order_unless_asked() -> None:
    assert OVERTAKEN.unordered and OVERTAKEN in BUGS
    for seed in range(8):
        assert not findings(replace(OVERTAKEN, unordered=False), "mosaic", seed)


def test_tpu_run_asks_for_any_order(tmp_path: Path) -> None:
    kernel, operands = tmp_path / "kernel.mlir", tmp_path / "in.npz"
    kernel.write_text(OVERTAKEN.text())
    np.savez(operands, np.concatenate([OVERTAKEN.operand()] * 2))
    arguments = [str(kernel), "--inputs", str(operands), "--devices", "2", "--check", "race"]
    seeds = [["--seed", str(seed)] for seed in range(1, 9)]
    assert {tpu_run.main(arguments + seed) for seed in seeds} == {0}
    assert 3 in {tpu_run.main([*arguments, *seed, "--unordered"]) for seed in seeds}


def test_names_are_unique() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 40
