"""Kernels that simulations have lowered, for every call and simulation that has the same one.

A test suite enters one simulation per test, and JAX lowers the kernel of every new function anew;
what the library makes of it is the same each time. Whatever it depends on is part of the `Key`: the
text of the call, what JAX's text does not say of the kernel, and the settings that lowering and
preparing ask for. Kernels are text and code: no array of a call and no function of the user's is
kept. Passes of the user's may do anything, so what was lowered by them stays with the settings that
have them (`settings.settings_of`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from pallasite.diagnostics import Diagnostic
from pallasite.dialects.walking import operations
from pallasite.interpreter.run import Prepared
from pallasite.kept import Kept

KEPT_OPERATIONS = 1 << 16
"""Operations of all kernels that are kept, before and after lowering. With the code made of them
they take 1.1 to 2 KB each, so that all take 130 MB at most; what a kernel's last run leaves to the
next one (`machine.renewal`) takes some tens of KB more for each."""


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


Kernels = Kept[Key, KnownKernel]
"""The kernels that were used last."""


def kernels() -> Kernels:
    """A new cache, which knows no kernel yet."""
    return Kept(_operations, KEPT_OPERATIONS)


def _operations(key: Key, kernel: KnownKernel) -> int:
    return len(operations(kernel.module)) + len(operations(kernel.lowered))
