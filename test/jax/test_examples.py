"""Every `examples/simulate_*.py` runs by itself and says what it checked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

pytestmark = pytest.mark.jax

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("simulate_*.py"))


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
