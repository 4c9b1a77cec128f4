"""Every kernel in `examples/` runs by itself, in every form, and says what it checked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

pytestmark = pytest.mark.jax

FOLDER = Path(__file__).parents[2] / "examples"
COLLECTIVES = ("all_gather", "all_reduce", "reduce_scatter")
EXAMPLES = [
    pytest.param(path, marks=[pytest.mark.feature("X19")] if path.stem in COLLECTIVES else [])
    for path in sorted(FOLDER.glob("*.py"))
    if path.stem != "harness"
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(example)],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "agree" in done.stdout
