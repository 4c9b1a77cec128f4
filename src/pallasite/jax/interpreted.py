"""Simulations in which JAX interpreted kernels, and none ran on the modelled TPU.

Programs ask `jax.default_backend()` whether they are on a TPU, and have JAX interpret their kernels
where they are not. A simulation leaves calls with `interpret=` alone; where there are no others,
neither its target nor its checks had anything to do, which the program is told.
"""

from __future__ import annotations

from dataclasses import dataclass

from pallasite.diagnostics import Diagnostic, Note, SourceLocation, warn
from pallasite.jax.places import calling_line


@dataclass
class Tally:
    """Kernels that simulations have met, in all threads."""

    simulated: int = 0
    """How often one was called or run on the modelled TPU."""
    interpreted: int = 0
    """How often one was called that JAX interprets."""
    place: SourceLocation | None = None
    """The line of the last of these."""

    def interpret(self) -> None:
        """Counts a call that JAX interprets."""
        self.interpreted += 1
        self.place = calling_line()

    def warn_since(self, simulated: int, interpreted: int) -> None:
        """Warns if there were only interpreted calls since the numbers were these."""
        if self.simulated > simulated or self.interpreted == interpreted:
            return
        warn(
            Diagnostic(
                "interpreted",
                "JAX interpreted this kernel, and none ran on the modelled TPU",
                self.place,
                [
                    Note("a simulation leaves calls with interpret= alone, checks included"),
                    Note(
                        "leave interpret= out, or give False: jax.default_backend() and the "
                        "platform of jax.devices() are those of the CPU in a simulation, too"
                    ),
                ],
                severity="warning",
            )
        )


TALLY = Tally()
