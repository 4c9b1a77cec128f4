"""The matrix units of a core, as explicit kernels see them.

A unit has staging registers that are pushed, one active right-hand side, accumulators by address,
and a queue of results (spec/pallas_semantics.md section 4.6). Accumulators that nobody has written
since they were last popped are zero.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute

from pallasite.diagnostics import ExecutionError, SourceLocation

Array = NDArray[Any]
Operand = tuple[Array, Attribute]
"""A matrix with the type of its elements."""


class MatrixUnit:
    """One systolic array with what surrounds it."""

    def __init__(self, name: str):
        self.name = name
        self.staged: dict[int, tuple[Operand, SourceLocation | None]] = {}
        self.active: Operand | None = None
        self.accumulators: dict[int, Array] = {}
        self.queue: deque[tuple[Array, SourceLocation | None]] = deque()

    def push(self, register: int, rhs: Operand, at: SourceLocation | None) -> None:
        """Stages a right-hand side."""
        if register in self.staged:
            raise ExecutionError(
                "staging-register-full",
                f"staging register {register} of {self.name} is pushed twice without being loaded",
                at,
            )
        self.staged[register] = (rhs, at)

    def load(self, register: int, at: SourceLocation | None) -> None:
        """Makes the staged right-hand side the active one."""
        if register not in self.staged:
            raise ExecutionError(
                "staging-register-empty",
                f"staging register {register} of {self.name} is loaded but holds nothing",
                at,
            )
        self.active = self.staged.pop(register)[0]

    def rhs(self, at: SourceLocation | None) -> Operand:
        """The active right-hand side."""
        if self.active is None:
            raise ExecutionError(
                "no-active-rhs", f"{self.name} multiplies before a right-hand side is loaded", at
            )
        return self.active

    def accumulator(self, address: int, shape: tuple[int, ...], dtype: Any) -> Array:
        """The accumulated matrix at `address`."""
        held = self.accumulators.get(address)
        return np.zeros(shape, dtype) if held is None else held

    def dequeue(self, at: SourceLocation | None) -> Array:
        """The oldest result in the queue."""
        if not self.queue:
            raise ExecutionError(
                "result-queue-empty", f"{self.name} pops a result, but none is queued", at
            )
        return self.queue.popleft()[0]

    def leftovers(self) -> list[tuple[str, SourceLocation | None]]:
        """What a finished kernel should have consumed, and where it came from."""
        staged = [
            (f"staging register {register} of {self.name} is never loaded", at)
            for register, (_, at) in sorted(self.staged.items())
        ]
        return staged + [(f"a result of {self.name} is never popped", at) for _, at in self.queue]


class MatrixUnits(dict[int, MatrixUnit]):
    """The units of one core by index, made when they are first used."""

    def __missing__(self, index: int) -> MatrixUnit:
        unit = self[index] = MatrixUnit(f"MXU {index}")
        return unit
