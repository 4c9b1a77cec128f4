"""Where in the user's program something happens: an error, a call, the beginning of a kernel."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Generator, Iterable
from types import FrameType, TracebackType
from typing import Any

from pallasite.diagnostics import SourceLocation
from pallasite.dialects.locations import position_of
from pallasite.frontend.jaxprs.internals import jax_core
from pallasite.frontend.jaxprs.locations import is_users, location_of

_WRITTEN = "<string>"
"""The file of functions that `dataclass` writes."""


def frames_of(traceback: TracebackType | None) -> Generator[tuple[str, int, int]]:
    """File, line and column of what was running, from the outermost."""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        positions = list(code.co_positions())
        column = positions[traceback.tb_lasti // 2][2]
        yield code.co_filename, traceback.tb_lineno, 0 if column is None else column + 1
        traceback = traceback.tb_next


def location_in(frames: list[tuple[str, int, int]]) -> SourceLocation | None:
    """The innermost of `frames` (`frames_of`) that is the user's."""
    for frame in reversed(frames):
        if is_users(frame[0]) and frame[0] != _WRITTEN:
            return SourceLocation(*frame)
    return None


def line_of_primitive(jaxprs: Iterable[jax_core.Jaxpr], primitive: str) -> SourceLocation | None:
    """The first line of the user's in `jaxprs` on which `primitive` is."""
    for jaxpr in jaxprs:
        for equation in jaxpr.eqns:
            location = location_of(equation.source_info)
            if equation.primitive.name == primitive and location is not None:
                return position_of(location)
        if (inner := line_of_primitive(jax_core.subjaxprs(jaxpr), primitive)) is not None:
            return inner
    return None


def beginning(debug: jax_core.DebugInfo | None) -> SourceLocation | None:
    """Where a kernel begins, by the debug information of its jaxpr."""
    if debug is None or debug.func_filename is None:
        return None
    return SourceLocation(debug.func_filename, debug.func_lineno or 0)


def beginning_of_function(function: Any) -> SourceLocation | None:
    """Where a Python function begins that may be wrapped, or bound to arguments."""
    function = inspect.unwrap(function) if callable(function) else function
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)
    return None if code is None else SourceLocation(code.co_filename, code.co_firstlineno)


def said_in(error: Exception) -> SourceLocation | None:
    """Where a function begins, if JAX's message says that."""
    found = re.search(r" at (\S+\.py):(\d+)\b", str(error))
    return None if found is None else SourceLocation(found[1], int(found[2]))


def calling_line() -> SourceLocation | None:
    """The user's line that calls the kernel."""
    for frame in _callers():
        file = frame.f_code.co_filename
        if is_users(file) and file != _WRITTEN:
            return SourceLocation(file, frame.f_lineno)
    return None


def is_within(file: str) -> bool:
    """Whether a function of a file whose name ends so is being called."""
    return any(frame.f_code.co_filename.endswith(file) for frame in _callers())


def _callers() -> Generator[FrameType]:
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back
