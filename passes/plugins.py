"""Passes from other installed packages and from users' Python files (`--load-pass-plugin`).

Such a file may also add targets and lowering rules. Errors in these passes are reported at their
own lines, and not as defects of Pallasite.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from xdsl.passes import ModulePass
from xdsl.universe import Universe
from xdsl.utils.exceptions import DiagnosticException, ShrinkException, VerifyException

from pallasite.diagnostics import Diagnostic, SourceLocation, UsageError
from pallasite.passes.registry import PassFactory
from pallasite.passes.rules import Registered
from pallasite.targets import TARGETS

GROUP = "xdsl.universe"
"""The group of entry points by which packages offer dialects and passes (xDSL's `universe.py`)."""
_OURS = "pallasite.universe:"
_KNOWN = ("pallasite", "xdsl")
"""Packages in whose passes an exception is not blamed on a user."""


def installed_passes() -> dict[str, PassFactory]:
    """The passes that other installed packages offer to `xdsl-opt`, and so to our tools, by name.

    Raises a `UsageError` for an entry point that cannot be loaded.
    """
    passes: dict[str, PassFactory] = {}
    for entry in entry_points(group=GROUP):
        if not entry.value.startswith(_OURS):
            passes |= _universe(entry).all_passes
    return passes


def _universe(entry: EntryPoint) -> Universe:
    known = f"{entry.value}, which an installed package offers as {GROUP}"
    try:
        universe = entry.load()
    except Exception as error:  # importing a package of others runs any code
        raise UsageError("pass-plugin", f"cannot load {known}: {error}") from error
    if not isinstance(universe, Universe):
        raise UsageError("pass-plugin", f"expected a Universe, got {universe!r} from {known}")
    return universe


def passes_of_file(path: str) -> dict[str, PassFactory]:
    """The passes that the Python file at `path` defines, by name; what it only imports does not
    count.

    Executes the file. Raises a `UsageError` if that fails, or if the file defines no pass and adds
    no target or lowering rule.
    """
    targets = dict(TARGETS)
    module = _executed(path)
    adds = module.__name__ in Registered.authors or any(
        target is not targets.get(name) for name, target in TARGETS.items()
    )
    passes: dict[str, PassFactory] = {}
    for found in vars(module).values():
        if not isinstance(found, type) or not issubclass(found, ModulePass):
            continue
        if found.__module__ != module.__name__ or not isinstance(found.__dict__.get("name"), str):
            continue
        if found.name in passes:
            raise UsageError("pass-plugin", f"{path} defines two passes called {found.name!r}")
        passes[found.name] = partial(_same, found)
    if not passes and not adds:
        raise UsageError(
            "pass-plugin",
            f"{path} defines no ModulePass with a name, and adds no target and no lowering rule",
        )
    return passes


def _executed(path: str) -> ModuleType:
    name = f"pallasite_plugin_{hashlib.sha256(path.encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError("pass-plugin", f"expected a Python file, got {path}")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a file of the user's runs any code
        del sys.modules[name]
        if isinstance(error, OSError) and error.filename == path:
            raise UsageError("pass-plugin", f"cannot read {path}: {error.strerror}") from error
        told = f"cannot load {path}: {type(error).__name__}: {error}"
        raise UsageError("pass-plugin", told, line_in(path, error)) from error
    return module


def line_in(path: str, error: BaseException) -> SourceLocation | None:
    """The innermost line of the file at `path` in the traceback of `error`; None without one."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return SourceLocation(path, error.lineno or 1, error.offset or 1)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    return SourceLocation(path, frames[-1].lineno or 1, 1) if frames else None


def _same(kind: type[ModulePass]) -> type[ModulePass]:
    return kind


@contextmanager
def upstream(what: str) -> Generator[None, None, None]:
    """A context in which an exception is reported as a failure of `what` of xDSL, not of Pallasite.

    Passes and output formats of xDSL may assert what kernels do not fulfil, or need programs that
    are not installed.
    """
    try:
        yield
    except (Diagnostic, DiagnosticException, VerifyException, ShrinkException):
        raise
    except (MemoryError, RecursionError):
        raise
    except Exception as error:
        sentence = (str(error).strip().splitlines() or [""])[0]
        told = f"{what} of xDSL failed: {type(error).__name__}: {sentence}"
        raise Diagnostic("pass-failed", told) from error


@contextmanager
def blamed(step: ModulePass) -> Generator[None, None, None]:
    """A context in which an exception in a pass of xDSL or of a user is reported as its failure, at
    its line, not as a defect of Pallasite."""
    if type(step).__module__.partition(".")[0] == "xdsl":
        with upstream(f"pass {step.name}"):
            yield
        return
    try:
        yield
    except (Diagnostic, DiagnosticException, VerifyException, MemoryError):
        raise
    except Exception as error:  # a pass of others runs any code
        kind = type(step)
        if kind.__module__.partition(".")[0] in _KNOWN:
            raise
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        told = f"pass {step.name}: {type(error).__name__}: {error}"
        where = line_in(file, error) if file else None
        raise Diagnostic("pass-failed", told, where) from error
