"""What is known of a kind of error that JAX or Python raises."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A kind of error: its type, a pattern of its message, the file of JAX that must be involved;
    and what a note says of it. The first that fits counts."""

    kind: type[BaseException] | tuple[type[BaseException], ...]
    message: str
    rule: str
    advice: tuple[str, ...]
    within: str = ""
    called: str = ""
    """A pattern of the files of JAX of which the kernel's line has called one."""
    primitive: str = ""
    """Of an error about a kernel as a whole: the primitive of the equation that it is about."""
    applies: Callable[[re.Match[str]], bool] = lambda said: True
    """Whether it is of this kind, by what the pattern found in the message."""
