"""Where in the user's program a primitive comes from.

The user's line is the innermost frame outside of JAX. Kernels that JAX ships are programs that use
Pallas like anybody's, so that their lines count too.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jax
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, StringAttr, UnknownLoc

import pallasite
from pallasite.frontend.jaxprs.internals import jax_core, source_info_util

_JAX = os.path.dirname(jax.__file__) + os.sep
_SHIPPED_KERNELS = os.path.join(_JAX, "experimental", "pallas", "ops") + os.sep
OURS = os.path.dirname(pallasite.__file__) + os.sep
"""Where our own files are."""


def is_users(file: str) -> bool:
    """Whether `file` holds a program, and none of JAX's or our machinery."""
    if file.startswith(_SHIPPED_KERNELS):
        return True
    return source_info_util.is_user_filename(file) and not file.startswith(OURS)


@dataclass(frozen=True)
class LibraryFunction:
    """Where a function of JAX's own begins, and its name."""

    file: str
    line: int
    name: str = field(default="", compare=False)


@lru_cache(maxsize=4096)
def _of_traceback(traceback: Any, function: LibraryFunction | None) -> LocationAttr | None:
    if traceback is None:
        return None
    codes, instructions = traceback.raw_frames()
    for code, instruction in zip(codes, instructions, strict=True):
        if function == LibraryFunction(code.co_filename, code.co_firstlineno):
            return None
        if is_users(code.co_filename):
            if function is not None and not _calls(codes, function):
                return None
            frame = source_info_util.raw_frame_to_frame(code, instruction)
            return position(frame.file_name, frame.start_line, frame.start_column)
    return None


def _calls(codes: Sequence[Any], function: LibraryFunction) -> bool:
    """Whether `function` is among what has been called."""
    return any(function == LibraryFunction(c.co_filename, c.co_firstlineno) for c in codes)


def location_of(source_info: Any, function: LibraryFunction | None = None) -> LocationAttr | None:
    """The user's line of an equation, None if no frame of it is the user's.

    In a `function` of JAX's own only what that calls is considered: its jaxpr may be one that JAX
    has kept, so that whoever has called it is the caller of another time.
    """
    return _of_traceback(source_info.traceback, function)


def location_of_function(debug_info: jax_core.DebugInfo) -> LocationAttr:
    """The line on which a traced function begins."""
    file, line = debug_info.func_filename, debug_info.func_lineno
    if file is None or line is None:
        return UnknownLoc()
    return position(file, line, 1)


def location_of_kernel(jaxpr: jax_core.Jaxpr) -> LocationAttr:
    """The line on which a kernel begins; of one that JAX has made, the first line of the user's."""
    if is_users(jaxpr.debug_info.func_filename or ""):
        return location_of_function(jaxpr.debug_info)
    return next(_lines(jaxpr), None) or location_of_function(jaxpr.debug_info)


def _lines(jaxpr: jax_core.Jaxpr) -> Generator[LocationAttr]:
    """The user's lines in a jaxpr and in those that it calls."""
    for equation in jaxpr.eqns:
        location = location_of(equation.source_info)
        if location is not None:
            yield location
    for inner in jax_core.subjaxprs(jaxpr):
        yield from _lines(inner)


def library_function(debug_info: jax_core.DebugInfo) -> LibraryFunction | None:
    """Where a traced function begins if it is JAX's own: whoever called it first is in its
    traceback."""
    file, line = debug_info.func_filename, debug_info.func_lineno
    if file is None or is_users(file):
        return None
    return LibraryFunction(file, line or 0, debug_info.func_name)


def position(file: str, line: int, column: int) -> LocationAttr:
    """The location of a place in a file."""
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))
