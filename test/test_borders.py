"""What nobody foresaw leaves the library as a diagnostic, and shows its place when asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.utils.exceptions import PassFailedException, VerifyException

import pallasite
from pallasite import borders
from pallasite.diagnostics import Diagnostic
from pallasite.tools import tpu_aot, tpu_run

KERNEL = str(Path(__file__).parents[1] / "examples" / "matmul.pallas.mlir")


@pytest.mark.parametrize("error, code", [
    (PassFailedException("gave up"), "pass-failed"),
    (VerifyException("no such operand"), "invalid-module"),
    (RecursionError(), "nested-too-deeply"),
    (MemoryError(), "host-memory"),
    (KeyError("x"), "internal-error"),
])  # fmt: skip
def test_an_exception_names_the_step(error: Exception, code: str) -> None:
    with pytest.raises(Diagnostic, match=r"error: some-pass: ") as raised:
        with borders.diagnosed("some-pass"):
            raise error
    assert raised.value.code == code and raised.value.__cause__ is error


def broken(*_: object, **__: object) -> None:
    raise KeyError("oops")


@pytest.mark.parametrize("tool", [tpu_run, tpu_aot])
def test_a_defect_shows_its_place_when_asked(
    tool: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pallasite.passes.check_kernel.check_kernel", broken)
    main = getattr(tool, "main")  # noqa: B009
    assert main([KERNEL]) == 1
    told = capsys.readouterr().err
    assert "internal error: KeyError" in told and "Traceback" not in told
    assert "this is a defect of Pallasite" in told and "PALLASITE_TRACEBACK=1" in told
    monkeypatch.setenv("PALLASITE_TRACEBACK", "1")
    assert main([KERNEL]) == 1
    told = capsys.readouterr().err
    assert "Traceback" in told and "in broken" in told


def test_what_terminals_obey_is_escaped() -> None:
    assert Diagnostic("code", "no op\x1b[2J\udcfe\nbut é").message == "no op\\x1b[2J\\udcfe\nbut é"


def test_a_diagnostic_passes_as_it_is() -> None:
    error = Diagnostic("code", "message")
    with pytest.raises(Diagnostic) as raised, borders.diagnosed("some-pass"):
        raise error
    assert raised.value is error and raised.value.message == "message"
    assert pallasite.Diagnostic is Diagnostic
