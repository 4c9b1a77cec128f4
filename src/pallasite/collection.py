"""Pauses Python's cycle collector while many objects are made that stay."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def paused() -> Generator[None]:
    """A context in which the cycle collector is off, which would visit a growing module again and
    again.

    Garbage is collected afterwards. If contexts of several threads overlap, the collector may be
    switched on early, but is never left off.
    """
    was_enabled = gc.isenabled()
    try:
        # Inside of `try`: the user may interrupt right after it.
        gc.disable()
        yield
    finally:
        if was_enabled:
            gc.enable()
