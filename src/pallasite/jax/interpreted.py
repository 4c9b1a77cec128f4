"""Simulations in which no kernel ran on the modelled TPU, though the program has kernels.

Programs ask `jax.default_backend()` whether they are on a TPU, and where they are not have JAX
interpret their kernels, or compute without them. A simulation leaves calls with `interpret=` alone,
and JAX's backend is the CPU; where there are no other calls, neither its target nor its checks had
anything to do, which the program is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import NamedTuple

import jax

from pallasite.diagnostics import Diagnostic, Note, SourceLocation, warn
from pallasite.jax.source_locations import calling_line

_CPU = (
    "jax.default_backend() and the platform of jax.devices() are those of the CPU in a "
    "simulation, too"
)


class Met(NamedTuple):
    """How much simulations have met that tells whether a program has kernels."""

    simulated: int = 0
    interpreted: int = 0
    asked: int = 0


@dataclass
class Tally:
    """What simulations have met, in all threads."""

    simulated: int = 0
    """How often a kernel was called or run on the modelled TPU."""
    interpreted: int = 0
    """How often one was called that JAX interprets."""
    asked: int = 0
    """How often a program asked for JAX's backend."""
    _interpreted: SourceLocation | None = None
    _asked: SourceLocation | None = None

    @property
    def met(self) -> Met:
        """The numbers as they are now."""
        return Met(self.simulated, self.interpreted, self.asked)

    def interpret(self) -> None:
        """Counts a call that JAX interprets."""
        self.interpreted += 1
        self._interpreted = calling_line()

    def ask(self) -> None:
        """Counts a question for the backend."""
        self.asked += 1
        self._asked = calling_line()

    def warn_since(self, before: Met) -> None:
        """Warns if there were interpreted calls since `before`, or questions, and no others."""
        if self.simulated > before.simulated:
            return
        if self.interpreted > before.interpreted:
            code, where = "interpreted", self._interpreted
            message = "JAX interpreted this kernel, and none ran on the modelled TPU"
            notes = [
                Note("a simulation leaves calls with interpret= alone, checks included"),
                Note(f"leave interpret= out, or give False: {_CPU}"),
            ]
        elif self.asked > before.asked:
            code, where = "no-kernel", self._asked
            message = "the program asked for JAX's backend here, and no kernel ran"
            notes = [
                Note(_CPU),
                Note("choose by jax.lax.platform_dependent(..., tpu=kernel), or by an argument"),
            ]
        else:
            return
        warn(Diagnostic(code, message, where, notes, severity="warning"))


TALLY = Tally()


def count_questions(simulating: Callable[[], bool]) -> None:
    """`jax.default_backend()` of a program is counted while `simulating`."""
    backend = jax.default_backend

    @wraps(backend)
    def asked() -> str:
        if simulating():
            TALLY.ask()
        return backend()

    jax.default_backend = asked
