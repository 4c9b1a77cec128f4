"""No search for garbage while many objects are made that stay."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def paused() -> Generator[None]:
    """Keeps Python's cycle collector off; it would visit all that is there again and again, a
    growing module, say.

    What becomes garbage meanwhile is found afterwards. Threads may overlap: the collector is never
    left off.
    """
    was_enabled = gc.isenabled()
    try:
        # Within: it may be right after this that the user interrupts.
        gc.disable()
        yield
    finally:
        if was_enabled:
            gc.enable()
