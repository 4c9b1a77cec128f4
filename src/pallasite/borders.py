"""Turns every exception that leaves the library into a `Diagnostic`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException

from pallasite.diagnostics import (
    DEFECT,
    Diagnostic,
    ExecutionError,
    KernelWarning,
    ReadError,
    SourceLocation,
    VerifyError,
)


def as_diagnostic(error: Exception) -> Diagnostic:
    """`error` as a `Diagnostic`; an unexpected exception becomes an internal error, which says that
    it is a defect of Pallasite."""
    sentence = " ".join(str(error).split())
    match error:
        case Diagnostic():
            return error
        case KernelWarning():
            # Where warnings are errors (`python -W error`).
            return error.diagnostic
        case ParseError():
            file, line, column = error.span.get_location()
            return ReadError("invalid-syntax", error.msg, SourceLocation(file, line, column))
        case VerifyException():
            return VerifyError("invalid-operation", sentence or "the operation is not valid")
        case DiagnosticException():
            return Diagnostic("pass-failed", sentence or "the pass failed")
        case MemoryError():
            return ExecutionError("host-memory", "this computer has not enough memory")
        case RecursionError():
            return Diagnostic("nested-too-deeply", "the module nests too deeply")
        case _:
            message = f"internal error: {type(error).__name__}: {sentence}"
            return Diagnostic("internal-error", message, notes=[DEFECT])


@contextmanager
def diagnosed(step: str) -> Generator[None, None, None]:
    """A context that only a `Diagnostic` leaves; one made of another exception names the `step`."""
    try:
        yield
    except Diagnostic:
        raise
    except KernelWarning as error:
        raise error.diagnostic from error
    except Exception as error:
        diagnostic = as_diagnostic(error)
        diagnostic.message = f"{step}: {diagnostic.message}"
        if isinstance(error, VerifyException):
            # The user's operations have been verified before, so a pass has made this one.
            diagnostic.code = "invalid-module"
        raise diagnostic from error
