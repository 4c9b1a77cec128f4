"""Grids of registers while they are unrolled: NumPy arrays of SSA values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from pallasite.dialects import arith

Registers = NDArray[Any]
"""A grid: SSA values of registers (None where poison), of the grid's shape."""

Grid = tuple[int, ...]


def as_grid(values: Sequence[SSAValue | None], shape: Sequence[int]) -> Registers:
    """An object array of `shape` that holds `values` in row-major order."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(tuple(shape))


def everywhere(register: SSAValue | None, shape: Grid) -> Registers:
    """A grid of `shape` that holds one register at every position."""
    array = np.empty(shape, dtype=object)
    array.fill(register)
    return array


def known_integer(value: SSAValue) -> int | None:
    """The integer that `value` is, if it is a scalar constant."""
    owner = value.owner
    if type(owner) is not arith.ConstantOp:
        return None
    constant = owner.properties["value"]
    return constant.value.data if isinstance(constant, IntegerAttr) else None
