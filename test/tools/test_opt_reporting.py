"""Errors of tools: one line and notes on standard error, an exit status, never a traceback."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdsl.utils.exceptions import PassFailedException, VerifyException

from pallasite.diagnostics import Note, SourceLocation, Unsupported, UsageError
from pallasite.tools.reporting import FAILED, WRONG_USAGE, guarded, read_input, write_output

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


def test_missing_files_are_wrong_usage(tmp_path: object) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_input(f"{tmp_path}/missing")
    with pytest.raises(UsageError, match="cannot write"):
        write_output(f"{tmp_path}/missing/out", "")
