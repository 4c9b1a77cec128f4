"""Element-wise results that take the memory of an operand.

NumPy makes every result a new array, and the processor fetches its memory before it writes there.
Where the value of an operand is not needed any more, the result is written over it instead: then a
chain of operations on large values stays in the cache for longer.
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
"""Elements of the smallest result that is worth it."""
_UFUNCS: dict[Function, np.ufunc] = {
    operator.add: np.add,
    operator.mul: np.multiply,
    operator.neg: np.negative,
    operator.sub: np.subtract,
    operator.truediv: np.divide,
}
_PRODUCTS = (grid.MatmulOp, tpu.MatmulOp)
"""What gives arrays of its own besides element-wise functions."""
_FORGETFUL = (tpu.AllReduceOp, tpu.StoreOp)
"""What neither keeps an operand, nor gives a view of one, besides what gives new arrays."""


class ReuseWriter(Names):
    """The part of a function's writer that knows whose arrays may be written to."""

    def __init__(self, program: Program, func: FuncOp):
        super().__init__(program, func)
        self._in_order = True
        """Whether what is written next is what the block has next."""
        self._done: set[Operation] = set()
        """What was written together with an operation before it."""
        self._own: set[SSAValue] = set()
        """Values whose arrays are theirs alone: no constants, memory, or views of other values."""

    def _is_own(self, ops: Sequence[Operation], fn: Function) -> None:
        """Notes that the results of `ops`, which mean `fn`, are an array, or the parts of one."""
        if ufunc_of(fn) is not None or type(ops[0]) in _PRODUCTS:
            self._own.update(op.results[0] for op in ops)

    def _over(self, ops: Sequence[Operation], fn: Function) -> tuple[Function, int | None]:
        """How the results of `ops`, which mean `fn` and are computed at once, take the memory of an
        operand: a function that is told where to write, and that operand's number. `fn` and None if
        they do not."""
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
        """The operation after `op`, which means `fn`, if that stores the result, whole and for
        nobody else, and the function that can be told where to."""
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
        """Whether nobody needs the array of `value` once `op` has read it."""
        return (
            value in self._own
            and value in self._dying.get(op, ())
            and all(_forgets(use.operation, op) for use in value.uses)
        )


def _forgets(user: Operation, op: Operation) -> bool:
    """Whether `user`, if it comes before `op`, has no view of its operands when that runs."""
    if user.parent is not op.parent:
        return False
    if isinstance(user, grid.ReduceOp):
        return shape_of(user.value.type)[user.dim.value.data] > 1
    return is_fresh(user) or isinstance(user, _FORGETFUL)


def ufunc_of(fn: Function) -> np.ufunc | None:
    """What `fn` is on arrays, if it is a function of NumPy that can be told where to write."""
    return fn if isinstance(fn, np.ufunc) else _UFUNCS.get(fn)
