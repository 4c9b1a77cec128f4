"""Vectors that are known when a program is compiled: they are computed once, not in every
iteration.

Loops are full of them: a constant register that is reshaped and broadcast to a grid, or the
positions that a mask compares with its bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.dialects.types import split_grid
from pallasite.interpreter.machine.rows import inverse, matrix_order
from pallasite.interpreter.meanings import Function
from pallasite.interpreter.values import quiet

Array = NDArray[Any]
MOST_BYTES = 1 << 16
"""Bytes that a known vector may take; a broadcast view counts as its source."""
MOST_IN_ALL = 1 << 24
"""Bytes of all known vectors that a program keeps."""


class Folder:
    """Computes vectors beforehand, as long as there is room to keep them."""

    def __init__(self) -> None:
        self._left = MOST_IN_ALL

    def fold(self, op: Operation, fn: Function, known: Mapping[SSAValue, Any]) -> Any | None:
        """The only result of `op`, a vector, or None if it cannot be computed beforehand.

        `fn` is the meaning of `op`, which must have no effect; `known` has the operands that are
        known.
        """
        if len(op.results) != 1 or not isinstance(op.results[0].type, VectorType):
            return None
        if any(operand not in known for operand in op.operands):
            return None
        try:
            with quiet():
                result = fn(*(known[operand] for operand in op.operands))
        except Exception:
            # Where it raises, and whether it ever runs, is for the run to find out.
            return None
        result = _in_order(result, op.results[0].type)
        size = held_bytes(result)
        if size > MOST_BYTES and (one := uniform(result)) is not None:
            result, size = one, held_bytes(one)
        if size > min(MOST_BYTES, self._left):
            return None
        self._left -= size
        return result


def uniform(array: Array) -> Array | None:
    """`array` as a broadcast of one element (strides of 0), if all its elements are the same
    number.

    NumPy is faster where an operand has strides of 0, and merges all dimensions then. NaNs are left
    alone: which of two NaNs comes out of a sum depends on the loop that NumPy chooses. So are
    booleans.
    """
    if array.dtype.kind == "b" or not array.size:
        return None
    held = array[tuple(slice(None) if step else slice(1) for step in array.strides)]
    first = held[(slice(1),) * held.ndim]
    same = (held.view(f"u{held.itemsize}") == first.view(f"u{held.itemsize}")).all()
    if not same or (first != first).any():
        return None
    return np.broadcast_to(first.copy(), array.shape)


def _in_order(array: Array, type: VectorType[Any]) -> Array:
    """`array` with its elements in memory as in loaded grids of registers, by rows of the matrix.

    NumPy takes twice as long where operands lie in different orders. NaNs are left alone, as which
    of two comes out of a sum may depend on the order.
    """
    split = split_grid(type)
    if split is None or len(split[0]) < 2 or array.nbytes > MOST_BYTES or not any(array.strides):
        return array
    if (array != array).any():
        return array
    order = matrix_order(len(split[0]), len(split[1]) > 2)
    return array.transpose(order).copy().transpose(inverse(order))


def held_bytes(array: Any) -> int:
    """The bytes that an array keeps in memory: those of the array that it is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.nbytes
