"""What the tools share: input files, diagnostics on standard error, exit codes.

Standard output belongs to results. A tool's `main` is wrapped in `guarded`, so that whatever goes
wrong is one line (and notes) on standard error, never a traceback.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TextIO

from pallasite import borders
from pallasite.diagnostics import Diagnostic, KernelWarning, Note, SourceLocation, UsageError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

OK = 0
FAILED = 1
WRONG_USAGE = 2
FINDING = 3
STATUS = (
    "exit status: 0 if all went well, 1 if the file or the kernel is refused or fails, "
    "2 if the command line is wrong"
)
"""What the help of the tools says of it."""

STDIN = "<stdin>"
TRACEBACK = "PALLASITE_TRACEBACK"
"""Set in the environment, internal errors show where they happened."""
_ESCAPED = "backslashreplace"
_MORE = Note(f"{TRACEBACK}=1 in the environment shows more")


def input_name(path: str | None) -> str:
    """What diagnostics call the input file."""
    return STDIN if path in (None, "-") else str(path)


def read_input(path: str | None) -> bytes:
    """The bytes of a file, of standard input for None and `-`."""
    if path is None or path == "-":
        return sys.stdin.buffer.read()
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise unreadable(path, error) from error


def write_output(path: str | None, text: str) -> None:
    """Writes `text` to a file, to standard output for None and `-`."""
    if path is None or path == "-":
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise unwritable("standard output", error) from error
        return
    try:
        with open(path, "w", encoding="utf-8", errors=_ESCAPED) as file:
            file.write(text)
    except OSError as error:
        raise unwritable(path, error) from error


def unreadable(path: str, error: OSError) -> UsageError:
    """The refusal of an input file."""
    return UsageError("unreadable-file", f"cannot read {path or repr(path)}: {error.strerror}")


def unwritable(path: str, error: OSError) -> UsageError:
    """The refusal of an output file."""
    return UsageError("unwritable-file", f"cannot write {path or repr(path)}: {error.strerror}")


def read_kernel(options: argparse.Namespace) -> ModuleOp:
    """The kernel of `options.file` and `.call`, with the call of the program `.like`, if any."""
    from pallasite import api

    module = api.parse(read_input(options.file), name=input_name(options.file), call=options.call)
    take_call(module, options.file, options.like, options.call)
    return module


def take_call(module: ModuleOp, file: str | None, like: str | None, call: int | None) -> None:
    """Records on `module`, of `file`, that call of the program in file `like`, if there is one."""
    from pallasite import api
    from pallasite.dialects.kernel_call import call_of, set_call

    if like is None:
        return
    name = input_name(like)
    if name == STDIN == input_name(file):
        raise UsageError("unreadable-file", "expected a file for the kernel or for --like, got -")
    found = call_of(api.parse(read_input(like), name=name, call=call))
    if found is None:
        raise UsageError("no-call", f"{name} does not say how its kernel is called")
    set_call(module, found)


def as_diagnostic(error: Exception) -> Diagnostic:
    """`error` in the form that users see; a defect says how to see more of it."""
    if isinstance(error, OSError):
        place = f": {error.filename}" if error.filename else ""
        return UsageError("file", f"{error.strerror or error}{place}")
    diagnostic = borders.as_diagnostic(error)
    if diagnostic is not error:
        diagnostic.__cause__ = error
    if diagnostic.code == "internal-error" and _MORE not in diagnostic.notes:
        diagnostic.notes.append(_MORE)
    return diagnostic


def placed(diagnostic: Diagnostic, file: str | None) -> Diagnostic:
    """`diagnostic`, of the input `file` as a whole if it knows no place in it."""
    if diagnostic.location is None and not isinstance(diagnostic, UsageError):
        diagnostic.location = SourceLocation(input_name(file))
    return diagnostic


def report(error: Exception, stream: TextIO | None = None, file: str | None = None) -> None:
    """Prints `error` and its notes, to standard error unless told otherwise.

    What names no place is put down to the input `file`, if one is named.
    """
    diagnostic = as_diagnostic(error)
    out = stream or sys.stderr
    if _MORE in diagnostic.notes and os.environ.get(TRACEBACK):
        traceback.print_exception(diagnostic.__cause__, file=sys.stderr)
    print(placed(diagnostic, file) if file is not None else diagnostic, file=out, flush=True)


@contextmanager
def kernel_warnings() -> Generator[list[Diagnostic], None, None]:
    """Collects what is odd about accepted kernels, each once; other warnings go on."""
    told: list[Diagnostic] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", KernelWarning)
        show = warnings.showwarning

        def collect(message: Warning | str, *rest: Any) -> None:
            if not isinstance(message, KernelWarning):
                show(message, *rest)
            elif message.diagnostic not in told:
                told.append(message.diagnostic)

        warnings.showwarning = collect
        yield told


def exit_code(error: Exception) -> int:
    """The status of a tool that stops because of `error`."""
    return WRONG_USAGE if isinstance(error, UsageError) else FAILED


def _open_streams() -> None:
    """Gives standard streams that the caller has closed nothing to read and nowhere to write.

    Names of files, and what is quoted of a kernel, may have characters that standard output has
    no bytes for: they are written as escapes, as standard error does.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_ESCAPED)


def guarded(main: Callable[[Sequence[str] | None], int]) -> Callable[..., int]:
    """`main(arguments) -> status` with errors reported; made for console scripts."""

    @wraps(main)
    def run(arguments: Sequence[str] | None = None) -> int:
        _open_streams()
        try:
            with kernel_warnings() as told:
                status = main(arguments)
            for warning in told:
                print(warning, file=sys.stderr)
            return status
        except KeyboardInterrupt:
            return 130
        except BrokenPipeError:
            # The reader of our output has gone; nothing is left to say, not even at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        except Exception as error:
            diagnostic = as_diagnostic(error)
            report(error)
            return exit_code(diagnostic)

    return run
