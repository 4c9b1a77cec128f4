"""Scalar code that folds while it is written: integers known now, SSA values known later.

The pipeline schedule is written once, over `Scalar`s. A grid axis of size 1, a single step or a
constant index map then leave no operation behind, and a condition known now leaves no `scf.if`.
`build.add(%i, 0)` is `%i`, `build.mul(2, 3)` is the integer 6, and `build.when(1, write)` writes in
place.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import lru_cache
from types import MappingProxyType
from typing import cast

from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    UnknownLoc,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pallasite.dialects import arith, scf
from pallasite.dialects.directives import CMPI_PREDICATES
from pallasite.dialects.integers import wrap
from pallasite.dialects.predicates import ORDERS
from pallasite.lowering.creation import made
from pallasite.passes.scalar_folds import FOLDS

Scalar = int | SSAValue
"""An i32, index or i1: a Python integer if it is known now (an i1 is then 0 or 1)."""

_Integer = type[
    arith.AddiOp | arith.SubiOp | arith.MuliOp | arith.DivSIOp | arith.MinSIOp | arith.MaxSIOp
]
_Logic = type[arith.AndIOp | arith.OrIOp]

_PROPERTIES: dict[type[Operation], dict[str, Attribute]] = {
    kind: arith.default_properties(kind) for kind in FOLDS
}


def known(value: Scalar | None) -> int | None:
    """The integer that `value` is now, None if only the running kernel knows it."""
    if isinstance(value, int):
        return value
    return None if value is None else arith.known_integer(value)


def same(a: Scalar, b: Scalar) -> bool:
    """Whether `a` and `b` are surely equal."""
    return a is b or (known(a) is not None and known(a) == known(b))


class ScalarBuilder:
    """Writes operations, located at `location`, at one insertion point, initially the end of
    `block`; equal arithmetic is folded and written once.

    The start of `block`, which must dominate everything written, holds one `arith.constant` per
    integer used.
    """

    def __init__(self, block: Block, location: LocationAttr):
        self.location = location
        self._block = self._entry = block
        self._last_constant: Operation | None = None
        self._pool: dict[tuple[int, Attribute], SSAValue] = {}
        # Arithmetic already written, by block, innermost last: what an enclosing block holds
        # dominates the insertion point.
        self._written: list[dict[object, SSAValue]] = [{}]

    # Placing operations.

    def emit(self, op: Operation, hint: str | None = None) -> Operation:
        """Inserts `op` with the builder's location, naming its first result `hint`."""
        op.location = self.location
        if hint is not None and op.results:
            op.results[0].name_hint = hint
        self._block.add_op(op)
        return op

    def keep(self, op: Operation) -> Operation:
        """Inserts `op`, which comes from the user's kernel, with its own location."""
        self._block.add_op(op)
        return op

    @contextmanager
    def within(self, block: Block) -> Generator[None, None, None]:
        """Writes to the end of `block` for as long as the context lasts."""
        outer, self._block = self._block, block
        self._written.append({})
        try:
            yield
        finally:
            self._block = outer
            self._written.pop()

    @contextmanager
    def at(self, location: LocationAttr) -> Generator[None, None, None]:
        """Gives what is written the source location `location`, if that is known."""
        outer = self.location
        if not isinstance(location, UnknownLoc):
            self.location = location
        try:
            yield
        finally:
            self.location = outer

    def when(self, condition: Scalar, write: Callable[[], None]) -> None:
        """Writes `write()` under `condition`: in place, not at all, or in an `scf.if`."""
        now = known(condition)
        if now is not None:
            if now:
                write()
            return
        then = Block()
        with self.within(then):
            write()
            self.emit(made(scf.YieldOp, (), ()))
        self.emit(scf.IfOp(self.value(condition), (), [then]))

    def once(self, op: Operation, *, everywhere: bool = True) -> SSAValue:
        """The result of `op`, or of an equal operation written before; `op` is erased then.

        With `everywhere`, operations in enclosing blocks count too, else only those in this one.
        """
        key = (
            type(op), tuple(op.operands), tuple(op.properties.items()), tuple(op.result_types),
        )  # fmt: skip
        known = self._known(key, everywhere)
        if known is None:
            known = self._written[-1][key] = self.keep(op).results[0]
        else:
            op.erase()
        return known

    def made(
        self,
        kind: type[Operation],
        operands: tuple[SSAValue, ...],
        result: Attribute,
        properties: Mapping[str, Attribute] = MappingProxyType({}),
        hint: str | None = None,
    ) -> SSAValue:
        """The result of a new operation of class `kind`, or of an equal one written before."""
        key = (kind, operands, tuple(properties.items()), (result,))
        known = self._known(key)
        if known is None:
            op = made(kind, operands, (result,), properties)
            known = self._written[-1][key] = self.emit(op, hint).results[0]
        return known

    def _known(self, key: object, everywhere: bool = True) -> SSAValue | None:
        for written in self._written if everywhere else self._written[-1:]:
            if key in written:
                return written[key]
        return None

    # Values.

    def value(self, scalar: Scalar, type: Attribute = i32) -> SSAValue:
        """`scalar` as an SSA value; an integer becomes a constant of `type`."""
        if isinstance(scalar, SSAValue):
            return scalar
        key = (scalar, type)
        if key not in self._pool:
            properties = {"value": IntegerAttr(scalar, cast("IntegerType | IndexType", type))}
            op = made(arith.ConstantOp, (), (type,), properties, location=self.location)
            op.results[0].name_hint = _constant_name(scalar, type)
            if self._last_constant is not None:
                self._entry.insert_op_after(op, self._last_constant)
            elif self._entry.first_op is not None:
                self._entry.insert_op_before(op, self._entry.first_op)
            else:
                self._entry.add_op(op)
            self._last_constant = op
            self._pool[key] = op.results[0]
        return self._pool[key]

    def add(self, a: Scalar, b: Scalar, hint: str | None = None) -> Scalar:
        """`a + b`."""
        if known(a) == 0:
            return b
        return a if known(b) == 0 else self._binary(arith.AddiOp, a, b, hint)

    def sub(self, a: Scalar, b: Scalar, hint: str | None = None) -> Scalar:
        """`a - b`."""
        return a if known(b) == 0 else self._binary(arith.SubiOp, a, b, hint)

    def mul(self, a: Scalar, b: Scalar, hint: str | None = None) -> Scalar:
        """`a * b`."""
        if 0 in (known(a), known(b)):
            return 0
        if known(a) == 1:
            return b
        return a if known(b) == 1 else self._binary(arith.MuliOp, a, b, hint)

    def divide(self, a: Scalar, b: int) -> Scalar:
        """`a` divided by a positive number, rounded towards zero."""
        return a if b == 1 else self._binary(arith.DivSIOp, a, b)

    def smallest(self, a: Scalar, b: Scalar) -> Scalar:
        """The signed minimum."""
        return self._binary(arith.MinSIOp, a, b)

    def largest(self, a: Scalar, b: Scalar) -> Scalar:
        """The signed maximum."""
        return self._binary(arith.MaxSIOp, a, b)

    def below(self, value: Scalar, bound: int) -> Scalar:
        """`value`, one of the i32 `0 .. bound - 1`, written so that its range can be read off.

        The TPU compiler checks the bounds of each DMA at run time unless it finds by itself that
        offsets stay in range. It knows the range of a mask, a sum and a selection, but not that of
        a value that a loop carries.
        """
        now = known(value)
        if now is not None:
            return now
        half = 1 << (bound.bit_length() - 1)
        rest = bound - half
        low = self._mask(value, half)
        if rest == 0:
            return low
        # The upper `half` of the values overlaps the lower one, but for `rest` of them.
        high = self.add(self._mask(self.sub(value, rest), half), rest)
        return self.select(self.less(value, half), low, high)

    def _mask(self, value: Scalar, count: int) -> Scalar:
        """`value` modulo the power of two `count`."""
        if count == 1:
            return 0
        return self.made(arith.AndIOp, (self.value(value), self.value(count - 1)), i32)

    def equal(self, a: Scalar, b: Scalar, hint: str | None = None) -> Scalar:
        """`a == b`, 0 or 1 where that is known."""
        return 1 if same(a, b) else self._compare("eq", a, b, hint)

    def differ(self, a: Scalar, b: Scalar, hint: str | None = None) -> Scalar:
        """`a != b`, 0 or 1 where that is known."""
        return 0 if same(a, b) else self._compare("ne", a, b, hint)

    def less(self, a: Scalar, b: Scalar) -> Scalar:
        """`a < b`, signed; 0 or 1 where that is known."""
        return 0 if same(a, b) else self._compare("slt", a, b)

    def both(self, a: Scalar, b: Scalar) -> Scalar:
        """Whether both conditions hold."""
        if 0 in (known(a), known(b)):
            return 0
        if known(a) is not None:
            return b
        return a if known(b) is not None else self._logic(arith.AndIOp, a, b)

    def either(self, a: Scalar, b: Scalar) -> Scalar:
        """Whether one of two conditions holds."""
        if 1 in (known(a), known(b)):
            return 1
        if known(a) is not None:
            return b
        return a if known(b) is not None else self._logic(arith.OrIOp, a, b)

    def any_of(self, conditions: Iterable[Scalar]) -> Scalar:
        """Whether one of the conditions holds; 0 if there are none."""
        result: Scalar = 0
        for condition in conditions:
            result = self.either(result, condition)
        return result

    def select(self, condition: Scalar, a: Scalar, b: Scalar, hint: str | None = None) -> Scalar:
        """`a` where the condition holds, else `b`."""
        now = known(condition)
        if now is not None:
            return a if now else b
        if same(a, b):
            return a
        operands = (self.value(condition), self.value(a), self.value(b))
        return self.made(arith.SelectOp, operands, operands[1].type, hint=hint)

    def _binary(self, kind: _Integer, a: Scalar, b: Scalar, hint: str | None = None) -> Scalar:
        x, y = known(a), known(b)
        if x is not None and y is not None:
            return wrap(FOLDS[kind](x, y), 32)
        operands = (self.value(a), self.value(b))
        return self.made(kind, operands, operands[0].type, _PROPERTIES[kind], hint)

    def _logic(self, kind: _Logic, a: Scalar, b: Scalar) -> Scalar:
        return self.made(kind, (self.value(a, i1), self.value(b, i1)), i1)

    def _compare(self, predicate: str, a: Scalar, b: Scalar, hint: str | None = None) -> Scalar:
        x, y = known(a), known(b)
        if x is not None and y is not None:
            return int(ORDERS[predicate[-2:]](x, y))
        properties = {"predicate": _predicate(predicate)}
        return self.made(arith.CmpiOp, (self.value(a), self.value(b)), i1, properties, hint)


@lru_cache
def _predicate(name: str) -> IntegerAttr[IntegerType]:
    return IntegerAttr(CMPI_PREDICATES.index(name), i64)


def _constant_name(value: int, type: Attribute) -> str:
    if type == i1:
        return "true" if value else "false"
    suffix = "" if isinstance(type, IndexType) else f"_{type}"
    return f"c{'m' if value < 0 else ''}{abs(value)}{suffix}"
