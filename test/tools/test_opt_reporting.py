"""Errors of tools: one line and notes on standard error, an exit status, never a traceback."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from xdsl.utils.exceptions import PassFailedException, VerifyException

from pallasite.diagnostics import Note, SourceLocation, Unsupported, UsageError
from pallasite.tools import scripts, tpu_aot, tpu_opt
from pallasite.tools.reporting import (
    FAILED,
    OK,
    TRACEBACK,
    WRONG_USAGE,
    guarded,
    read_input,
    write_output,
)

LOCATION = SourceLocation("kernel.py", 4, 2)


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (
            Unsupported("odd", "odd shapes", LOCATION, [Note("pad", LOCATION)]),
            FAILED,
            "kernel.py:4:2: error: odd shapes [odd]\nkernel.py:4:2: note: pad\n",
        ),
        (UsageError("flag", "no such flag"), WRONG_USAGE, "error: no such flag [flag]\n"),
        (VerifyException("a\n  b"), FAILED, "error: a b [invalid-operation]\n"),
        (PassFailedException("gave up"), FAILED, "error: gave up [pass-failed]\n"),
        (RecursionError(), FAILED, "error: the module nests too deeply [nested-too-deeply]\n"),
    ],
)
def test_errors_are_reported(
    error: Exception, status: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @guarded
    def main(arguments: Sequence[str] | None = None) -> int:
        raise error

    assert main([]) == status
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", text)


def test_defects_say_so_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    @guarded
    def main(arguments: Sequence[str] | None = None) -> int:
        raise KeyError("x")

    assert main() == FAILED
    err = capsys.readouterr().err
    assert err.startswith("error: internal error: KeyError: 'x' [internal-error]\nnote: ")
    assert "Traceback" not in err


def test_standard_output_that_takes_nothing_is_no_defect(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @guarded
    def main(arguments: Sequence[str] | None = None) -> int:
        write_output(None, "text")
        return 0

    with suppress(OSError), open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", full)
        assert main() == WRONG_USAGE
    assert (
        capfd.readouterr().err
        == "error: cannot write standard output: No space left on device [unwritable-file]\n"
    )


def test_characters_that_standard_output_lacks_are_written_as_escapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @guarded
    def main(arguments: Sequence[str] | None = None) -> int:
        write_output(None, "é\udcfe")
        return 0

    with open(tmp_path / "out", "w", encoding="ascii") as out, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", out)
        assert main() == OK
    assert (tmp_path / "out").read_bytes() == rb"\xe9\udcfe"


def test_a_reader_that_goes_and_a_user_who_stops_hear_nothing(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @guarded
    def main(arguments: Sequence[str] | None = None) -> int:
        if arguments:
            raise KeyboardInterrupt
        write_output("-", "text")
        return 0

    assert main(["stop"]) == 130
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as gone, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", gone)
        assert main() == FAILED
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("script", [scripts.tpu_opt, scripts.tpu_run, scripts.tpu_aot])
def test_who_stops_a_tool_that_is_being_imported_hears_nothing(
    script: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    imported: list[str] = []

    def stopped(name: str) -> object:
        imported.append(name)
        raise KeyboardInterrupt

    monkeypatch.setattr(scripts, "import_module", stopped)
    assert script() == 130
    assert imported == [f"pallasite.tools.{script.__name__}"]


def test_a_defect_is_traced_if_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRACEBACK, "1")

    @guarded
    def main(arguments: Sequence[str] | None = None) -> int:
        raise KeyError("x")

    assert main() == FAILED
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_warnings_of_others_go_on() -> None:
    @guarded
    def main(arguments: Sequence[str] | None = None) -> int:
        warnings.warn("of another", DeprecationWarning, stacklevel=1)
        return 0

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert main() == 0
    assert [str(warning.message) for warning in caught] == ["of another"]


def test_output_goes_to_a_file(tmp_path: Path) -> None:
    write_output(str(tmp_path / "out"), "text")
    assert (tmp_path / "out").read_text() == "text"


def test_what_knows_no_place_is_put_down_to_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.mlir"
    source.write_text("func.func @f() { func.return }")
    assert tpu_opt.main([str(source), "-p", "lower-to-dma"]) == 1
    assert capsys.readouterr().err.startswith(f"{source}: error: expected a function with")
    assert tpu_aot.main([str(source), "--form", "dma"]) == 1
    assert capsys.readouterr().err.startswith(f"{source}: error: expected a function with")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("lower-to-vreg", "did you mean lower-to-vregs"),
        ("csee", "did you mean cse"),
        ("qqq", "tpu-opt --help lists the passes"),
    ],
)
def test_misspelt_passes(name: str, advice: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tpu_opt.main(["-p", name]) == WRONG_USAGE
    assert f"no pass is called '{name}' [unknown-pass]\nnote: {advice}" in capsys.readouterr().err


def test_missing_files_are_wrong_usage(tmp_path: object) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_input(f"{tmp_path}/missing")
    with pytest.raises(UsageError, match="cannot write"):
        write_output(f"{tmp_path}/missing/out", "")
