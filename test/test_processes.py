"""What a process that embeds the library hands to others, and how it may be started."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pallasite
from pallasite import api
from pallasite.diagnostics import (
    Diagnostic,
    KernelLine,
    KernelWarning,
    Note,
    SourceLocation,
    UsageError,
)

EXAMPLES = Path(__file__).parents[1] / "examples"
MATMUL = EXAMPLES / "matmul.pallas.mlir"
COPIES: list[Callable[[Any], Any]] = [
    lambda value: pickle.loads(pickle.dumps(value)),
    copy.deepcopy,
    copy.copy,
]


def odd() -> Diagnostic:
    notes = [Note("here", SourceLocation("k.py", 3)), Note("or here", KernelLine("k.py", 1))]
    error = UsageError("odd", "an odd one", SourceLocation("k.py", 1, 2), notes, "warning")
    error.add_note("and more")
    return error


@pytest.mark.parametrize("copied", COPIES)
def test_diagnostics_are_copied_whole(copied: Callable[[Any], Any]) -> None:
    error = odd()
    other = copied(error)
    assert type(other) is UsageError
    assert (str(other), other.args, vars(other)) == (str(error), error.args, vars(error))
    warning = copied(KernelWarning(error))
    assert (str(warning), warning.diagnostic.as_json()) == (str(error), error.as_json())


class Local(UsageError):
    """Of a class of this module."""


def test_a_class_that_others_cannot_import_is_what_it_was_made_of() -> None:
    made = type("Local", (Local, RuntimeError), {"__module__": Local.__module__})
    other = pickle.loads(pickle.dumps(made("odd", "an odd one")))
    assert (type(other), str(other)) == (Local, "error: an odd one [odd]")


@pytest.mark.parametrize("copied", COPIES)
def test_outcomes_are_copied_whole(copied: Callable[[Any], Any]) -> None:
    module = pallasite.parse(MATMUL.read_text())
    outcome = api.simulate(module, api.random_inputs(module), profile=True, checks=["all"])
    other = copied(outcome)
    assert [array.tobytes() for array in other.all()] == [a.tobytes() for a in outcome.all()]
    assert (other.memory, other.profile) == (outcome.memory, outcome.profile)


PROGRAM = """
import hashlib, multiprocessing, pathlib, sys
import pallasite
from pallasite import api

def digest(name):
    texts = []
    module = pallasite.parse(pathlib.Path(name).read_bytes(), name="kernel")
    for form in ("mosaic", "dma", "tiles", "vreg"):
        lowered = pallasite.lower(module, form)
        outcome = api.simulate(lowered, api.random_inputs(module), form=form, checks=["all"])
        texts += [str(lowered), *map(str, outcome.findings), *outcome.log]
        texts += [array.tobytes().hex() for array in outcome.all()]
    try:
        pallasite.lower(module, "vreg", "v1")
    except pallasite.Diagnostic as error:
        texts.append(str(error))
    return hashlib.sha256("".join(texts).encode()).hexdigest()

if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(digest(name))
        with multiprocessing.get_context("fork").Pool(1) as pool:
            print(pool.apply(digest, (name,)))
            try:
                pool.apply(pallasite.parse, ("func",))
            except pallasite.Diagnostic as error:
                print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
def test_texts_and_numbers_are_the_same_however_python_runs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    files = [str(MATMUL), str(EXAMPLES / "flash_attention.stablehlo.mlir")]

    def output(*options: str, seed: str) -> list[str]:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, *options, str(program), *files]
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout.splitlines()

    lines = output("-X", "dev", "-W", "error", seed="1")
    assert output("-O", seed="2") == lines
    forked = [lines[number : number + 3] for number in range(0, len(lines), len(lines) // 2)]
    for here, there, error in forked:
        assert here == there
        assert "error: " in error


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are closed by a shell")
@pytest.mark.parametrize(
    ("command", "status", "told"),
    [
        (f"tpu-opt {MATMUL} >&-", 0, ""),
        (f"tpu-run {MATMUL} --form mosaic --format json >&-", 0, ""),
        (f"tpu-opt < {MATMUL}", 0, ""),
        ("tpu-opt <&-", 1, "<stdin>:1:1: error: expected an operation"),
        ("tpu-run nowhere.mlir >&- 2>&-", 2, ""),
    ],
)
def test_tools_do_without_the_standard_streams(command: str, status: int, told: str) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    result = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True)
    assert result.returncode == status
    assert told in result.stderr and bool(told) == bool(result.stderr)
