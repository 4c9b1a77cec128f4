"""Kernels that simulations have lowered, for every call and simulation that has the same one.

A test suite enters one simulation per test, and JAX lowers the kernel of every new function anew;
what the library makes of it is the same each time. Whatever it depends on is part of the `Key`: the
text of the call, what JAX's text does not say of the kernel, and the settings that lowering and
preparing ask for. Kernels are text and code: no array of a call and no function of the user's is
kept. Passes of the user's may do anything, so what was lowered by them stays with the settings that
have them (`settings.settings_of`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from pallasite.diagnostics import Diagnostic
from pallasite.dialects.walking import operations
from pallasite.interpreter.run import Prepared

KEPT_OPERATIONS = 1 << 16
"""Operations of all kernels that are kept, before and after lowering. With the code made of them
they take 1.1 to 2 KB each, so that all take 130 MB at most."""


@dataclass(frozen=True)
class Key:
    """What a lowered and prepared kernel depends on."""

    text: str
    """The call, or the kernel that was traced."""
    arguments: tuple[Any, ...]
    """Names of the kernel's arguments and the line on which it begins."""
    target: str
    form: str
    allow_beyond_reference: bool
    max_memory: int | None


@dataclass(frozen=True)
class KnownKernel:
    """A kernel that a simulation has lowered; threads share it, and nobody changes it."""

    module: ModuleOp
    """As JAX wrote it, or as it was traced."""
    lowered: ModuleOp
    """In the form that is executed."""
    advice: tuple[Diagnostic, ...] = ()
    """What is odd about it, to be told whenever a program with it is lowered."""
    prepared: list[Prepared] = field(default_factory=list[Prepared])
    """Executable copies that no thread is running."""

    @property
    def size(self) -> int:
        """The number of its operations."""
        return len(operations(self.module)) + len(operations(self.lowered))


class Kernels:
    """The kernels that were used last; threads share it."""

    def __init__(self) -> None:
        self._kept: dict[Key, tuple[KnownKernel, int]] = {}
        self._operations = 0
        self._lock = threading.Lock()

    def known(self, key: Key, make: Callable[[], KnownKernel]) -> KnownKernel:
        """The kernel of that key, made if nobody has made it yet."""
        with self._lock:
            found = self._kept.pop(key, None)
            if found is not None:
                self._kept[key] = found
                return found[0]
        # Without the lock: other kernels are lowered meanwhile. Of two threads that make the same
        # kernel, the one that is first has its kept.
        kernel = make()
        size = kernel.size
        with self._lock:
            found = self._kept.setdefault(key, (kernel, size))
            if found[0] is kernel:
                self._operations += size
                self._forget()
        return found[0]

    def clear(self) -> None:
        """Forgets them all."""
        with self._lock:
            self._kept.clear()
            self._operations = 0

    def __len__(self) -> int:
        return len(self._kept)

    def _forget(self) -> None:
        """Parts with those that nobody has asked for the longest, but never with the newest."""
        while self._operations > KEPT_OPERATIONS and len(self._kept) > 1:
            _, size = self._kept.pop(next(iter(self._kept)))
            self._operations -= size
