"""What the user is told when something cannot be done, and where.

Every refusal of the library is a `Diagnostic`: a stable code, one sentence that states the rule
and the value, the source location of the kernel line that caused it, and notes (the hardware
reason, the culprit, what to write instead).
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
"""The advice that helps against all numbers of 64 bits in kernels that do not ask for them."""


MOST_CHARACTERS = 4000
"""What a message has of an endless type or name: a half of it from the beginning and the end."""


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
    """Where a kernel begins, of what it is called with: scratch and blocks have no other place."""


@dataclass(frozen=True)
class Note:
    """A sentence that explains a diagnostic, with the place it speaks of, if any."""

    message: str
    location: SourceLocation | None = None


DEFECT = Note("this is a defect of Pallasite, not of the kernel")
"""What an internal error says of itself."""


def allocation(name: str, location: SourceLocation | None) -> list[Note]:
    """Where the memory called `name` comes from, if that is known."""
    if location is None:
        return []
    here = "belongs to the kernel here" if isinstance(location, KernelLine) else "is allocated here"
    return [Note(f"{name} {here}", location)]


@dataclass
class Diagnostic(Exception):
    """An error of the user's input or kernel. A defect of ours has the code `internal-error`, and a
    note that says so.

    `code` is kebab-case and stable (`vmem-exhausted`), `message` is lower case without a full
    stop. Subclasses say which stage refused.
    """

    code: str
    message: str
    location: SourceLocation | None = None
    notes: list[Note] = field(default_factory=list[Note])
    severity: str = "error"
    log: list[str] = field(default_factory=list[str])
    """What the kernel printed until it went wrong."""

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
        # Python would call the class with the message only. A class that was made for one process
        # (of what JAX raises) is in others what it was made of.
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
    """`text`, of which names may come from broken files, with what terminals obey as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def _is_importable(kind: type) -> bool:
    return getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind


def _without_init(kind: type[Diagnostic], *args: Any) -> Diagnostic:
    return kind.__new__(kind, *args)


class KernelWarning(UserWarning):
    """A kernel is accepted and its result is right, but it does not do what its author may expect:
    cores share less than the grid says, or parts of a result are never written.

    Given by Python's `warnings`; `diagnostic` has severity `warning`.
    """

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(str(diagnostic))
        self.diagnostic = diagnostic


_BETWEEN = frozenset({"pallasite", "jax", "jaxlib", "contextlib", "functools", "importlib"})
"""Packages between a line of the user's and what it asks of us."""


def warn_outside(warning: Warning) -> None:
    """Gives `warning` at the innermost line that is of no package `_BETWEEN`: filters and Python's
    memory of what it has shown go by that line, and users know it as theirs."""
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
    """Warns of `advice`, which is odd about an accepted kernel; where warnings are errors, it is
    raised itself."""
    try:
        warn_outside(KernelWarning(advice))
    except KernelWarning as error:
        raise error.diagnostic from error


UNWRITTEN = "unwritten-output"
"""The code of warnings of parts of results that nobody writes."""
UNINITIALISED = "uninitialised-read"
"""The code of what is said of loads of what nobody has written."""


def warn_before_run(advice: Diagnostic, checks: Collection[str]) -> None:
    """Warns of `advice` about a kernel that is going to run with `checks`, unless these tell of the
    same, and count it."""
    if advice.code not in (UNWRITTEN, UNINITIALISED) or "init" not in checks:
        warn(advice)


class ReadError(Diagnostic):
    """The input is not a module that we can read (syntax, truncated bytes, unknown versions)."""


class VerifyError(Diagnostic):
    """The module breaks a rule of its form."""


class Unsupported(Diagnostic):
    """The kernel asks for what the target, or this version of Pallasite, cannot do."""


class ExecutionError(Diagnostic):
    """The kernel did something illegal while running (out of bounds, deadlock, no memory)."""


class UsageError(Diagnostic):
    """The caller's arguments do not fit the kernel (wrong number of inputs, unknown target)."""
