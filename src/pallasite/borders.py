"""Where exceptions leave the library: each becomes a `Diagnostic`, by one table."""

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
    """`error` as users see it; what nobody foresaw is a defect of ours and says so."""
    sentence = " ".join(str(error).split())
    match error:
        case Diagnostic():
            return error
        case KernelWarning():
            # Of a process for which warnings are errors.
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
    """Lets no exception but a `Diagnostic` out; those that were none name the `step`."""
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
            # By no operation of the user's, which have been verified: a step has made it.
            diagnostic.code = "invalid-module"
        raise diagnostic from error
