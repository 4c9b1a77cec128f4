"""Elementwise results that are written over the memory of an operand.

NumPy makes a new array for every result, whose memory the processor fetches before it writes there.
Where the value of an operand is no longer needed, the result is written over it instead (`out=`). A
chain of operations on large values then stays in the cache longer.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import grid, tpu
from pallasite.dialects.func import FuncOp
from pallasite.dialects.types import shape_of
from pallasite.interpreter.compiled.brief import is_fresh
from pallasite.interpreter.compiled.names import Names
from pallasite.interpreter.meanings import Function

if TYPE_CHECKING:
    from pallasite.interpreter.compiled.compiled import Program

LEAST_ELEMENTS = 1 << 12
"""Elements of the smallest result for which this is faster."""
_UFUNCS: dict[Function, np.ufunc] = {
    operator.add: np.add,
    operator.mul: np.multiply,
    operator.neg: np.negative,
    operator.sub: np.subtract,
    operator.truediv: np.divide,
}
"""The NumPy function that takes `out=`, for Python operators that meanings use."""
_PRODUCTS = (grid.MatmulOp, tpu.MatmulOp)
"""Operations besides elementwise ones whose results are arrays of their own."""
_FORGETFUL = (tpu.AllReduceOp, tpu.StoreOp)
"""Operations that neither keep an operand nor give a view of one, besides those of `is_fresh`."""


class ReuseWriter(Names):
    """The part of a function's writer that knows which arrays may be written over."""

    def __init__(self, program: Program, func: FuncOp):
        super().__init__(program, func)
        self._in_order = True
        """Whether operations are being written in the order of their block."""
        self._done: set[Operation] = set()
        """Operations that were written together with an earlier one."""
        self._own: set[SSAValue] = set()
        """Values that alone use their arrays: no constants, memory, or views of other values."""

    def _is_own(self, ops: Sequence[Operation], fn: Function) -> None:
        """Notes that the results of `ops`, whose meaning is `fn`, own their array, or parts of one
        (a pack)."""
        if ufunc_of(fn) is not None or type(ops[0]) in _PRODUCTS:
            self._own.update(op.results[0] for op in ops)

    def _over(self, ops: Sequence[Operation], fn: Function) -> tuple[Function, int | None]:
        """The function and the operand number with which the results of `ops` are written over an
        operand.

        `ops` are one operation or a pack, and `fn` is their meaning. If no operand of the same type
        is dead afterwards, or the results are small, the answer is `fn` and None.
        """
        ufunc, result = ufunc_of(fn), ops[0].results[0].type
        if ufunc is None or not isinstance(result, VectorType):
            return fn, None
        if len(ops) * prod(shape_of(result)) < LEAST_ELEMENTS:
            return fn, None
        for number, operand in enumerate(ops[0].operands):
            values = {op.operands[number]: op for op in ops}
            if operand.type != result or len(values) < len(ops):
                continue
            if all(self._ends(value, op) for value, op in values.items()):
                return ufunc, number
        return fn, None

    def _stored(self, op: Operation, fn: Function) -> tuple[tpu.StoreOp, np.ufunc] | None:
        """The store that follows `op` and its NumPy function, if the result can be written to
        memory directly.

        That needs a large result that only this store uses, without mask or addition. `fn` is the
        meaning of `op`.
        """
        ufunc, store = ufunc_of(fn), op.next_op
        if ufunc is None or not isinstance(store, tpu.StoreOp):
            return None
        (result,) = op.results
        if store.value is not result or not result.has_one_use():
            return None
        if store.mask is not None or store.add.value.data or not self._in_order:
            return None
        return (store, ufunc) if prod(shape_of(result.type)) >= LEAST_ELEMENTS else None

    def _ends(self, value: SSAValue, op: Operation) -> bool:
        """Whether nothing needs the array of `value` once `op` has read it."""
        return (
            value in self._own
            and value in self._dying.get(op, ())
            and all(_forgets(use.operation, op) for use in value.uses)
        )


def _forgets(user: Operation, op: Operation) -> bool:
    """Whether `user`, if it comes before `op`, has left no view of its operands by then."""
    if user.parent is not op.parent:
        return False
    if isinstance(user, grid.ReduceOp):
        return shape_of(user.value.type)[user.dim.value.data] > 1
    return is_fresh(user) or isinstance(user, _FORGETFUL)


def ufunc_of(fn: Function) -> np.ufunc | None:
    """The NumPy function with `out=` that `fn` is on arrays, if there is one."""
    return fn if isinstance(fn, np.ufunc) else _UFUNCS.get(fn)
