"""Grids of registers while they are unrolled: NumPy arrays of SSA values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

Registers = NDArray[Any]
"""A grid: SSA values of registers (None where poison), of the grid's shape."""

Grid = tuple[int, ...]


def as_grid(values: Sequence[SSAValue | None], shape: Sequence[int]) -> Registers:
    """An object array of `shape` that holds `values` in row-major order."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(tuple(shape))


def everywhere(register: SSAValue | None, shape: Grid) -> Registers:
    """A grid of `shape` that holds one register, or poison, at every position."""
    array = np.empty(shape, dtype=object)
    array.fill(register)
    return array
