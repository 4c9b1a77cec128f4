"""The README and the page about Python: their commands and code run as they stand."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pallasite import api, lower, parse
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


def test_python_page(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "examples" / "add.stablehlo.mlir").read_text()
    module = parse(text)
    x, y = api.random_inputs(module)
    bare = str(lower(module, form="mosaic").body.block.first_op)
    names: dict[str, Any] = {"text": text, "mosaic": bare, "x": x, "y": y}
    page = (ROOT / "docs" / "python.md").read_text()
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        names.pop("out", None)
        exec(compile(code, "docs/python.md", "exec"), names)
        if "out" in names:
            np.testing.assert_array_equal(names["out"], x + y)
    assert names["outcome"].outputs[0][0].shape == x.shape
    printed = capsys.readouterr().out
    assert "leaves form tiles" in printed and "[]" in printed
