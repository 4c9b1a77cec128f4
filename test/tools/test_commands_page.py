"""The page about the commands has every option that `--help` has, and no others."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pallasite.tools import tpu_aot, tpu_run
from pallasite.tools.reporting import FAILED, FINDING, OK, WRONG_USAGE

STATUSES = (OK, FAILED, WRONG_USAGE, FINDING)
ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "commands.md").read_text()
SECTIONS = {section.split("\n")[0].replace("`", ""): section for section in TEXT.split("\n## ")[1:]}
SHARED = (SECTIONS["Input files"], SECTIONS["Options of tpu-run and tpu-aot"])


def told(*sections: str) -> set[str]:
    """The options in the first columns of tables."""
    cells = re.findall(r"^\| (`-.*?) \| ", "\n".join(sections), re.MULTILINE)
    return {option for cell in cells for option in re.findall(r"(?<![\w-])--?[a-z][\w-]*", cell)}


def options(parser: argparse.ArgumentParser) -> set[str]:
    # No public way lists what a parser knows.
    return {name for action in parser._actions for name in action.option_strings}


@pytest.mark.parametrize("tool", [tpu_run, tpu_aot])
def test_options_of_the_page_are_those_of_the_tool(tool: Any) -> None:
    name = tool.__name__.rpartition(".")[2].replace("_", "-")
    assert told(*SHARED, SECTIONS[name]) == options(tool.parser())


def test_keys_of_the_report_are_those_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert tpu_run.main([str(ROOT / "examples" / "add.stablehlo.mlir"), "--format", "json"]) == 0
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", SECTIONS["tpu-run"], re.MULTILINE)
    keys = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    assert keys == json.loads(capsys.readouterr().out).keys()


@pytest.mark.parametrize(
    "command", re.findall(r"^    (tpu-(?:run|aot) .*)$", TEXT, re.MULTILINE)
)  # fmt: skip
def test_commands_of_the_page_are_understood(command: str) -> None:
    name, *words = command.split()
    tool = {"tpu-run": tpu_run, "tpu-aot": tpu_aot}[name]
    assert tool.parser().parse_args(words).file == "FILE"


def test_status_of_the_page_is_that_of_the_tools() -> None:
    section = SECTIONS["Diagnostics and exit status"]
    assert re.findall(r"^\| (\d) \|", section, re.MULTILINE) == list(map(str, STATUSES))
