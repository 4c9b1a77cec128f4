"""Errors and warnings as users see them.

Every error of the library is a `Diagnostic`: a stable code, one sentence that states the rule
and the value, the source location of the kernel line that caused it, and notes (the reason in the
hardware, the culprit, what to write instead).
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

WITHOUT_X64 = (
    "or call the kernel inside 'with jax.enable_x64(False):', because jax_enable_x64 makes "
    "Python's numbers 64 bits wide"
)
"""The end of advice about 64-bit numbers in kernels whose author did not ask for them."""


MOST_CHARACTERS = 4000
"""Longer messages, with an endless type or name, keep only this much: half from each end."""


@dataclass(frozen=True)
class SourceLocation:
    """A place in a file; lines and columns count from 1, 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        parts = [self.file]
        if self.line:
            parts.append(str(self.line))
            if self.column:
                parts.append(str(self.column))
        return ":".join(parts)


class KernelLine(SourceLocation):
    """Where a kernel begins: the line of its blocks and scratch, which have none of their own."""


@dataclass(frozen=True)
class Note:
    """A sentence that explains a diagnostic, with the location of what it is about, if any."""

    message: str
    location: SourceLocation | None = None


DEFECT = Note("this is a defect of Pallasite, not of the kernel")
"""The note of an internal error."""


def allocation(name: str, location: SourceLocation | None) -> list[Note]:
    """The note that says where the memory called `name` is allocated; none if that is not known."""
    if location is None:
        return []
    here = "belongs to the kernel here" if isinstance(location, KernelLine) else "is allocated here"
    return [Note(f"{name} {here}", location)]


@dataclass
class Diagnostic(Exception):
    """An error of the user's input or kernel; a defect of ours has the code `internal-error`.

    `code` is kebab-case and stable (`vmem-exhausted`), `message` is lower case without a full
    stop. The subclass says which stage refused.
    """

    code: str
    message: str
    location: SourceLocation | None = None
    notes: list[Note] = field(default_factory=list[Note])
    severity: str = "error"
    log: list[str] = field(default_factory=list[str])
    """What the kernel printed before the error."""

    def __post_init__(self) -> None:
        self.message = _shown(self.message)
        if len(self.message) > MOST_CHARACTERS:
            half = MOST_CHARACTERS // 2
            self.message = f"{self.message[:half]} ... {self.message[-half:]}"
        super().__init__(self.message)

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location else ""
        lines = [f"{where}{self.severity}: {self.message} [{self.code}]"]
        for note in self.notes:
            where = f"{note.location}: " if note.location else ""
            lines.append(f"{where}note: {note.message}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        # Python's default would call the class with the message only. A class made at run time
        # (for what JAX raises) is not importable in another process: its base class stands in.
        kind = next(k for k in type(self).__mro__ if _is_importable(k))
        return _without_init, (kind, *self.args), self.__dict__

    def as_json(self) -> dict[str, object]:
        """The object that `--format json` prints for this diagnostic."""
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "location": str(self.location) if self.location else None,
            "notes": [
                {"message": n.message, "location": str(n.location) if n.location else None}
                for n in self.notes
            ],
        }


def _shown(text: str) -> str:
    """`text` with control characters escaped: names may come from broken files, and terminals obey
    such characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def _is_importable(kind: type) -> bool:
    return getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind


def _without_init(kind: type[Diagnostic], *args: Any) -> Diagnostic:
    return kind.__new__(kind, *args)


class KernelWarning(UserWarning):
    """A warning about an accepted kernel that may not do what its author expects, such as leaving
    parts of a result unwritten.

    Given by Python's `warnings`; `diagnostic` has severity `warning`.
    """

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(str(diagnostic))
        self.diagnostic = diagnostic


_BETWEEN = frozenset({"pallasite", "jax", "jaxlib", "contextlib", "functools", "importlib"})
"""Packages whose frames may lie between the user's code and ours."""


def warn_outside(warning: Warning) -> None:
    """Gives `warning` at the innermost line of the user's own code, in no package of `_BETWEEN`.

    Warning filters, and Python's record of what it has already shown, go by that line.
    """
    frame = inspect.currentframe()
    while frame is not None and frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _BETWEEN:
            break
        frame = frame.f_back
    if frame is None:  # a Python without frames
        warnings.warn(warning, stacklevel=2)
        return
    names = frame.f_globals
    warnings.warn_explicit(
        warning, type(warning), frame.f_code.co_filename, frame.f_lineno,
        names.get("__name__", "<unknown>"), names.setdefault("__warningregistry__", {}),
    )  # fmt: skip


def warn(advice: Diagnostic) -> None:
    """Gives `advice`, about an accepted kernel, as a `KernelWarning`; where warnings are errors,
    raises `advice` itself."""
    try:
        warn_outside(KernelWarning(advice))
    except KernelWarning as error:
        raise error.diagnostic from error


UNWRITTEN = "unwritten-output"
"""The code of warnings about parts of results that are never written."""
UNINITIALISED = "uninitialised-read"
"""The code of diagnostics about loads of memory that nobody has written."""


def warn_before_run(advice: Diagnostic, checks: Collection[str]) -> None:
    """Gives `advice` about a kernel that is going to run with `checks`, unless the check `init`
    reports the same."""
    if advice.code not in (UNWRITTEN, UNINITIALISED) or "init" not in checks:
        warn(advice)


class ReadError(Diagnostic):
    """The input is not a module that we can read (syntax, truncated bytes, unknown versions)."""


class VerifyError(Diagnostic):
    """The module breaks a rule of its form."""


class Unsupported(Diagnostic):
    """The kernel needs something that the target, or this version of Pallasite, cannot do."""


class ExecutionError(Diagnostic):
    """The kernel did something illegal while it ran (out of bounds, deadlock, no memory)."""


class UsageError(Diagnostic):
    """The caller's arguments do not fit the kernel (wrong number of inputs, unknown target)."""
