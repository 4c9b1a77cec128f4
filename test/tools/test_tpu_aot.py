"""`tpu-aot`: options, exit status, and the JSON object it prints."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from pallasite.diagnostics import UsageError
from pallasite.frontend import aot
from pallasite.frontend.aot import Verdict
from pallasite.tools import tpu_run
from pallasite.tools.tpu_aot import main, target_of

DATA = Path(__file__).parent.parent / "data"
KERNEL = str(DATA / "io_alias.stablehlo.mlir")


@pytest.mark.parametrize("topology, expected", [
    ("v5e:2x2", ("v5e", "v5e:2x2")), ("v5e:4x4", ("v5e", "v5e:4x4")), ("v4", ("v4", "v4:2x2x1")),
    ("tpu7x:2x2x1", ("v7x", "tpu7x:2x2x1")), ("v7x", ("v7x", "tpu7x:2x2x1")),
])  # fmt: skip
def test_topology_selects_the_target(topology: str, expected: tuple[str, str]) -> None:
    assert target_of(topology) == expected


@pytest.mark.parametrize("tool", [tpu_run.main, main])
def test_tools_tell_their_version(tool: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        tool(["--version"])
    assert " of pallasite" in capsys.readouterr().out


@pytest.mark.parametrize("shape", ["0x0", "0", "2x", "-2x2", "x", "2x2x"])
def test_topologies_have_chips(shape: str) -> None:
    """The compiler divides by the sizes, and does not survive 0."""
    with pytest.raises(UsageError, match="expected a topology like"):
        target_of(f"v5e:{shape}")


def test_unknown_topology() -> None:
    with pytest.raises(UsageError, match="expected a topology like v4:2x2x1, v5e:2x2"):
        target_of("h100:8")


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A stand-in for the compiler's process that accepts everything and keeps the request."""
    seen: dict[str, Any] = {}

    def ask(request: dict[str, Any], timeout: float) -> Verdict:
        seen.update(request)
        return seen.get("verdict", Verdict(True, "", 0.25, 1024))

    monkeypatch.setattr(aot, "_ask", ask)
    return seen


@pytest.mark.parametrize("form, passes", [("mosaic", True), ("dma", True), ("vreg", False)])
def test_layout_passes_by_form(
    form: str, passes: bool, compiler: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([KERNEL, "--form", form, "--topology", "v6e:2x2", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"accepted": True, "message": "", "seconds": 0.25, "code_bytes": 1024}
    assert compiler["topology"] == "v6e:2x2"
    assert json.loads(compiler["config"])["custom_call_config"]["needs_layout_passes"] is passes


def test_rejection_is_status_1(
    compiler: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    compiler["verdict"] = Verdict(False, "no", 0.5, None)
    assert main([KERNEL, "--form", "mosaic"]) == 1
    assert capsys.readouterr().out == "rejected: no\n"


def test_a_bare_kernel_takes_its_call_from_another_file(
    compiler: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    bare = str(DATA / "io_alias.mosaic.mlir")
    assert main([bare, "--form", "mosaic"]) == 2
    assert "does not record the types" in capsys.readouterr().err
    assert main([bare, "--form", "mosaic", "--like", KERNEL]) == 0
    assert compiler["operands"] and compiler["aliases"]


def test_unreadable_kernels_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.mlir"
    broken.write_text("module {")
    assert main([str(broken), "--format", "json"]) == 1
    out, err = capsys.readouterr()
    assert not json.loads(out)["accepted"] and "broken.mlir:1" in err
    assert main([str(tmp_path / "missing.mlir")]) == 2


@pytest.mark.parametrize("words, said", [
    (["--topology", "h100"], "expected a topology like"), (["--call", "7"], "got 7"),
    (["--timeout", "-1"], "expected --timeout"), (["-p", "no-such-pass"], "no-such-pass"),
])  # fmt: skip
def test_wrong_usage_is_told_as_json_too(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([KERNEL, *words, "--format", "json"]) == 2
    out, err = capsys.readouterr()
    verdict = json.loads(out)
    assert verdict["accepted"] is False and said in verdict["message"] and said in err
    assert main([KERNEL, *words]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf"])
def test_seconds_to_wait(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([KERNEL, "--timeout", seconds]) == 2
    assert "expected --timeout of at least 0 seconds" in capsys.readouterr().err


@pytest.mark.aot
@pytest.mark.parametrize("form", ["mosaic", "dma", "vreg"])
def test_real_compiler(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("jax", "libtpu"):
        if importlib.util.find_spec(module) is None:
            pytest.skip("needs the aot extra")
    assert main([KERNEL, "--form", form, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["code_bytes"] > 0
