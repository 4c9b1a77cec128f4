"""Every kernel in `examples/` runs by itself, in every form, and says what it checked."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

pytestmark = pytest.mark.jax

FOLDER = Path(__file__).parents[2] / "examples"
# What asks JAX for a number of devices needs a process whose JAX has none yet.
OWN_PROCESS = re.compile(r"\bmesh\(|jax\.config")
COLLECTIVES = ("all_gather", "all_reduce", "reduce_scatter")
EXAMPLES = [
    pytest.param(path, marks=[pytest.mark.feature("X19")] if path.stem in COLLECTIVES else [])
    for path in sorted(FOLDER.glob("*.py"))
    if path.stem != "harness"
]


def output_of_a_process(example: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(example)],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.filterwarnings("ignore::pallasite.diagnostics.KernelWarning")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(
    example: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if OWN_PROCESS.search(example.read_text()):
        output = output_of_a_process(example)
    else:
        monkeypatch.setattr(sys, "argv", [str(example)])
        monkeypatch.syspath_prepend(FOLDER)
        try:
            runpy.run_path(str(example), run_name="__main__")
        except SystemExit as end:
            assert not end.code, end.code
        output = capsys.readouterr().out
    assert "agree" in output
