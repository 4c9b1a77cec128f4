"""The matrix units of a core, as explicit kernels see them.

A unit has staging registers that are pushed, one active right-hand side, accumulators, and a queue
of results (spec/pallas_semantics.md section 4.6). Accumulators are registers of 8 x 128 sums, which
are counted along the rows of a result first, as libtpu 0.0.51 counts them. Those that nobody has
written since they were last popped are zero.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from xdsl.ir import Attribute

from pallasite.diagnostics import ExecutionError, SourceLocation
from pallasite.interpreter.values import Array
from pallasite.layouts.registers import LANES, SUBLANES

Operand = tuple[Array, Attribute]
"""A matrix with the type of its elements."""


class MatrixUnit:
    """One systolic array with what surrounds it."""

    def __init__(self, name: str):
        self.name = name
        self.staged: dict[int, tuple[Operand, SourceLocation | None]] = {}
        self.active: Operand | None = None
        self._sums: dict[int, Array] = {}
        """By the number of its first register: 8 rows of sums."""
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

    def accumulated(
        self, address: int, shape: tuple[int, int], dtype: Any, at: SourceLocation | None
    ) -> Array:
        """The sums from register `address` on, as a matrix of `shape`."""
        rows, columns = shape
        zeros = np.zeros((SUBLANES, columns), dtype)
        places = self._places(address, shape)
        sums = [self._sums.get(place, zeros) for place in places]
        for held in sums:
            _check_result(held, zeros.shape, dtype, at)
        return np.concatenate(sums)[:rows] if sums else np.zeros(shape, dtype)

    def accumulate(self, address: int, sums: Array) -> None:
        """Replaces the sums from register `address` on."""
        rows, columns = sums.shape
        whole = np.zeros((-(-rows // SUBLANES) * SUBLANES, columns), sums.dtype)
        whole[:rows] = sums
        blocks = whole.reshape(-1, SUBLANES, columns)
        self._sums.update(zip(self._places(address, (rows, columns)), blocks, strict=True))

    def pop(
        self, address: int, shape: tuple[int, int], dtype: Any, at: SourceLocation | None
    ) -> Array:
        """Takes the sums from register `address` on, which are zero from then on."""
        held = self.accumulated(address, shape, dtype, at)
        for place in self._places(address, shape):
            self._sums.pop(place, None)
        return held

    def _places(self, address: int, shape: tuple[int, int]) -> list[int]:
        """The first register of every 8 rows."""
        rows, columns = shape
        wide = -(-columns // LANES)
        return [address + block * wide for block in range(-(-rows // SUBLANES))]

    def dequeue(self, shape: tuple[int, int], dtype: Any, at: SourceLocation | None) -> Array:
        """The oldest result in the queue."""
        if not self.queue:
            raise ExecutionError(
                "result-queue-empty", f"{self.name} pops a result, but none is queued", at
            )
        result = self.queue.popleft()[0]
        _check_result(result, shape, dtype, at)
        return result

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


def _check_result(
    held: Array, shape: tuple[int, ...], dtype: Any, at: SourceLocation | None
) -> None:
    if held.shape != shape or held.dtype != dtype:
        raise ExecutionError(
            "matmul-accumulator",
            f"the matrix unit holds {held.dtype} of shape {list(held.shape)} there, expected "
            f"{np.dtype(dtype)} of shape {list(shape)}",
            at,
        )
