"""Holds values that repeat along dimensions as *slim* arrays, with size 1 in those dimensions.

A column or a row of a matrix is a whole grid of registers in which every lane, or every sublane,
has the same element. So are the sums of a matrix's rows, and what is computed from them. For such a
value of shape (4, 4, 8, 128) the compiled driver holds an array of shape (4, 4, 8, 1), as long as
all operations that use it follow NumPy's broadcasting rules. For other operations it is broadcast
to its full shape, which is a view too.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import prod
from operator import methodcaller
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, grid, tpu
from pallasite.dialects.func import FuncOp
from pallasite.dialects.tpu.keywords import ReductionKind
from pallasite.dialects.types import integers_in, shape_of
from pallasite.interpreter import driver
from pallasite.interpreter.compiled.fold import uniform
from pallasite.interpreter.compiled.pack_writer import PackWriter
from pallasite.interpreter.effects.registers import store_result
from pallasite.interpreter.meanings import Function
from pallasite.interpreter.ops import reduce, transcendental
from pallasite.interpreter.ops.choice import chooser
from pallasite.interpreter.ops.shape import stretch
from pallasite.interpreter.values import carrier, is_float

if TYPE_CHECKING:
    from pallasite.interpreter.compiled.compiled import Program

Shape = tuple[int, ...]
LEAST_ELEMENTS = 1 << 12
"""Elements of the smallest value for which this is faster."""
MOST_CHOICE = 1 << 16
"""Elements of the largest known operand of a select for which a mask of words is made."""
_ELEMENTWISE = frozenset(
    (
        *transcendental.ELEMENTWISE,
        arith.AddfOp,
        arith.CmpfOp,
        arith.DivfOp,
        arith.MaximumfOp,
        arith.MinimumfOp,
        arith.MulfOp,
        arith.NegfOp,
        arith.SubfOp,
    )
)
"""Operations that NumPy broadcasts, element by element."""
_SUMS = frozenset(
    (
        ReductionKind.SUM,
        ReductionKind.MAX,
        ReductionKind.MIN,
        ReductionKind.MAXF,
        ReductionKind.MINF,
    )
)


class SlimWriter(PackWriter, ABC):
    """The part of a function's writer that knows slim arrays."""

    def __init__(self, program: Program, func: FuncOp):
        super().__init__(program, func)
        self._slim: dict[SSAValue, Shape] = {}
        """The shapes of the arrays of live values that are held slim."""
        self._slim_rules: dict[type[Operation], Callable[[Any], bool]] = {
            **dict.fromkeys(_ELEMENTWISE, self._slim_elementwise),
            grid.BroadcastOp: self._slim_broadcast,
            grid.ReshapeOp: self._slim_reshape,
            tpu.AllReduceOp: self._slim_reduction,
            tpu.DynamicGatherOp: self._slim_gather,
            **dict.fromkeys((arith.MaximumfOp, arith.MinimumfOp), self._bound_by),
        }

    def _uses(self, op: Operation) -> list[str]:
        self._widen(op.operands)
        return super()._uses(op)

    def _bury(self, op: Operation) -> None:
        super()._bury(op)
        for value in self._dying.get(op, ()):
            self._slim.pop(value, None)

    def _widen(self, values: Iterable[SSAValue]) -> None:
        """Broadcasts slim arrays of `values` to their full shapes, for all later operations.

        It must not be written inside a branch that is not always taken.
        """
        for value in dict.fromkeys(values):
            shape = self._slim.pop(value, None)
            if shape is not None:
                name = self._names[value]
                repeat = self._bind("f", stretch(shape, shape_of(value.type)))
                self._line(f"{name} = {repeat}({name})")

    def _write_slim(self, op: Operation) -> bool:
        """Writes `op` if an operand or its result is held slim, or it is a select with known
        operands.

        False if `op` has no such rule, or is too small to be worth it.
        """
        if isinstance(op, arith.SelectOp):
            return self._choose(op)
        rule = self._slim_rules.get(type(op))
        if rule is None or op.results[0].first_use is None:
            return False
        if prod(shape_of(op.results[0].type)) < LEAST_ELEMENTS:
            return False
        if all(operand in self._known for operand in op.operands):
            return False
        outer, self._op = self._op, op
        written = rule(op)
        self._op = outer
        return written

    def _result(self, op: Operation, call: str, shape: Shape) -> bool:
        """Writes `call` as the result of `op`, an array of `shape`; always True."""
        self._bury(op)
        (value,) = op.results
        self._line(f"{self._define(value)} = {call}")
        if shape != shape_of(value.type):
            self._slim[value] = shape
        return True

    def _store_result(self, op: Operation, fn: Function, names: Sequence[str]) -> bool:
        """Writes `op` together with the store of its result, which goes straight to memory.

        `fn` is the meaning of `op` and `names` are its operands. False if no such store follows.
        """
        found = self._stored(op, fn)
        if found is None:
            return False
        store, ufunc = found
        self._widen(store.operands[1:])
        place = [self._names[operand] for operand in store.operands[1:]]
        fn = store_result(store, ufunc, self.program.facts)
        call = self._bind_effect(fn, type(store))
        outer, self._op = self._op, store
        self._line(f"{call}({', '.join(['core', *names, *place])})")
        self._op = outer
        self._bury(op)
        self._define(op.results[0])  # Dies where it was stored.
        self._done.add(store)
        return True

    def _choose(self, op: arith.SelectOp) -> bool:
        """Writes a select between vectors of which some are known, by a function made for those."""
        shape = shape_of(op.result.type)
        found = [self._known.get(operand) for operand in op.operands]
        left = [operand for operand in op.operands if operand not in self._known]
        if not left or shape_of(op.cond.type) != shape:
            return False
        if not LEAST_ELEMENTS <= prod(shape) <= MOST_CHOICE:
            return False
        fn = chooser(carrier(op.result.type), *found)
        if fn is None:
            return False
        self._widen(left)
        names = [self._names[operand] for operand in left]
        self._own.add(op.result)
        return self._result(op, f"{self._bind('f', fn)}({', '.join(names)})", shape)

    def _slim_reduction(self, op: tpu.AllReduceOp) -> bool:
        """Writes a reduction of floats, whose result is the same along the reduced dimension."""
        if ReductionKind(op.kind.data) not in _SUMS or not is_float(op.input.type):
            return False
        shape, dim = shape_of(op.result.type), op.dim.value.data
        if shape != shape_of(op.input.type) or not 0 <= dim < len(shape):
            return False
        (name,) = self._uses(op)
        fn = self._bind("f", reduce.reduced(op))
        return self._result(op, f"{fn}({name})", (*shape[:dim], 1, *shape[dim + 1 :]))

    def _slim_gather(self, op: tpu.DynamicGatherOp) -> bool:
        """Writes a gather that takes the same position everywhere: a copy of one slice."""
        dims, index = integers_in(op.dimensions), self._known.get(op.indices)
        shape = shape_of(op.result.type)
        if len(dims) != 1 or index is None or shape_of(op.source.type) != shape:
            return False
        (dim,) = dims
        first = int(index.flat[0]) % shape[dim]
        if (index % shape[dim] != first).any():
            return False
        name = self._uses(op)[0]
        part = (*(slice(None),) * dim, slice(first, first + 1))
        call = f"{self._bind('s', partial(_copied, part))}({name})"
        return self._result(op, call, (*shape[:dim], 1, *shape[dim + 1 :]))

    def _slim_broadcast(self, op: grid.BroadcastOp) -> bool:
        """Writes a broadcast as its operand, with dimensions of size 1 in front."""
        (value,) = op.operands
        if value in self._known:
            return False
        held = self._slim.get(value, shape_of(value.type))
        new = len(shape_of(op.results[0].type)) - len(held)
        if new == 0:
            return self._result(op, self._names[value], held)
        # Other rules compare shapes dimension by dimension, so the ranks must agree.
        return self._reshaped(op, (*[1] * new, *held))

    def _reshaped(self, op: Operation, shape: Shape) -> bool:
        """Writes `op` as a reshape of its operand's array to `shape`; always True."""
        call = self._bind("s", methodcaller("reshape", shape))
        return self._result(op, f"{call}({self._names[op.operands[0]]})", shape)

    def _slim_reshape(self, op: grid.ReshapeOp) -> bool:
        """Writes a reshape that only adds or drops dimensions of size 1, of a slim array."""
        (value,) = op.operands
        source, result = shape_of(value.type), shape_of(op.results[0].type)
        slim = self._slim.get(value)
        if slim is None or [n for n in source if n > 1] != [n for n in result if n > 1]:
            return False
        left = iter([held for n, held in zip(source, slim, strict=True) if n > 1])
        return self._reshaped(op, tuple([next(left) if n > 1 else 1 for n in result]))

    def _slim_elementwise(self, op: Operation) -> bool:
        """Writes an elementwise operation with a slim operand; the result has the larger size in
        each dimension."""
        if not any(operand in self._slim for operand in op.operands):
            return False
        arrays = [self._as_it_is(operand) for operand in op.operands]
        shape = cast(Shape, tuple(map(max, *(s for _, s in arrays), (1,) * len(arrays[0][1]))))
        return self._computed(op, [name for name, _ in arrays], shape)

    def _computed(self, op: Operation, names: Sequence[str], shape: Shape) -> bool:
        """Writes `op` with operands called `names`; its result is held in an array of `shape`."""
        fn: Function = driver.meaning_of(op, self.program.facts)[0]
        names = list(names)
        if shape == shape_of(op.results[0].type):
            if self._store_result(op, fn, names):
                return True
            self._is_own([op], fn)
            fn, over = self._over([op], fn)
            names += [] if over is None else [f"out={names[over]}"]
        return self._result(op, f"{self._bind('f', fn)}({', '.join(names)})", shape)

    def _bound_by(self, op: Operation) -> bool:
        """Writes a minimum or maximum with a uniform constant, given as one register that is
        broadcast.

        NumPy's fast loop for these does not take an operand of a single element.
        """
        if any(operand in self._slim for operand in op.operands):
            return self._slim_elementwise(op)
        shape, names = shape_of(op.results[0].type), self._uses(op)
        for number, operand in enumerate(op.operands):
            one = uniform(self._known[operand]) if operand in self._known else None
            if one is not None and len(shape) > 2:
                register = np.full(shape[-2:], one[(0,) * one.ndim])
                bound = np.broadcast_to(register, shape)
                return self._computed(
                    op, [*names[:number], self._bind("k", bound), *names[number + 1 :]], shape
                )
        return False

    def _as_it_is(self, value: SSAValue) -> tuple[str, Sequence[int]]:
        """The name and the shape of the array that is held for `value`, without broadcasting it."""
        whole = shape_of(value.type)
        if value in self._known:
            one = uniform(self._known[value])
            if one is not None:
                corner = np.ascontiguousarray(one[(slice(1),) * one.ndim])
                return self._bind("k", corner), corner.shape
        return self._names[value], self._slim.get(value, whole)


def _copied(part: Any, x: Any) -> Any:
    return x[part].copy()
