"""Where in the user's program a primitive comes from.

The user's line is the innermost frame outside of JAX. Kernels that JAX ships are programs that use
Pallas like anybody's, so that their lines count too.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import jax
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, StringAttr, UnknownLoc

import pallasite
from pallasite.frontend.jaxprs.internals import source_info_util

_JAX = os.path.dirname(jax.__file__) + os.sep
_SHIPPED_KERNELS = os.path.join(_JAX, "experimental", "pallas", "ops") + os.sep
_OURS = os.path.dirname(pallasite.__file__) + os.sep


def is_users(file: str) -> bool:
    """Whether `file` holds a program, and none of JAX's or our machinery."""
    if file.startswith(_SHIPPED_KERNELS):
        return True
    return source_info_util.is_user_filename(file) and not file.startswith(_OURS)


@lru_cache(maxsize=4096)
def _of_traceback(traceback: Any) -> LocationAttr | None:
    if traceback is None:
        return None
    codes, instructions = traceback.raw_frames()
    for code, instruction in zip(codes, instructions, strict=True):
        if is_users(code.co_filename):
            frame = source_info_util.raw_frame_to_frame(code, instruction)
            return position(frame.file_name, frame.start_line, frame.start_column)
    return None


def location_of(source_info: Any) -> LocationAttr | None:
    """The user's line of an equation, None if no frame of it is the user's."""
    return _of_traceback(source_info.traceback)


def location_of_function(debug_info: Any) -> LocationAttr:
    """The line on which a traced function begins."""
    file, line = debug_info.func_filename, debug_info.func_lineno
    if file is None or line is None:
        return UnknownLoc()
    return position(file, line, 1)


def is_library_function(debug_info: Any) -> bool:
    """Whether a traced function is JAX's own: whoever called it first is in its traceback."""
    file = debug_info.func_filename
    return file is not None and not is_users(file)


def position(file: str, line: int, column: int) -> LocationAttr:
    """The location of a place in a file."""
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))
