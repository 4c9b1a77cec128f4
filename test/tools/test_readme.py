"""The README: its commands and its Python run as they stand."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pallasite import api, parse
from pallasite.tools import tpu_opt, tpu_run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
TOOLS = {"tpu-opt": tpu_opt.main, "tpu-run": tpu_run.main}


@pytest.mark.parametrize("line", re.findall(r"^\$ (tpu-(?:opt|run) .*)$", README, re.MULTILINE))
def test_commands(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    tool, *words = shlex.split(line, comments=True)
    assert not TOOLS[tool](words), capsys.readouterr().err


def test_python() -> None:
    (code,) = re.findall(r"```python\n(import pallasite\n.*?)```", README, re.DOTALL)
    names: dict[str, Any] = {"text": (ROOT / "examples" / "add.stablehlo.mlir").read_text()}
    names["x0"], names["x1"] = api.random_inputs(parse(names["text"]))
    exec(compile(code, "README.md", "exec"), names)
    np.testing.assert_array_equal(names["y"], names["x0"] + names["x1"])
